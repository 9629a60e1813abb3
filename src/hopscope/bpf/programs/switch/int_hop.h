// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* This hop's metadata about a packet, and its form in INT 2.1. */
#pragma once

#include "int_packet.h"
#include "int_queue.h"

#define SHIM_BYTES 4
#define MD_BYTES 12
#define HEAD_BYTES (SHIM_BYTES + MD_BYTES)

/* The type in the first word of a shim (INT 2.1, 5.6). */
#define SHIM_MD 0x10000000
#define SHIM_MX 0x30000000

/* The first word of the INT-MD header (INT 2.1, 5.8). */
#define MD_VERSION 0x20000000
#define MD_HOPS_EXCEEDED 0x04000000
#define MD_MTU_EXCEEDED 0x02000000

#define ITEM_QUEUE 0x1000
#define ITEM_LOAD 0x0100

struct facts {
	__u64 ingress_ns;
	__u64 egress_ns;
	__u32 ingress;
	__u32 egress;
	__u32 latency;
	__u32 queue;       /* occupancy, with the queue id */
	__u32 utilization; /* of the link, in 1/100 % */
};

/* The time that `ingress` noted, or 0. The note is removed, since a queue might read it as a time of departure. */
inlined __u64 take_note(struct __sk_buff *skb)
{
	if (!skb->ingress_ifindex || skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		return 0;
	__u64 noted = skb->tstamp;
	bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
	return noted;
}

/* Collect times at the switch, interfaces, and the requested metadata. Clocks are read only for packets that change: a
 * packet that is not watched takes 93 ns instead of 136 (bench/switch.py). */
inlined void learn(struct __sk_buff *skb, const struct switch_control *settings, __u64 noted, __u32 instructions,
		   struct facts *facts)
{
	struct switch_port *port = own_port(skb);
	facts->egress = skb->ifindex;
	facts->ingress = skb->ingress_ifindex;
	facts->egress_ns = bpf_ktime_get_tai_ns() + settings->epoch_ns;
	facts->latency = NO_VALUE;
	facts->ingress_ns = ~0ull;
	facts->queue = instructions & ITEM_QUEUE ? queue_of(skb, settings->processors) : NO_VALUE;
	facts->utilization = port && port->mbits ? port->utilization : NO_VALUE;
	if (port && facts->queue != NO_VALUE)
		port->queue = facts->queue & 0xffffff;
	__u64 spent = bpf_ktime_get_ns() - noted;
	if (!noted || spent >= NO_VALUE)
		return;
	facts->latency = spent;
	facts->ingress_ns = facts->egress_ns - spent;
	if (port) {
		__sync_fetch_and_add(&port->hops, 1);
		__sync_fetch_and_add(&port->latency_ns, spent);
	}
}

/* Collect the metadata of a packet that ends at this machine. */
inlined void learn_arrival(struct __sk_buff *skb, const struct switch_control *settings, struct facts *facts)
{
	facts->egress = 0;
	facts->ingress = skb->ifindex;
	facts->egress_ns = ~0ull;
	facts->latency = facts->queue = facts->utilization = NO_VALUE;
	facts->ingress_ns = bpf_ktime_get_tai_ns() + settings->epoch_ns;
}

/* Number of words of a hop with this instruction bitmap (INT 2.1, 5.8). */
inlined __u32 words_of(__u32 instructions)
{
	__u32 words = 0;
	for (int bit = 0; bit < 16; bit++)
		words += instructions >> bit & 1;
	return words + (instructions >> 11 & 1) + (instructions >> 10 & 1) + (instructions >> 9 & 1);
}

/* The requested items that a report carries in its metadata: unknown items are left out (Telemetry Report 2.0, 3.3),
 * and the node id is in the group header. */
inlined __u32 known_items(__u32 instructions, const struct facts *facts)
{
	__u32 items = instructions & 0x7f00;
	if (facts->queue == NO_VALUE)
		items &= ~ITEM_QUEUE;
	if (facts->utilization == NO_VALUE)
		items &= ~ITEM_LOAD;
	if (facts->latency == NO_VALUE)
		items &= ~0x2000;
	if (facts->ingress_ns == ~0ull)
		items &= ~0x0800;
	if (facts->egress_ns == ~0ull)
		items &= ~0x0400;
	return items;
}

/* Append this hop with the requested items; items that Linux does not have are all ones. */
inlined void put_hop(struct scratch *scratch, __u32 instructions, const struct switch_control *settings,
		     const struct facts *facts)
{
	if (instructions & 0x8000)
		put(scratch, settings->node_id);
	if (instructions & 0x4000) {
		__u32 in = facts->ingress && facts->ingress < 0xffff ? facts->ingress : 0xffff;
		put(scratch, in << 16 | (facts->egress && facts->egress < 0xffff ? facts->egress : 0xffff));
	}
	if (instructions & 0x2000)
		put(scratch, facts->latency);
	if (instructions & ITEM_QUEUE)
		put(scratch, facts->queue);
	if (instructions & 0x0800)
		put_wide(scratch, facts->ingress_ns);
	if (instructions & 0x0400)
		put_wide(scratch, facts->egress_ns);
	if (instructions & 0x0200) {
		put(scratch, facts->ingress ? facts->ingress : NO_VALUE);
		put(scratch, facts->egress ? facts->egress : NO_VALUE);
	}
	if (instructions & ITEM_LOAD)
		put(scratch, facts->utilization);
	for (int bit = 7; bit >= 0; bit--)
		if (instructions >> bit & 1)
			put(scratch, NO_VALUE);
}
