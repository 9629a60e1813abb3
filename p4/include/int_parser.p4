// Ethernet, a VLAN tag, IPv4 without options or IPv6, TCP or UDP, and INT-MD over them if the DSCP announces it.
#pragma once

parser IntParser(
    packet_in packet, out headers_t hdr, inout facts_t facts, inout standard_metadata_t standard)
{
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_VLAN: vlan;
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        facts.dscp = hdr.ipv4.dscp;
        // no options, and no fragment: only the first of them has ports
        transition select(
            hdr.ipv4.header_words, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol)
        {
            (5, 0, 0, PROTOCOL_UDP): udp;
            (5, 0, 0, PROTOCOL_TCP): tcp;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        facts.dscp = hdr.ipv6.dscp;
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: udp;
            PROTOCOL_TCP: tcp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition announced;
    }

    state tcp {
        packet.extract(hdr.tcp);
        transition select(hdr.tcp.header_words) {
            0 .. 4: accept;
            5: announced;
            default: tcp_options;
        }
    }

    state tcp_options {
        packet.extract(hdr.tcp_options, (bit<32>)(hdr.tcp.header_words - 5) << 5);
        transition announced;
    }

    state announced {
        transition select(facts.dscp) {
            INT_DSCP: shim;
            default: accept;
        }
    }

    // INT-MD whose shim holds the DSCP; anything else stays payload
    state shim {
        transition select(packet.lookahead<bit<6>>()) {
            6w0b0001_00: md;
            default: accept;
        }
    }

    state md {
        packet.extract(hdr.shim);
        packet.extract(hdr.md);
        transition select(hdr.shim.length) {
            0 .. 2: accept; // no room for the header: `IntPacket` passes it
            default: stack;
        }
    }

    state stack {
        facts.left = hdr.shim.length - 3;
        transition select(facts.left) {
            0x80 &&& 0x80: w128;
            default: maybe_w64;
        }
    }

    state w128 {
        packet.extract(hdr.stack.w128);
        packet.extract(hdr.stack.w128_more);
        transition maybe_w64;
    }

    state maybe_w64 {
        transition select(facts.left) {
            0x40 &&& 0x40: w64;
            default: maybe_w32;
        }
    }

    state w64 {
        packet.extract(hdr.stack.w64);
        transition maybe_w32;
    }

    state maybe_w32 {
        transition select(facts.left) {
            0x20 &&& 0x20: w32;
            default: maybe_w16;
        }
    }

    state w32 {
        packet.extract(hdr.stack.w32);
        transition maybe_w16;
    }

    state maybe_w16 {
        transition select(facts.left) {
            0x10 &&& 0x10: w16;
            default: maybe_w8;
        }
    }

    state w16 {
        packet.extract(hdr.stack.w16);
        transition maybe_w8;
    }

    state maybe_w8 {
        transition select(facts.left) {
            0x8 &&& 0x8: w8;
            default: maybe_w4;
        }
    }

    state w8 {
        packet.extract(hdr.stack.w8);
        transition maybe_w4;
    }

    state maybe_w4 {
        transition select(facts.left) {
            0x4 &&& 0x4: w4;
            default: maybe_w2;
        }
    }

    state w4 {
        packet.extract(hdr.stack.w4);
        transition maybe_w2;
    }

    state maybe_w2 {
        transition select(facts.left) {
            0x2 &&& 0x2: w2;
            default: maybe_w1;
        }
    }

    state w2 {
        packet.extract(hdr.stack.w2);
        transition maybe_w1;
    }

    state maybe_w1 {
        transition select(facts.left) {
            1 &&& 1: w1;
            default: accept;
        }
    }

    state w1 {
        packet.extract(hdr.stack.w1);
        transition accept;
    }
}

control IntDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.group);
        packet.emit(hdr.report);
        packet.emit(hdr.main);
        packet.emit(hdr.own);
        packet.emit(hdr.drop);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.tcp);
        packet.emit(hdr.tcp_options);
        packet.emit(hdr.shim);
        packet.emit(hdr.md);
        packet.emit(hdr.hop);
        packet.emit(hdr.stack);
    }
}
