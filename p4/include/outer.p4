// Ethernet, IPv4 and UDP of datagrams that a switch makes: DF, no identification, no UDP checksum.
#pragma once

void put_outer(
    out ethernet_t ethernet, out ipv4_t ipv4, out udp_t udp, in bit<48> source_mac, in bit<48> destination_mac,
    in bit<32> source, in bit<32> destination, in bit<16> source_port, in bit<16> destination_port)
{
    ethernet.setValid();
    ethernet.source = source_mac;
    ethernet.destination = destination_mac;
    ethernet.type = ETHERTYPE_IPV4;
    ipv4.setValid();
    ipv4.version = 4;
    ipv4.header_words = 5;
    ipv4.dscp = 0;
    ipv4.ecn = 0;
    ipv4.total_length = 0;
    ipv4.identification = 0;
    ipv4.reserved_1 = 0;
    ipv4.dont_fragment = 1;
    ipv4.more_fragments = 0;
    ipv4.fragment_offset = 0;
    ipv4.ttl = 64;
    ipv4.protocol = PROTOCOL_UDP;
    ipv4.checksum = 0;
    ipv4.source = source;
    ipv4.destination = destination;
    udp.setValid();
    udp.sport = source_port;
    udp.dport = destination_port;
    udp.length = 0;
    udp.checksum = 0;
}

#define IPV4_CHECKSUM(header) \
    update_checksum(header.isValid(), { \
        header.version, header.header_words, header.dscp, header.ecn, header.total_length, header.identification, \
        header.reserved_1, header.dont_fragment, header.more_fragments, header.fragment_offset, header.ttl, \
        header.protocol, header.source, header.destination \
    }, header.checksum, HashAlgorithm.csum16);
