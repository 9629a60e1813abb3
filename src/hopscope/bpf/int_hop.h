/* What this hop knows of a packet, and how INT 2.1 writes it. */
#pragma once

#include "int_packet.h"

#define SHIM_BYTES 4
#define MD_BYTES 12
#define HEAD_BYTES (SHIM_BYTES + MD_BYTES)

/* The first word of the INT-MD header (INT 2.1, 5.8). */
#define MD_VERSION 0x20000000
#define MD_HOPS_EXCEEDED 0x04000000
#define MD_MTU_EXCEEDED 0x02000000

struct facts {
	__u64 ingress_ns;
	__u64 egress_ns;
	__u32 ingress;
	__u32 egress;
	__u32 latency;
};

/* The note of `ingress`, or 0. It is taken away: a queue might read it as a time to send at. */
inlined __u64 take_note(struct __sk_buff *skb)
{
	if (!skb->ingress_ifindex || skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		return 0;
	__u64 noted = skb->tstamp;
	bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
	return noted;
}

/* Times at the switch, and the interfaces. Clocks are read for packets that change alone: one that is not watched takes
 * 93 ns instead of 136 (bench/switch.py). */
inlined void learn(struct __sk_buff *skb, const struct switch_control *settings, __u64 noted, struct facts *facts)
{
	facts->egress = skb->ifindex;
	facts->ingress = skb->ingress_ifindex;
	facts->egress_ns = bpf_ktime_get_tai_ns() + settings->epoch_ns;
	facts->latency = NO_VALUE;
	facts->ingress_ns = ~0ull;
	__u64 spent = bpf_ktime_get_ns() - noted;
	if (!noted || spent >= NO_VALUE)
		return;
	facts->latency = spent;
	facts->ingress_ns = facts->egress_ns - spent;
}

/* Words of a hop by the instruction bitmap (INT 2.1, 5.8). */
inlined __u32 words_of(__u32 instructions)
{
	__u32 words = 0;
	for (int bit = 0; bit < 16; bit++)
		words += instructions >> bit & 1;
	return words + (instructions >> 11 & 1) + (instructions >> 10 & 1) + (instructions >> 9 & 1);
}

/* This hop, as the instructions ask; what Linux does not have is all ones. */
inlined void put_hop(struct scratch *scratch, __u32 instructions, const struct switch_control *settings,
		     const struct facts *facts)
{
	if (instructions & 0x8000)
		put(scratch, settings->node_id);
	if (instructions & 0x4000) {
		__u32 in = facts->ingress && facts->ingress < 0xffff ? facts->ingress : 0xffff;
		put(scratch, in << 16 | (facts->egress < 0xffff ? facts->egress : 0xffff));
	}
	if (instructions & 0x2000)
		put(scratch, facts->latency);
	if (instructions & 0x1000)
		put(scratch, NO_VALUE);
	if (instructions & 0x0800)
		put_wide(scratch, facts->ingress_ns);
	if (instructions & 0x0400)
		put_wide(scratch, facts->egress_ns);
	if (instructions & 0x0200) {
		put(scratch, facts->ingress ? facts->ingress : NO_VALUE);
		put(scratch, facts->egress);
	}
	for (int bit = 8; bit >= 0; bit--)
		if (instructions >> bit & 1)
			put(scratch, NO_VALUE);
}
