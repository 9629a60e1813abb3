// What the INT-label program reads and writes.
#pragma once

header ipv4_options_t {
    varbit<320> options;
}

header items_8_t {
    bit<2048> items;
}

header items_4_t {
    bit<1024> items;
}

header items_2_t {
    bit<512> items;
}

header items_1_t {
    bit<256> items;
}

// The items of a packet, at most 47, which fill 1,500 bytes. bmv2 cannot copy a header of variable length.
struct items_t {
    items_8_t i8_5;
    items_8_t i8_4;
    items_8_t i8_3;
    items_8_t i8_2;
    items_8_t i8_1;
    items_4_t i4;
    items_2_t i2;
    items_1_t i1;
}

struct headers_t {
    // of a datagram to the controller
    ethernet_t outer_ethernet;
    ipv4_t outer_ipv4;
    udp_t outer_udp;
    label_flow_t flow;
    // the packet
    ethernet_t ethernet;
    vlan_t vlan;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    label_option_t option;
    label_item_t item;
    items_t items;
    // what the last hop took from a packet, for its datagram; never sent in a packet
    label_option_t kept_option;
    label_item_t kept_item;
    items_t kept_items;
}

struct facts_t {
    @field_list(EXPORT_LIST) bit<1> tracked;
    @field_list(EXPORT_LIST) bit<8> exported;         // items in the datagram
    @field_list(EXPORT_LIST) bit<16> source_port;     // 0: none, or a fragment's
    @field_list(EXPORT_LIST) bit<16> destination_port;
    bit<8> protocol;                                  // the packet's own
    bit<8> count;                                     // INT_num
    bit<8> carried;                                   // items in the packet
    bit<1> whole;                                     // all of them were there
    bit<1> fragment;                                  // not the first one
    bit<1> to_track;
}
