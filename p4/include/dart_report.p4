// DART: which slot a packet's report is for, and the RDMA write that it becomes.
#pragma once

control ChooseSlot(inout headers_t hdr, inout facts_t facts) {
    bit<32> slots = 0;
    bit<32> copies = 0;
    bit<32> collectors = 0;
    bit<32> copy = 0;

    // The layout of the stores, alike at all collectors; at most four copies.
    action set_stores(bit<32> slot_count, bit<32> copy_count, bit<32> collector_count) {
        slots = slot_count;
        copies = copy_count;
        collectors = collector_count;
    }

    table stores {
        actions = { set_stores; NoAction; }
        default_action = NoAction();
    }

    // `sample`, of 2^32, is the share of packets that are reported.
    action report(bit<32> sample) {
        facts.opcode = KEY_WRITE;
        facts.share = sample;
    }

    table report_ipv4 {
        key = {
            hdr.ipv4.source: ternary;
            hdr.ipv4.destination: ternary;
            facts.protocol: ternary;
            facts.source_port: range;
            facts.destination_port: range;
        }
        actions = { report; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            stores.apply();
            report_ipv4.apply();
            if (facts.opcode != 0 && facts.share != 0xffffffff) {
                bit<32> drawn;
                random<bit<32>>(drawn, 0, 0xffffffff);
                if (drawn >= facts.share) {
                    facts.opcode = 0;
                }
            }
            if (slots == 0) {
                facts.opcode = 0;
            }
        }
        if (facts.opcode != 0) {
            hash(facts.key, HashAlgorithm.crc32, 32w0, {
                hdr.ipv4.source, hdr.ipv4.destination, facts.protocol, facts.source_port, facts.destination_port
            }, 64w0x100000000);
            random<bit<32>>(copy, 0, copies - 1);
            bit<32> code;
            if (copy == 0) {
                code = key_hash_0(facts.key);
            } else if (copy == 1) {
                code = key_hash_1(facts.key);
            } else if (copy == 2) {
                code = key_hash_2(facts.key);
            } else {
                code = key_hash_3(facts.key);
            }
            facts.slot = reduced(code, slots);
            facts.checksum = not_zero(key_hash_16(facts.key), key_hash_17(facts.key));
            facts.collector = reduced(key_hash_18(facts.key), collectors);
        }
    }
}

control PutDart(inout headers_t hdr, inout facts_t facts, inout standard_metadata_t standard) {
    register<bit<24>>(256) sent; // packets to each collector
    connection_t to = { 0, 0, 0, 0, 0, 0 };
    bit<8> opcode = 0;
    bit<24> first = 0;
    bit<64> base = 0;
    bit<32> region = 0;

    // A collector's NIC and store; `operation`: WRITE ONLY of UC (0x2a), which is not answered, or of RC (0x0a).
    action to_nic(
        bit<48> source_mac, bit<48> destination_mac, bit<32> source, bit<32> destination, bit<16> source_port,
        bit<24> queue_pair, bit<8> operation, bit<24> first_psn, bit<64> address, bit<32> memory_key)
    {
        to.source_mac = source_mac;
        to.destination_mac = destination_mac;
        to.source = source;
        to.destination = destination;
        to.source_port = source_port;
        to.queue_pair = queue_pair;
        opcode = operation;
        first = first_psn;
        base = address;
        region = memory_key;
    }

    table collector {
        key = { facts.collector: exact; }
        actions = { to_nic; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    PutWrite() put_write;
    PutIcrc() put_icrc;

    apply {
        collector.apply();
        if (opcode == 0) {
            mark_to_drop(standard);
        } else {
            bit<24> number;
            sent.read(number, facts.collector);
            sent.write(facts.collector, number + 1);
            hdr.roce.w0.setValid();
            hdr.roce.w0.value = swapped(facts.checksum);
            hdr.roce.w1.setValid();
            hdr.roce.w1.value = facts.node_id;
            hdr.roce.w2.setValid();
            hdr.roce.w2.value = facts.latency;
            hdr.roce.w3.setValid();
            hdr.roce.w3.value = facts.occupancy;
            hdr.roce.w4.setValid();
            hdr.roce.w4.value = facts.ingress_port ++ facts.egress_port;
            hdr.roce.w5.setValid();
            hdr.roce.w5.value = facts.time;
            put_write.apply(
                hdr.roce, to, opcode, first + number, base + (bit<64>)facts.slot * DART_STRIDE, region, 6);
            put_icrc.apply(hdr.roce);
            hdr.ethernet.setInvalid();
            hdr.vlan.setInvalid();
            hdr.ipv4.setInvalid();
            truncate((bit<32>)hdr.roce.ipv4.total_length + 14);
        }
    }
}
