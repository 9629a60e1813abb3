// What the DTA and DART reporters read and write.
#pragma once

struct headers_t {
    // a DTA report
    ethernet_t outer_ethernet;
    ipv4_t outer_ipv4;
    udp_t outer_udp;
    dta_two_t two;
    dta_three_t three;
    dta_sized_t sized;
    dta_key_write_t key_write;
    dta_append_t append;
    dta_key_increment_t key_increment;
    dta_postcard_t postcard;
    sized_4_t sized_4;
    sized_8_t sized_8;
    // a DART report
    roce_t roce;
    // the packet
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
}

struct facts_t {
    // of the packet, for the copy of it that becomes a report
    @field_list(REPORT_LIST) bit<8> opcode;
    @field_list(REPORT_LIST) bit<8> redundancy;
    @field_list(REPORT_LIST) bit<32> list;
    @field_list(REPORT_LIST) bit<8> hop;
    @field_list(REPORT_LIST) bit<8> path_length;
    @field_list(REPORT_LIST) bit<32> key;
    @field_list(REPORT_LIST) bit<32> value;
    @field_list(REPORT_LIST) bit<32> node_id;
    @field_list(REPORT_LIST) bit<16> ingress_port;
    @field_list(REPORT_LIST) bit<16> egress_port;
    @field_list(REPORT_LIST) bit<32> latency;
    @field_list(REPORT_LIST) bit<32> occupancy;
    @field_list(REPORT_LIST) bit<32> time;
    @field_list(REPORT_LIST) bit<32> collector;
    @field_list(REPORT_LIST) bit<32> slot;
    @field_list(REPORT_LIST) bit<32> checksum;
    bit<8> protocol;
    bit<16> source_port;
    bit<16> destination_port;
    bit<32> share; // of 2^32: the packets that are reported
}
