// What the INT program reads and writes.
#pragma once

header words_64_t {
    bit<2048> words;
}

header words_32_t {
    bit<1024> words;
}

header words_16_t {
    bit<512> words;
}

header words_8_t {
    bit<256> words;
}

header words_4_t {
    bit<128> words;
}

header words_2_t {
    bit<64> words;
}

header words_1_t {
    bit<32> words;
}

// The hops of a packet, up to 255 words: a header for each power of two. bmv2 cannot copy a header of variable length,
// and the sink's report has a copy.
struct stack_t {
    words_64_t w128;
    words_64_t w128_more;
    words_64_t w64;
    words_32_t w32;
    words_16_t w16;
    words_8_t w8;
    words_4_t w4;
    words_2_t w2;
    words_1_t w1;
}

header tcp_options_t {
    varbit<320> options;
}

// One switch's values, by bit of the instruction bitmap (INT 2.1, 5.7).
struct hop_t {
    hop_node_t node;
    hop_ports_t ports;
    hop_latency_t latency;
    hop_queue_t queue;
    hop_ingress_time_t ingress_time;
    hop_egress_time_t egress_time;
    hop_wide_ports_t wide_ports;
    hop_utilization_t utilization;
    hop_buffer_t buffer;
    hop_filler_t filler_9;
    hop_filler_t filler_10;
    hop_filler_t filler_11;
    hop_filler_t filler_12;
    hop_filler_t filler_13;
    hop_filler_t filler_14;
    hop_checksum_t checksum;
}

struct headers_t {
    // around the packet in a report
    ethernet_t outer_ethernet;
    ipv4_t outer_ipv4;
    udp_t outer_udp;
    report_group_t group;
    report_t report;
    report_main_t main;
    hop_t own;
    hop_drop_t drop;
    // the packet
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv6_t ipv6;
    udp_t udp;
    tcp_t tcp;
    tcp_options_t tcp_options;
    int_shim_t shim;
    int_md_t md;
    hop_t hop;
    stack_t stack;
    // as they were before the sink restored the packet: for its report, and never sent
    ipv4_t kept_ipv4;
    ipv6_t kept_ipv6;
    udp_t kept_udp;
    tcp_t kept_tcp;
    int_shim_t kept_shim;
    int_md_t kept_md;
    stack_t kept_stack;
}

// What this switch knows of a packet; a report's copy has it from the packet that it is made of.
struct facts_t {
    @field_list(REPORT_LIST) bit<16> instructions;
    @field_list(REPORT_LIST) bit<16> ingress_port;
    @field_list(REPORT_LIST) bit<16> egress_port;
    @field_list(REPORT_LIST) bit<32> latency;
    @field_list(REPORT_LIST) bit<24> occupancy;
    @field_list(REPORT_LIST) bit<64> ingress_ns;
    @field_list(REPORT_LIST) bit<64> egress_ns;
    @field_list(REPORT_LIST) bit<32> length;       // of the packet as it came, bytes
    @field_list(REPORT_LIST) bit<8> drop_reason;   // 0: not dropped
    @field_list(REPORT_LIST) bit<1> congested;
    bit<6> dscp;
    bit<8> left; // words of hops
    bit<1> watched;
    bit<1> postcard;                               // no INT in the packet: each switch reports (INT-XD)
    bit<5> words;
    bit<8> hop_limit;
}

const bit<8> DROP_NO_ROUTE = 1; // neither a route nor a station, an expired TTL, or a rule
