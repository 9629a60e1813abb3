// Made by p4/generate.py from src/hopscope: change that, not this.
#pragma once

#ifndef INT_DSCP
#define INT_DSCP 6w23 // announces INT
#endif

#ifndef LABEL_PROTOCOL
#define LABEL_PROTOCOL 8w253 // IP protocol that announces labels
#endif

#ifndef MAX_HOP
#define MAX_HOP 8w5 // labels of a packet
#endif

#define ETHERTYPE_IPV4 16w0x800
#define ETHERTYPE_IPV6 16w0x86dd
#define ETHERTYPE_VLAN 16w0x8100
#define PROTOCOL_TCP 8w0x6
#define PROTOCOL_UDP 8w0x11
#define LABEL_FLOW_VERSION 8w0x1
#define LABEL_PORT 16w0x1c56
#define DTA_PORT 16w0x9c68
#define FORM_TWO 8w0x2
#define FORM_THREE 8w0x3
#define FORM_SIZED 8w0xc
#define KEY_WRITE 8w0x1
#define APPEND 8w0x2
#define KEY_INCREMENT 8w0x3
#define POSTCARDING 8w0x4
#define ROCE_PORT 16w0x12b7
#define ROCE_WRITE_ONLY 8w0xa
#define ROCE_ACK 8w0x11
#define ROCE_ATOMIC_ACK 8w0x12
#define ROCE_FETCH_ADD 8w0x14

// Ethernet (IEEE 802.3)
header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

// VLAN tag (IEEE 802.1Q)
header vlan_t {
    bit<3> priority;
    bit<1> drop_eligible;
    bit<12> vlan;
    bit<16> type;
}

// IPv4 (RFC 791 3.1)
header ipv4_t {
    bit<4> version;
    bit<4> header_words;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<1> reserved_1;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

// IPv6 (RFC 8200 3)
header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> source;
    bit<128> destination;
}

// UDP (RFC 768)
header udp_t {
    bit<16> sport;
    bit<16> dport;
    bit<16> length;
    bit<16> checksum;
}

// TCP (RFC 9293 3.1)
header tcp_t {
    bit<16> sport;
    bit<16> dport;
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<4> header_words;
    bit<4> reserved_1;
    bit<8> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// ports (RFC 768, RFC 9293)
header ports_t {
    bit<16> sport;
    bit<16> dport;
}

// INT shim 2.x (INT 2.1, 5.6.1)
header int_shim_t {
    bit<4> type;
    bit<2> next_protocol_type;
    bit<2> reserved_1;
    bit<8> length;
    bit<16> original;
}

// INT-MD 2.x (INT 2.1, 5.7)
header int_md_t {
    bit<4> version;
    bit<1> discard;
    bit<1> hops_exceeded;
    bit<1> mtu_exceeded;
    bit<12> reserved_1;
    bit<5> hop_words;
    bit<8> remaining_hops;
    bit<16> instructions;
    bit<16> domain_id;
    bit<16> ds_instruction;
    bit<16> ds_flags;
}

// node_id (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_node_t {
    bit<32> node_id;
}

// ingress_port + egress_port (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_ports_t {
    bit<16> ingress_port;
    bit<16> egress_port;
}

// hop_latency (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_latency_t {
    bit<32> hop_latency;
}

// queue_id + queue_occupancy (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_queue_t {
    bit<8> queue_id;
    bit<24> queue_occupancy;
}

// ingress_time (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_ingress_time_t {
    bit<64> ingress_time;
}

// egress_time (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_egress_time_t {
    bit<64> egress_time;
}

// l2_ingress_port + l2_egress_port (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_wide_ports_t {
    bit<32> l2_ingress_port;
    bit<32> l2_egress_port;
}

// tx_utilization (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_utilization_t {
    bit<32> tx_utilization;
}

// buffer_id + buffer_occupancy (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_buffer_t {
    bit<8> buffer_id;
    bit<24> buffer_occupancy;
}

// queue_id + drop_reason + reserved (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_drop_t {
    bit<8> queue_id;
    bit<8> drop_reason;
    bit<16> reserved_1;
}

