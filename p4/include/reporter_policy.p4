// Which packets a DTA reporter reports, and by which primitive.
#pragma once

control ChooseReport(inout headers_t hdr, inout facts_t facts) {
    bit<8> chosen = 0;
    bit<8> first_ttl = 0;

    // `value`: which of the values below; `sample`: of 2^32, the share of packets that are reported; `number`: of a
    // list.
    action key_write(bit<8> redundancy, bit<8> value, bit<32> sample) {
        facts.opcode = KEY_WRITE;
        facts.redundancy = redundancy;
        facts.share = sample;
        chosen = value;
    }

    action append(bit<32> number, bit<8> value, bit<32> sample) {
        facts.opcode = APPEND;
        facts.list = number;
        facts.share = sample;
        chosen = value;
    }

    action key_increment(bit<8> redundancy, bit<8> value, bit<32> sample) {
        facts.opcode = KEY_INCREMENT;
        facts.redundancy = redundancy;
        facts.share = sample;
        chosen = value;
    }

    // `ttl`: of a packet at its first switch, which tells a switch its place on the path.
    action postcard(bit<8> ttl, bit<8> length, bit<8> value, bit<32> sample) {
        facts.opcode = POSTCARDING;
        facts.path_length = length;
        facts.share = sample;
        first_ttl = ttl;
        chosen = value;
    }

    table report_ipv4 {
        key = {
            hdr.ipv4.source: ternary;
            hdr.ipv4.destination: ternary;
            facts.protocol: ternary;
            facts.source_port: range;
            facts.destination_port: range;
        }
        actions = { key_write; append; key_increment; postcard; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table report_ipv6 {
        key = {
            hdr.ipv6.source: ternary;
            hdr.ipv6.destination: ternary;
            facts.protocol: ternary;
            facts.source_port: range;
            facts.destination_port: range;
        }
        actions = { key_write; append; key_increment; postcard; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            report_ipv4.apply();
            hash(facts.key, HashAlgorithm.crc32, 32w0, {
                hdr.ipv4.source, hdr.ipv4.destination, facts.protocol, facts.source_port, facts.destination_port
            }, 64w0x100000000);
            facts.hop = first_ttl - hdr.ipv4.ttl + 1;
            facts.value = (bit<32>)hdr.ipv4.total_length;
        } else if (hdr.ipv6.isValid()) {
            report_ipv6.apply();
            hash(facts.key, HashAlgorithm.crc32, 32w0, {
                hdr.ipv6.source, hdr.ipv6.destination, facts.protocol, facts.source_port, facts.destination_port
            }, 64w0x100000000);
            facts.hop = first_ttl - hdr.ipv6.hop_limit + 1;
            facts.value = (bit<32>)hdr.ipv6.payload_length + 40;
        }
        if (chosen == VALUE_NODE) {
            facts.value = facts.node_id;
        } else if (chosen == VALUE_LATENCY) {
            facts.value = facts.latency;
        } else if (chosen == VALUE_OCCUPANCY) {
            facts.value = facts.occupancy;
        } else if (chosen == VALUE_ONE) {
            facts.value = 1;
        } else if (chosen == VALUE_PORTS) {
            facts.value = facts.ingress_port ++ facts.egress_port;
        } else if (chosen == VALUE_TIME) {
            facts.value = facts.time;
        } else if (chosen == VALUE_FLOW) {
            facts.value = facts.key;
        }
        if (facts.opcode != 0 && facts.share != 0xffffffff) {
            bit<32> drawn;
            random<bit<32>>(drawn, 0, 0xffffffff);
            if (drawn >= facts.share) {
                facts.opcode = 0;
            }
        }
    }
}
