// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Maps and helpers of the programs of INT-label. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

#include "label.h"

/* Set before the program is loaded: take times and random numbers from `inputs`. */
const volatile __u32 is_test = 0;

TABLE(label_control, 1, struct label_control);
TABLE(label_counters, MAX_PROCESSORS, struct label_counters);

/* Row in `label_ports` by the number of an interface. Row 0: not a port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LABEL_INDEX);
	__type(key, __u32);
	__type(value, __u32);
} label_rows SEC(".maps");

TABLE(label_ports, MAX_LABEL_PORTS, struct label_port);

/* Two tables of probabilities, in 2^-53: one is in use, the other may be written. */
TABLE(label_chances, 2 * MAX_CHANCES, __u64);
HASH(label_flows, MAX_LABEL_FLOWS, struct label_flow_key, struct label_flow);
RING(label_ring, 1 << 20);
TABLE(inputs, 1, struct label_inputs);

struct label_option {
	__u8 next_header;
	__u8 count;
} __attribute__((packed));

/* The label of a port, LABEL_STATE of wire/label/layout.py. */
struct label_item {
	__be32 node_id;
	__be16 ingress_port;
	__be16 egress_port;
	__be64 time_ns;
	__be32 latency_ns;
	__be32 occupancy;
	__u64 reserved;
} __attribute__((packed));

/* LABEL_FLOW there. */
struct label_flow_head {
	__u8 version;
	__u8 no_items;
	__u32 source[4];
	__u32 destination[4];
	__u32 ports;
} __attribute__((packed));

#define OPTION_BYTES sizeof(struct label_option)
#define ITEM_BYTES sizeof(struct label_item)
#define FLOW_BYTES sizeof(struct label_flow_head)
#define HEAD_BYTES sizeof(struct report_head)
#define BEFORE_ITEMS (HEAD_BYTES + FLOW_BYTES + OPTION_BYTES + ITEM_BYTES)

/* Memory in which a CPU builds the bytes that it inserts or passes on: the items are at a fixed place, and the other
 * parts before them. */
struct label_scratch {
	__u8 made[128];
	__u8 block[BEFORE_ITEMS + MAX_COUNT * ITEM_BYTES];
};

SCRATCH(label_scratches, struct label_scratch);

inlined int done(enum label_count what)
{
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	struct label_counters *mine = bpf_map_lookup_elem(&label_counters, &processor);
	if (mine)
		mine->packets[what]++;
	return what == LABEL_FAILED || what == LABEL_FORGED ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

inlined int load(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return bpf_skb_load_bytes(skb, at, to, size);
}

inlined struct label_port *port_of(__u32 index)
{
	const __u32 *row = bpf_map_lookup_elem(&label_rows, &index);
	if (!row || !*row)
		return 0;
	struct label_port *port = bpf_map_lookup_elem(&label_ports, row);
	return port && port->role != ROLE_NONE ? port : 0;
}

inlined const struct label_inputs *given(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&inputs, &zero);
}
