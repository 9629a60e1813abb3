// Forwarding: routes, then stations by their Ethernet address; what neither knows is dropped.
#pragma once

control Forward(
    inout ethernet_t ethernet, inout ipv4_t ipv4, inout ipv6_t ipv6, inout standard_metadata_t standard,
    out bool dropped)
{
    bool known = false;
    bool routed = false;

    action drop() {
        mark_to_drop(standard);
        dropped = true;
    }

    // A switch: the packet leaves as it came.
    action to_port(bit<9> port) {
        standard.egress_spec = port;
        known = true;
    }

    // A router: the next hop's addresses, and one hop less.
    action to_next_hop(bit<9> port, bit<48> source, bit<48> destination) {
        standard.egress_spec = port;
        known = true;
        ethernet.source = source;
        ethernet.destination = destination;
        routed = true;
    }

    table route_ipv4 {
        key = { ipv4.destination: lpm; }
        actions = { to_port; to_next_hop; drop; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    table route_ipv6 {
        key = { ipv6.destination: lpm; }
        actions = { to_port; to_next_hop; drop; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    table station {
        key = { ethernet.destination: exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        dropped = false;
        if (ipv4.isValid()) {
            route_ipv4.apply();
        } else if (ipv6.isValid()) {
            route_ipv6.apply();
        }
        if (!known && !dropped) {
            station.apply();
        }
        if (routed && ipv4.isValid()) {
            if (ipv4.ttl <= 1) {
                drop();
            } else {
                age_ipv4(ipv4);
            }
        } else if (routed && ipv6.isValid()) {
            if (ipv6.hop_limit <= 1) {
                drop();
            } else {
                ipv6.hop_limit = ipv6.hop_limit - 1;
            }
        }
    }
}
