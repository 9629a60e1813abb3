// RoCEv2 packets that a switch makes: RDMA WRITE ONLY of up to eight words, FETCH ADD, and the invariant CRC.
#pragma once

header roce_word_t {
    bit<32> value;
}

header roce_icrc_t {
    bit<32> crc;
}

struct roce_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    bth_t bth;
    reth_t reth;
    atomic_eth_t atomic;
    roce_word_t w0;
    roce_word_t w1;
    roce_word_t w2;
    roce_word_t w3;
    roce_word_t w4;
    roce_word_t w5;
    roce_word_t w6;
    roce_word_t w7;
    roce_icrc_t icrc;
}

// A queue pair at a NIC, and the addresses of both ends.
struct connection_t {
    bit<48> source_mac;
    bit<48> destination_mac;
    bit<32> source;
    bit<32> destination;
    bit<16> source_port;
    bit<24> queue_pair;
}

// The headers around a request of `bytes` bytes after the Base Transport Header.
control PutBth(inout roce_t roce, in connection_t to, in bit<8> opcode, in bit<24> psn, in bit<16> bytes) {
    apply {
        put_outer(roce.ethernet, roce.ipv4, roce.udp, to.source_mac, to.destination_mac, to.source,
            to.destination, to.source_port, ROCE_PORT);
        roce.udp.length = 8 + 12 + bytes + 4;
        roce.ipv4.total_length = roce.udp.length + 20;
        roce.bth.setValid();
        roce.bth.opcode = opcode;
        roce.bth.solicited = 0;
        roce.bth.migration = 1;
        roce.bth.pad = 0;
        roce.bth.version = 0;
        roce.bth.partition = 0xffff;
        roce.bth.fecn = 0;
        roce.bth.becn = 0;
        roce.bth.reserved_1 = 0;
        roce.bth.queue_pair = to.queue_pair;
        roce.bth.ack_request = opcode[7:5] == 0 ? 1w1 : 1w0; // only RC answers
        roce.bth.reserved_2 = 0;
        roce.bth.psn = psn;
        roce.icrc.setValid();
    }
}

// RDMA WRITE ONLY, of RC or UC, of the words that are valid, `words` of them.
control PutWrite(
    inout roce_t roce, in connection_t to, in bit<8> opcode, in bit<24> psn, in bit<64> address, in bit<32> memory_key,
    in bit<16> words)
{
    PutBth() put_bth;
    apply {
        put_bth.apply(roce, to, opcode, psn, 16 + (words << 2));
        roce.reth.setValid();
        roce.reth.address = address;
        roce.reth.key = memory_key;
        roce.reth.length = (bit<32>)words << 2;
    }
}

control PutFetchAdd(
    inout roce_t roce, in connection_t to, in bit<24> psn, in bit<64> address, in bit<32> memory_key, in bit<64> value)
{
    PutBth() put_bth;
    apply {
        put_bth.apply(roce, to, ROCE_FETCH_ADD, psn, 28);
        roce.atomic.setValid();
        roce.atomic.address = address;
        roce.atomic.key = memory_key;
        roce.atomic.value = value;
        roce.atomic.compare = 0;
    }
}

header ones_t {
    bit<64> value;
}

// The invariant CRC (InfiniBand A17.3.3): CRC-32 over 8 bytes of ones, and over the packet with ones for what changes
// on its way. Its least significant byte goes first. Headers that are not valid do not count.
control PutIcrc(inout roce_t roce) {
    apply {
        bit<32> crc = 0;
        ones_t ones;
        ipv4_t ipv4 = roce.ipv4;
        udp_t udp = roce.udp;
        bth_t bth = roce.bth;
        ones.setValid();
        ones.value = 0xffffffffffffffff;
        ipv4.dscp = 0x3f;
        ipv4.ecn = 3;
        ipv4.ttl = 0xff;
        ipv4.checksum = 0xffff;
        udp.checksum = 0xffff;
        bth.fecn = 1;
        bth.becn = 1;
        bth.reserved_1 = 0x3f;
        hash(crc, HashAlgorithm.crc32, 32w0, {
            ones, ipv4, udp, bth, roce.reth, roce.atomic, roce.w0, roce.w1, roce.w2, roce.w3, roce.w4, roce.w5, roce.w6,
            roce.w7
        }, 64w0x100000000);
        roce.icrc.crc = swapped(crc);
    }
}
