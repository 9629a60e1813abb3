// Ethernet, a VLAN tag, IPv4 or IPv6, and the labels after it if the IP protocol announces them.
#pragma once

parser LabelParser(
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
        facts.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.header_words, hdr.ipv4.fragment_offset) {
            (0 .. 4, _): accept;
            (5, 0): payload;
            (5, _): later_fragment;
            default: ipv4_options;
        }
    }

    state ipv4_options {
        packet.extract(hdr.ipv4_options, (bit<32>)(hdr.ipv4.header_words - 5) << 5);
        transition select(hdr.ipv4.fragment_offset) {
            0: payload;
            default: later_fragment;
        }
    }

    state later_fragment {
        facts.fragment = 1;
        transition payload;
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        facts.protocol = hdr.ipv6.next_header;
        transition payload;
    }

    state payload {
        transition select(facts.protocol) {
            LABEL_PROTOCOL: option;
            default: ports;
        }
    }

    state option {
        packet.extract(hdr.option);
        facts.protocol = hdr.option.next_header;
        facts.count = hdr.option.count;
        transition select(hdr.option.count) {
            8w0 .. MAX_HOP: items;
            default: tracked;
        }
    }

    state tracked {
        facts.tracked = 1;
        facts.carried = hdr.option.count - MAX_HOP;
        transition items_8;
    }

    state items {
        facts.carried = hdr.option.count;
        transition items_8;
    }

    state items_8 {
        transition select(facts.carried) {
            0 .. 7: maybe_4;
            8 .. 15: eight_1;
            16 .. 23: eight_2;
            24 .. 31: eight_3;
            32 .. 39: eight_4;
            40 .. 47: eight_5;
            default: accept; // more than this program reads: the packet passes
        }
    }

    state eight_5 {
        packet.extract(hdr.items.i8_5);
        transition eight_4;
    }

    state eight_4 {
        packet.extract(hdr.items.i8_4);
        transition eight_3;
    }

    state eight_3 {
        packet.extract(hdr.items.i8_3);
        transition eight_2;
    }

    state eight_2 {
        packet.extract(hdr.items.i8_2);
        transition eight_1;
    }

    state eight_1 {
        packet.extract(hdr.items.i8_1);
        transition maybe_4;
    }

    state maybe_4 {
        transition select(facts.carried) {
            4 &&& 4: item_4;
            default: maybe_2;
        }
    }

    state item_4 {
        packet.extract(hdr.items.i4);
        transition maybe_2;
    }

    state maybe_2 {
        transition select(facts.carried) {
            2 &&& 2: item_2;
            default: maybe_1;
        }
    }

    state item_2 {
        packet.extract(hdr.items.i2);
        transition maybe_1;
    }

    state maybe_1 {
        transition select(facts.carried) {
            1 &&& 1: item_1;
            default: whole;
        }
    }

    state item_1 {
        packet.extract(hdr.items.i1);
        transition whole;
    }

    state whole {
        facts.whole = 1;
        transition ports;
    }

    state ports {
        transition select(facts.fragment, facts.protocol) {
            (0, PROTOCOL_UDP): look_at_ports;
            (0, PROTOCOL_TCP): look_at_ports;
            default: accept;
        }
    }

    state look_at_ports {
        bit<32> both = packet.lookahead<bit<32>>();
        facts.source_port = both[31:16];
        facts.destination_port = both[15:0];
        transition accept;
    }
}

control LabelDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.flow);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.option);
        packet.emit(hdr.item);
        packet.emit(hdr.items);
    }
}
