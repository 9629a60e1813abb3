// Internet checksums, changed as what they cover changes (RFC 1624): a wrong one stays as wrong as it was.
#pragma once

bit<16> fold(in bit<32> sum) {
    bit<32> once = (sum & 0xffff) + (sum >> 16);
    return (bit<16>)((once & 0xffff) + (once >> 16));
}

// The checksum after the ones' complement sum of what it covers went from `before` to `after`.
bit<16> adjusted(in bit<16> checksum, in bit<16> before, in bit<16> after) {
    return ~fold((bit<32>)(~checksum) + (bit<32>)(~before) + (bit<32>)after);
}

// The first 16 bits of an IPv4 header: what changes with its DSCP.
bit<16> first_word(in ipv4_t ipv4) {
    return ipv4.version ++ ipv4.header_words ++ ipv4.dscp ++ ipv4.ecn;
}

// Another length and DSCP of an IPv4 packet.
void amend_ipv4(inout ipv4_t ipv4, in bit<16> length, in bit<6> dscp) {
    bit<16> first = first_word(ipv4);
    ipv4.checksum = adjusted(ipv4.checksum, ipv4.total_length, length);
    ipv4.total_length = length;
    ipv4.dscp = dscp;
    ipv4.checksum = adjusted(ipv4.checksum, first, first_word(ipv4));
}

// Another length and protocol of an IPv4 packet.
void carry_ipv4(inout ipv4_t ipv4, in bit<16> length, in bit<8> protocol) {
    bit<16> before = ipv4.ttl ++ ipv4.protocol;
    ipv4.checksum = adjusted(ipv4.checksum, ipv4.total_length, length);
    ipv4.total_length = length;
    ipv4.protocol = protocol;
    ipv4.checksum = adjusted(ipv4.checksum, before, ipv4.ttl ++ ipv4.protocol);
}

// One hop less.
void age_ipv4(inout ipv4_t ipv4) {
    bit<16> before = ipv4.ttl ++ ipv4.protocol;
    ipv4.ttl = ipv4.ttl - 1;
    ipv4.checksum = adjusted(ipv4.checksum, before, ipv4.ttl ++ ipv4.protocol);
}
