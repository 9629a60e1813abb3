// DTA reports in all three forms with keys of 4 bytes, which opcode and length tell apart, and RoCEv2 from a NIC.
#pragma once

parser TranslatorParser(
    packet_in packet, out headers_t hdr, inout facts_t facts, inout standard_metadata_t standard)
{
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(
            hdr.ipv4.header_words, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol)
        {
            (5, 0, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dport) {
            DTA_PORT: dta;
            ROCE_PORT: roce;
            default: accept;
        }
    }

    state roce {
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            ROCE_ACK: aeth;
            ROCE_ATOMIC_ACK: aeth;
            default: accept;
        }
    }

    state aeth {
        packet.extract(hdr.aeth);
        transition accept;
    }

    state dta {
        facts.opcode = packet.lookahead<bit<8>>();
        transition select(facts.opcode, hdr.udp.length) {
            (KEY_WRITE, 19): two;
            (APPEND, 18): two;
            (KEY_INCREMENT, 23): two;
            (POSTCARDING, 19): two;
            (KEY_WRITE, 20): three;
            (APPEND, 19): three;
            (KEY_INCREMENT, 24): three;
            (POSTCARDING, 20): three;
            (KEY_WRITE, 28): sized;
            (APPEND, 28): sized;
            (KEY_INCREMENT, 32): sized;
            (POSTCARDING, 28): sized;
            default: accept;
        }
    }

    state two {
        packet.extract(hdr.two);
        transition published;
    }

    state three {
        packet.extract(hdr.three);
        transition published;
    }

    state published {
        transition select(facts.opcode) {
            KEY_WRITE: key_write;
            APPEND: append;
            KEY_INCREMENT: key_increment;
            POSTCARDING: postcard;
        }
    }

    state key_write {
        packet.extract(hdr.key_write);
        facts.redundancy = hdr.key_write.redundancy;
        facts.key = hdr.key_write.key;
        facts.data = hdr.key_write.data;
        transition accept;
    }

    state append {
        packet.extract(hdr.append);
        facts.key = hdr.append.list;
        facts.data = hdr.append.data;
        transition accept;
    }

    state key_increment {
        packet.extract(hdr.key_increment);
        facts.redundancy = hdr.key_increment.redundancy;
        facts.key = hdr.key_increment.key;
        facts.counter = hdr.key_increment.counter;
        transition accept;
    }

    state postcard {
        packet.extract(hdr.postcard);
        facts.key = hdr.postcard.key;
        facts.hop = hdr.postcard.hop;
        facts.data = hdr.postcard.data;
        transition accept;
    }

    state sized {
        packet.extract(hdr.sized);
        facts.redundancy = hdr.sized.redundancy;
        facts.hop = hdr.sized.hop;
        facts.path_length = hdr.sized.path_length;
        transition select(hdr.sized.key_bytes, hdr.sized.data_bytes, facts.opcode) {
            (4, 8, KEY_INCREMENT): sized_8;
            (_, _, KEY_INCREMENT): other_sizes;
            (4, 4, _): sized_4;
            default: other_sizes;
        }
    }

    state other_sizes {
        facts.opcode = 0;
        transition accept;
    }

    state sized_4 {
        packet.extract(hdr.sized_4);
        facts.key = hdr.sized_4.key;
        facts.data = hdr.sized_4.data;
        transition accept;
    }

    state sized_8 {
        packet.extract(hdr.sized_8);
        facts.key = hdr.sized_8.key;
        facts.counter = hdr.sized_8.data;
        transition accept;
    }
}

control TranslatorDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.roce);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.two);
        packet.emit(hdr.three);
        packet.emit(hdr.sized);
        packet.emit(hdr.key_write);
        packet.emit(hdr.append);
        packet.emit(hdr.key_increment);
        packet.emit(hdr.postcard);
        packet.emit(hdr.sized_4);
        packet.emit(hdr.sized_8);
        packet.emit(hdr.bth);
        packet.emit(hdr.aeth);
    }
}
