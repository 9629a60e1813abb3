// A copy of a packet becomes a DTA report.
#pragma once

control PutDta(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    register<bit<32>>(1) report_sequence;
    bit<8> form = 0;

    action drop() {
        mark_to_drop(standard);
    }

    // Where reports go, and in which form.
    action to_translator(
        bit<8> base, bit<48> source_mac, bit<48> destination_mac, bit<32> source, bit<32> destination,
        bit<16> source_port)
    {
        put_outer(hdr.outer_ethernet, hdr.outer_ipv4, hdr.outer_udp, source_mac, destination_mac, source,
            destination, source_port, DTA_PORT);
        form = base;
    }

    table translator {
        actions = { to_translator; drop; }
        default_action = drop();
    }

    apply {
        translator.apply();
        bit<32> sequence;
        report_sequence.read(sequence, 0);
        report_sequence.write(0, sequence + 1);
        bit<16> bytes = (bit<16>)form;
        if (form == FORM_SIZED) {
            hdr.sized.setValid();
            hdr.sized.opcode = facts.opcode;
            hdr.sized.immediate = 0;
            hdr.sized.retransmit = 0;
            hdr.sized.reserved_1 = 0;
            hdr.sized.key_bytes = 4;
            hdr.sized.data_bytes = 4;
            hdr.sized.sequence = sequence;
            hdr.sized.redundancy = facts.redundancy;
            hdr.sized.hop = facts.opcode == POSTCARDING ? facts.hop : 0;
            hdr.sized.path_length = facts.path_length;
            hdr.sized.reserved_2 = 0;
            if (facts.opcode == KEY_INCREMENT) {
                hdr.sized.data_bytes = 8;
                hdr.sized_8.setValid();
                hdr.sized_8.key = facts.key;
                hdr.sized_8.data = (bit<64>)facts.value;
                bytes = bytes + 12;
            } else {
                hdr.sized_4.setValid();
                hdr.sized_4.key = facts.opcode == APPEND ? facts.list : facts.key;
                hdr.sized_4.data = facts.value;
                bytes = bytes + 8;
            }
        } else {
            if (form == FORM_THREE) {
                hdr.three.setValid();
                hdr.three.opcode = facts.opcode;
                hdr.three.sequence = (bit<8>)sequence;
                hdr.three.immediate = 0;
                hdr.three.retransmit = 0;
                hdr.three.reserved_1 = 0;
            } else {
                hdr.two.setValid();
                hdr.two.opcode = facts.opcode;
                hdr.two.immediate = 0;
                hdr.two.reserved_1 = 0;
            }
            if (facts.opcode == KEY_WRITE) {
                hdr.key_write.setValid();
                hdr.key_write.redundancy = facts.redundancy;
                hdr.key_write.key = facts.key;
                hdr.key_write.data = facts.value;
                bytes = bytes + 9;
            } else if (facts.opcode == APPEND) {
                hdr.append.setValid();
                hdr.append.list = facts.list;
                hdr.append.data = facts.value;
                bytes = bytes + 8;
            } else if (facts.opcode == KEY_INCREMENT) {
                hdr.key_increment.setValid();
                hdr.key_increment.redundancy = facts.redundancy;
                hdr.key_increment.key = facts.key;
                hdr.key_increment.counter = (bit<64>)facts.value;
                bytes = bytes + 13;
            } else {
                hdr.postcard.setValid();
                hdr.postcard.key = facts.key;
                hdr.postcard.hop = facts.hop;
                hdr.postcard.data = facts.value;
                bytes = bytes + 9;
            }
        }
        hdr.outer_udp.length = bytes + 8;
        hdr.outer_ipv4.total_length = bytes + 28;
        hdr.ethernet.setInvalid();
        hdr.vlan.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.ipv6.setInvalid();
        truncate((bit<32>)bytes + 42);
    }
}
