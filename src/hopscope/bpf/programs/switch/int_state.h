// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Maps of the programs of a switch, and the scratch memory of a CPU. */
#pragma once

#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>

#include "int_ring.h"

#define MADE_WORDS 64
#define REST_ROOM 16384 /* a power of two, for the verifier */
#define NO_VALUE 0xffffffff

TABLE(control, 1, struct switch_control);

/* Interfaces by their index. */
HASH(ports, MAX_PORTS, __u32, struct switch_port);

/* Memory in which a CPU builds bytes to be inserted, and keeps bytes that move. */
struct scratch {
	__u32 words; /* words of `made` in use */
	__u32 reserved;
	struct report_head head;  /* head of a report, whose words and packet follow */
	__be32 made[MADE_WORDS];
	__u8 more[MAX_REPORTED];  /* bytes of a reported packet, which may begin in `made` */
	__u8 rest[REST_ROOM];
};

SCRATCH(scratches, struct scratch);

/* The interface through which a packet leaves, or NULL. */
inlined struct switch_port *own_port(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex;
	return bpf_map_lookup_elem(&ports, &index);
}

/* Count a packet; returns the verdict about it. */
inlined int done(enum switch_count what)
{
	struct switch_counters *mine = own_counters();
	if (mine)
		mine->packets[what]++;
	return what == SWITCH_FAILED ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

inlined void put(struct scratch *scratch, __u32 value)
{
	scratch->made[scratch->words & (MADE_WORDS - 1)] = bpf_htonl(value);
	scratch->words++;
}

inlined void put_wide(struct scratch *scratch, __u64 value)
{
	put(scratch, value >> 32);
	put(scratch, value);
}

/* Bytes of `made` in use. */
inlined __u32 made_bytes(const struct scratch *scratch)
{
	return scratch->words * 4 & (sizeof(scratch->made) - 1);
}