// reserved (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_filler_t {
    bit<32> reserved_1;
}

// checksum_complement (INT 2.1, 5.7; INT 1.0, 4.7; INT 0.5, 4.6)
header hop_checksum_t {
    bit<32> checksum_complement;
}

// Telemetry Report 2.0 group (Telemetry Report 2.0, 3.3)
header report_group_t {
    bit<4> version;
    bit<6> hw_id;
    bit<22> sequence;
    bit<32> node_id;
}

// Telemetry Report 2.0 (Telemetry Report 2.0, 3.4)
header report_t {
    bit<4> report_type;
    bit<4> inner_type;
    bit<8> report_length;
    bit<8> metadata_length;
    bit<1> dropped;
    bit<1> congested;
    bit<1> tracked;
    bit<1> intermediate;
    bit<4> reserved_1;
}

// Telemetry Report 2.0 INT main contents (Telemetry Report 2.0, 3.5)
header report_main_t {
    bit<16> metadata_bits;
    bit<16> domain_id;
    bit<16> ds_metadata_bits;
    bit<16> ds_metadata_status;
}

// INT-label option (INT-label 3.1)
header label_option_t {
    bit<8> next_header;
    bit<8> count;
}

// INT-label state (Hopscope's own item of INT-label 2)
header label_item_t {
    bit<32> node_id;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<64> time_ns;
    bit<32> latency_ns;
    bit<32> occupancy;
    bit<64> reserved_1;
}

// INT-label flow (Hopscope's own, of a last hop's datagram)
header label_flow_t {
    bit<8> version;
    bit<8> no_items;
    bit<128> source;
    bit<128> destination;
    bit<16> source_port;
    bit<16> destination_port;
}

// DTA (DTA, 2 bytes)
header dta_two_t {
    bit<8> opcode;
    bit<1> immediate;
    bit<7> reserved_1;
}

// DTA with tracking (DTA, 3 bytes)
header dta_three_t {
    bit<8> opcode;
    bit<8> sequence;
    bit<1> immediate;
    bit<1> retransmit;
    bit<6> reserved_1;
}

// DTA with lengths (Hopscope's own)
header dta_sized_t {
    bit<8> opcode;
    bit<1> immediate;
    bit<1> retransmit;
    bit<6> reserved_1;
    bit<8> key_bytes;
    bit<8> data_bytes;
    bit<32> sequence;
    bit<8> redundancy;
    bit<8> hop;
    bit<8> path_length;
    bit<8> reserved_2;
}

// DTA Key-Write (DTA 3.1)
header dta_key_write_t {
    bit<8> redundancy;
    bit<32> key;
    bit<32> data;
}

// DTA Append (DTA 3.3)
header dta_append_t {
    bit<32> list;
    bit<32> data;
}

// DTA Key-Increment (DTA 3.4)
header dta_key_increment_t {
    bit<8> redundancy;
    bit<32> key;
    bit<64> counter;
}

// DTA Postcarding (DTA 3.2)
header dta_postcard_t {
    bit<32> key;
    bit<8> hop;
    bit<32> data;
}

// Base Transport Header (InfiniBand 9.2)
header bth_t {
    bit<8> opcode;
    bit<1> solicited;
    bit<1> migration;
    bit<2> pad;
    bit<4> version;
    bit<16> partition;
    bit<1> fecn;
    bit<1> becn;
    bit<6> reserved_1;
    bit<24> queue_pair;
    bit<1> ack_request;
    bit<7> reserved_2;
    bit<24> psn;
}

// RDMA header (InfiniBand 9.3.1)
header reth_t {
    bit<64> address;
    bit<32> key;
    bit<32> length;
}

// Atomic header (InfiniBand 9.3.2)
header atomic_eth_t {
    bit<64> address;
    bit<32> key;
    bit<64> value;
    bit<64> compare;
}

// Acknowledgment header (InfiniBand 9.3.5)
header aeth_t {
    bit<8> syndrome;
    bit<24> message;
}
