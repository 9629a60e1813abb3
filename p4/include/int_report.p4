// Telemetry Report 2.0: a copy of a packet becomes a report.
#pragma once

control PutReport(
    inout ethernet_t outer_ethernet, inout ipv4_t outer_ipv4, inout udp_t outer_udp, inout report_group_t group,
    inout report_t report, inout report_main_t main, inout hop_t own, inout hop_drop_t dropped, inout facts_t facts,
    inout standard_metadata_t standard, in bit<32> node_id)
{
    register<bit<32>>(1) report_sequence;
    bit<16> most = 0;

    action drop() {
        mark_to_drop(standard);
    }

    // Where reports go; `bytes`: of a packet that a report holds at most, 0 all.
    action to_collector(
        bit<48> source_mac, bit<48> destination_mac, bit<32> source, bit<32> destination, bit<16> port,
        bit<6> hw_id, bit<16> bytes)
    {
        put_outer(outer_ethernet, outer_ipv4, outer_udp, source_mac, destination_mac, source,
            destination, port, port);
        group.setValid();
        group.version = 2;
        group.hw_id = hw_id;
        group.node_id = node_id;
        most = bytes;
    }

    table collector {
        actions = { to_collector; drop; }
        default_action = drop();
    }

    PutHop() put_hop;

    apply {
        collector.apply();
        if (group.isValid()) {
            bit<32> sequence;
            report_sequence.read(sequence, 0);
            group.sequence = (bit<22>)sequence;
            report_sequence.write(0, sequence + 1);
            // the node id is in the group header; reserved bits and a checksum complement are no values
            bit<16> bits = facts.instructions & 0x7f80;
            if (facts.drop_reason != 0) {
                bits = 0x4001;
            }
            put_hop.apply(own, facts, node_id, bits & 0xfffe);
            if (facts.drop_reason != 0) {
                dropped.setValid();
                dropped.queue_id = 0;
                dropped.drop_reason = facts.drop_reason;
                dropped.reserved_1 = 0;
            }
            bit<16> words = (bit<16>)words_of(bits);
            bit<16> inner = (bit<16>)facts.length;
            if (most != 0 && inner > most) {
                inner = most;
            }
            bit<16> length = 2 + words + ((inner + 3) >> 2);
            report.setValid();
            report.report_type = 1;
            report.inner_type = 3;
            report.report_length = length < 255 ? (bit<8>)length : 255;
            report.metadata_length = (bit<8>)words;
            report.dropped = facts.drop_reason != 0 ? 1w1 : 1w0;
            report.congested = facts.congested;
            report.tracked = facts.drop_reason != 0 ? 1w0 : 1w1;
            report.intermediate = 0;
            report.reserved_1 = 0;
            main.setValid();
            main.metadata_bits = bits;
            main.domain_id = 0;
            main.ds_metadata_bits = 0;
            main.ds_metadata_status = 0;
            // UDP, group, report and main contents take 28 bytes
            outer_udp.length = 28 + (words << 2) + inner;
            outer_ipv4.total_length = outer_udp.length + 20;
            truncate((bit<32>)outer_ipv4.total_length + 14);
        }
    }
}
