// What the DTA translator reads and writes.
#pragma once

struct headers_t {
    roce_t roce;
    ethernet_t ethernet;
    ipv4_t ipv4;
    ipv6_t ipv6;
    udp_t udp;
    dta_two_t two;
    dta_three_t three;
    dta_sized_t sized;
    dta_key_write_t key_write;
    dta_append_t append;
    dta_key_increment_t key_increment;
    dta_postcard_t postcard;
    sized_4_t sized_4;
    sized_8_t sized_8;
    bth_t bth;
    aeth_t aeth;
}

struct facts_t {
    // the report
    bit<8> opcode;
    bit<8> redundancy;
    bit<32> key;    // Append: the list
    bit<32> data;
    bit<8> hop;
    bit<8> path_length;
    bit<64> counter;
    // the writes that it becomes; the copies of the packet in egress have them
    bit<8> connection;
    bit<64> base;
    bit<32> memory_key;
    bit<24> psn;
    bit<32> slot_0;
    bit<32> slot_1;
    bit<32> slot_2;
    bit<32> slot_3;
    bit<64> address;
}
