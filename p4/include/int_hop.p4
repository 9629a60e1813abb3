// A switch's own values in INT and in reports, as an instruction bitmap asks for them.
#pragma once

// Words of a hop (INT 2.1, 5.7): timestamps and wide interfaces take two.
bit<5> words_of(in bit<16> instructions) {
    bit<5> words = 0;
    words = words + (bit<5>)instructions[15:15] + (bit<5>)instructions[14:14] + (bit<5>)instructions[13:13];
    words = words + (bit<5>)instructions[12:12] + (bit<5>)instructions[8:8] + (bit<5>)instructions[7:7];
    words = words + (bit<5>)instructions[6:6] + (bit<5>)instructions[5:5] + (bit<5>)instructions[4:4];
    words = words + (bit<5>)instructions[3:3] + (bit<5>)instructions[2:2] + (bit<5>)instructions[1:1];
    words = words + (bit<5>)instructions[0:0];
    words = words + ((bit<5>)instructions[11:11] << 1) + ((bit<5>)instructions[10:10] << 1);
    return words + ((bit<5>)instructions[9:9] << 1);
}

// Fill in the values that the bitmap asks for; what a switch of this kind does not know is all ones.
control PutHop(inout hop_t hop, inout facts_t facts, in bit<32> node_id, in bit<16> instructions) {
    apply {
        if (instructions[15:15] == 1) {
            hop.node.setValid();
            hop.node.node_id = node_id;
        }
        if (instructions[14:14] == 1) {
            hop.ports.setValid();
            hop.ports.ingress_port = facts.ingress_port;
            hop.ports.egress_port = facts.egress_port;
        }
        if (instructions[13:13] == 1) {
            hop.latency.setValid();
            hop.latency.hop_latency = facts.latency;
        }
        if (instructions[12:12] == 1) {
            hop.queue.setValid();
            hop.queue.queue_id = 0;
            hop.queue.queue_occupancy = facts.occupancy;
        }
        if (instructions[11:11] == 1) {
            hop.ingress_time.setValid();
            hop.ingress_time.ingress_time = facts.ingress_ns;
        }
        if (instructions[10:10] == 1) {
            hop.egress_time.setValid();
            hop.egress_time.egress_time = facts.egress_ns;
        }
        if (instructions[9:9] == 1) {
            hop.wide_ports.setValid();
            hop.wide_ports.l2_ingress_port = (bit<32>)facts.ingress_port;
            hop.wide_ports.l2_egress_port = (bit<32>)facts.egress_port;
        }
        if (instructions[8:8] == 1) {
            hop.utilization.setValid();
            hop.utilization.tx_utilization = 0xffffffff;
        }
        if (instructions[7:7] == 1) {
            hop.buffer.setValid();
            hop.buffer.buffer_id = 0xff;
            hop.buffer.buffer_occupancy = 0xffffff;
        }
        if (instructions[6:6] == 1) {
            hop.filler_9.setValid();
            hop.filler_9.reserved_1 = 0xffffffff;
        }
        if (instructions[5:5] == 1) {
            hop.filler_10.setValid();
            hop.filler_10.reserved_1 = 0xffffffff;
        }
        if (instructions[4:4] == 1) {
            hop.filler_11.setValid();
            hop.filler_11.reserved_1 = 0xffffffff;
        }
        if (instructions[3:3] == 1) {
            hop.filler_12.setValid();
            hop.filler_12.reserved_1 = 0xffffffff;
        }
        if (instructions[2:2] == 1) {
            hop.filler_13.setValid();
            hop.filler_13.reserved_1 = 0xffffffff;
        }
        if (instructions[1:1] == 1) {
            hop.filler_14.setValid();
            hop.filler_14.reserved_1 = 0xffffffff;
        }
        if (instructions[0:0] == 1) {
            hop.checksum.setValid();
            hop.checksum.checksum_complement = 0xffffffff;
        }
    }
}
