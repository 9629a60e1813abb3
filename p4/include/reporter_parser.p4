// Ethernet, a VLAN tag, IPv4 without options or IPv6, and the ports of TCP and UDP.
#pragma once

parser ReporterParser(
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
            (5, 0): payload;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        facts.protocol = hdr.ipv6.next_header;
        transition payload;
    }

    state payload {
        transition select(facts.protocol) {
            PROTOCOL_UDP: ports;
            PROTOCOL_TCP: ports;
            default: accept;
        }
    }

    state ports {
        bit<32> both = packet.lookahead<bit<32>>();
        facts.source_port = both[31:16];
        facts.destination_port = both[15:0];
        transition accept;
    }
}

control ReporterDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.outer_ipv4);
        packet.emit(hdr.outer_udp);
        packet.emit(hdr.two);
        packet.emit(hdr.three);
        packet.emit(hdr.sized);
        packet.emit(hdr.key_write);
        packet.emit(hdr.append);
        packet.emit(hdr.key_increment);
        packet.emit(hdr.postcard);
        packet.emit(hdr.sized_4);
        packet.emit(hdr.sized_8);
        packet.emit(hdr.roce);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
    }
}

control ReporterVerify(inout headers_t hdr, inout facts_t facts) {
    apply { }
}

control ReporterChecksums(inout headers_t hdr, inout facts_t facts) {
    apply {
        IPV4_CHECKSUM(hdr.outer_ipv4)
        IPV4_CHECKSUM(hdr.roce.ipv4)
    }
}
