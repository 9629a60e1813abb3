// INT in a packet: what a source inserts, a transit adds to and a sink takes away, with the headers around it.
#pragma once

// Ones' complement sum of all INT in a packet. A macro: a control would work on a copy of all headers.
#define SUM_INT(sum) \
    hash(sum, HashAlgorithm.csum16, 16w0, { \
        hdr.shim, hdr.md, hdr.hop.node, hdr.hop.ports, hdr.hop.latency, hdr.hop.queue, hdr.hop.ingress_time, \
        hdr.hop.egress_time, hdr.hop.wide_ports, hdr.hop.utilization, hdr.hop.buffer, hdr.hop.filler_9, \
        hdr.hop.filler_10, hdr.hop.filler_11, hdr.hop.filler_12, hdr.hop.filler_13, hdr.hop.filler_14, \
        hdr.hop.checksum, hdr.stack.w128, hdr.stack.w128_more, hdr.stack.w64, hdr.stack.w32, hdr.stack.w16, \
        hdr.stack.w8, hdr.stack.w4, hdr.stack.w2, hdr.stack.w1 \
    }, 32w0x10000); \
    sum = ~sum;

// Lengths, DSCP and checksums after INT has changed: by `change` bytes, modulo 2^16, its sum from `before` to `after`.
control AmendHeaders(
    inout ipv4_t ipv4, inout ipv6_t ipv6, inout udp_t udp, inout tcp_t tcp, in bit<16> change, in bit<6> dscp,
    in bit<16> before, in bit<16> after)
{
    apply {
        if (ipv4.isValid()) {
            amend_ipv4(ipv4, ipv4.total_length + change, dscp);
        } else {
            ipv6.payload_length = ipv6.payload_length + change;
            ipv6.dscp = dscp;
        }
        if (udp.isValid()) {
            bit<16> length = udp.length + change;
            if (udp.checksum != 0) {
                udp.checksum = adjusted(udp.checksum, before, after);
                // the length is in the header, and in what IP adds to the sum
                udp.checksum = adjusted(udp.checksum, udp.length, length);
                udp.checksum = adjusted(udp.checksum, udp.length, length);
                if (udp.checksum == 0) {
                    udp.checksum = 0xffff;
                }
            }
            udp.length = length;
        } else {
            tcp.checksum = adjusted(tcp.checksum, before, after);
            tcp.checksum = adjusted(tcp.checksum, 16w0, change);
            if (change[15:15] == 1) { // negative: in ones' complement one less
                tcp.checksum = adjusted(tcp.checksum, 16w1, 16w0);
            }
        }
    }
}
