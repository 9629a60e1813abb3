// What the last hop sends to the controller: a copy of the packet becomes a datagram with its labels.
#pragma once

control PutExport(
    inout ethernet_t ethernet, inout ipv4_t outer_ipv4, inout udp_t udp, inout label_flow_t flow, inout ipv4_t ipv4,
    inout ipv6_t ipv6, inout facts_t facts, inout standard_metadata_t standard)
{
    action drop() {
        mark_to_drop(standard);
    }

    // Where labels go.
    action to_controller(
        bit<48> source_mac, bit<48> destination_mac, bit<32> source, bit<32> destination, bit<16> port)
    {
        put_outer(ethernet, outer_ipv4, udp, source_mac, destination_mac, source,
            destination, port, port);
    }

    table controller {
        actions = { to_controller; drop; }
        default_action = drop();
    }

    apply {
        controller.apply();
        bit<16> size = 10 + ((bit<16>)facts.exported << 5); // UDP, the option and the items
        if (facts.tracked == 1) {
            size = size + 38;
            flow.setValid();
            flow.version = LABEL_FLOW_VERSION;
            flow.no_items = 0;
            flow.source_port = facts.source_port;
            flow.destination_port = facts.destination_port;
            if (ipv4.isValid()) {
                flow.source = 80w0 ++ 16w0xffff ++ ipv4.source;
                flow.destination = 80w0 ++ 16w0xffff ++ ipv4.destination;
            } else {
                flow.source = ipv6.source;
                flow.destination = ipv6.destination;
            }
        }
        udp.length = size;
        outer_ipv4.total_length = size + 20;
        truncate((bit<32>)size + 34);
    }
}
