/* Reports whose form is compared here: Telemetry Report 1.0 and 2.0 without metadata of their own, about Ethernet,
 * IPv4 or IPv6 with TCP or UDP, whose DSCP announces INT-MD 1.0 or 2.x. All others are unusual. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>

#include "tables.h"

#define MAX_REPORTS 8   /* of a datagram */
#define MAX_HOPS 64     /* of a report */
#define MAX_COMPARED 2048 /* longest payload that is read here */
#define PLACE 4095      /* mask of offsets in a payload, for the verifier */
#define ITEMS 9         /* first bits of an instruction bitmap: node id to buffer occupancy */

/* Bits of `present`, as Have: bit 0 is the first of the bitmap. */
enum have {
	HAVE_NODE = 1 << 0,
	HAVE_PORTS = 1 << 1,
	HAVE_LATENCY = 1 << 2,
	HAVE_QUEUE = 1 << 3,
	HAVE_UTILIZATION = 1 << 7,
	HAVE_BUFFER = 1 << 8,
};

/* The values of a hop. */
struct values {
	__u32 node;
	__u32 port;
	__u32 latency;
	__u32 queue;
	__u32 utilization;
	__u32 buffer;
};

struct report {
	struct flow_key key;
	__u32 flow;  /* row of its flow, or NOWHERE */
	__u32 stack; /* offset of the first, newest hop */
	__u32 hops;
	__u32 hop_bytes;
	__u32 present;
	__u32 at[ITEMS]; /* offset of each item in a hop */
	__u64 latency;	 /* sum of its hops, of a flow that is compared, as */
	struct values values[INLINE_HOPS];
};

struct scratch {
	struct report_head head;
	__u8 payload[MAX_PAYLOAD];
	struct report reports[MAX_REPORTS];
	__u32 count;
};

inlined __u32 read8(struct scratch *scratch, __u32 at)
{
	return scratch->payload[at & PLACE];
}

inlined __u32 read16(struct scratch *scratch, __u32 at)
{
	return bpf_ntohs(*(__u16 *)(scratch->payload + (at & PLACE)));
}

inlined __u32 read32(struct scratch *scratch, __u32 at)
{
	return bpf_ntohl(*(__u32 *)(scratch->payload + (at & PLACE)));
}

inlined __u64 read64(struct scratch *scratch, __u32 at)
{
	return bpf_be64_to_cpu(*(__u64 *)(scratch->payload + (at & PLACE)));
}

/* What each report of a datagram states of itself. */
struct numbering {
	__u32 version; /* 10, 20; 0: unknown */
	__u32 node;
	__u32 hardware;
	__u32 sequence;
	__u32 bits;
};

/* The places of a bitmap's items; returns the bytes of a hop, 0 if it has items that are not compared. */
inlined __u32 place_items(struct report *report, __u32 bitmap, __u32 wide)
{
	const __u32 unknown = 0x7e;
	if (bitmap & unknown || !(bitmap & 0x8000))
		return 0;
	__u32 at = 0, present = 0;
	for (int bit = 0; bit < ITEMS; bit++) { /* without branches, of which the verifier would follow all */
		__u32 taken = bitmap >> (15 - bit) & 1;
		present |= taken << bit;
		report->at[bit] = at;
		at += taken * (bit == 6 ? 8 : bit == 4 || bit == 5 ? 4 + 4 * wide : 4);
	}
	if (present & HAVE_UTILIZATION && !(present & HAVE_PORTS))
		return 0;
	if (!wide && present & HAVE_BUFFER)
		return 0;
	report->present = present;
	return at + (bitmap & 1) * 4;
}

/* INT-MD with its shim at `at`, in a packet that ends at `end`; whether it is compared here. */
inlined int read_int(struct scratch *scratch, struct report *report, __u32 at, __u32 end)
{
	if (at + 16 > end)
		return 0;
	__u32 shim = read32(scratch, at), head = read32(scratch, at + 4), words = head >> 8 & 0x1f, bytes, left, wide;
	__u32 instructions = read32(scratch, at + 8);
	if (shim >> 24 == 0x10 && head >> 13 == 0x20000000 >> 13) {
		if (read32(scratch, at + 12)) /* domain-specific */
			return 0;
		wide = 1;
		left = shim >> 16 & 0xff;
		report->stack = at + 16;
	} else if (shim >> 24 == 0x01 && head >> 13 == 0x10000000 >> 13) {
		wide = 0;
		left = shim >> 8 & 0xff;
		report->stack = at + 12;
	} else {
		return 0;
	}
	if (left < 3)
		return 0;
	left -= 3;
	bytes = place_items(report, instructions >> 16, wide);
	if (!bytes || bytes != words * 4 || !words)
		return 0;
	report->hops = left / words;
	report->hop_bytes = bytes;
	return report->hops && report->hops <= MAX_HOPS && report->hops * words == left &&
	       report->stack + left * 4 <= end;
}

/* The packet that report `index` is about, from `at` to `end`; `type` as InType of Report 2.0. Not static: the verifier
 * checks it once, and not for each call. */
__noinline int read_packet(struct scratch *scratch, __u32 index, __u32 at, __u32 end, __u32 type)
{
	if (!scratch)
		return 0;
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	__u32 version = type, protocol, dscp;
	if (type == 3) {
		at += 12;
		__u32 ethertype = read16(scratch, at);
		at += 2;
		for (int i = 0; i < 2; i++) {
			if (ethertype != ETH_P_8021Q && ethertype != ETH_P_8021AD)
				break;
			ethertype = read16(scratch, at + 2);
			at += 4;
		}
		version = ethertype == ETH_P_IP ? 4 : ethertype == ETH_P_IPV6 ? 5 : 0;
	}
	if (version == 4) {
		if (at + 20 > end)
			return 0;
		__u32 first = read32(scratch, at), size = (first >> 24 & 15) * 4, length = first & 0xffff;
		if (first >> 28 != 4 || size < 20 || length < size || at + length > end ||
		    read16(scratch, at + 6) & 0x3fff)
			return 0;
		dscp = first >> 18 & 0x3f;
		protocol = read8(scratch, at + 9);
		report->key.addresses[0] = report->key.addresses[2] = 0;
		report->key.addresses[1] = 0xffff00000000 | read32(scratch, at + 12);
		report->key.addresses[3] = 0xffff00000000 | read32(scratch, at + 16);
		end = at + length;
		at += size;
	} else if (version == 5) {
		if (at + 40 > end)
			return 0;
		__u32 first = read32(scratch, at), length = 40 + read16(scratch, at + 4);
		if (first >> 28 != 6 || at + length > end)
			return 0;
		dscp = first >> 22 & 0x3f;
		protocol = read8(scratch, at + 6);
		for (int i = 0; i < 4; i++)
			report->key.addresses[i] = read64(scratch, at + 8 + 8 * i);
		end = at + length;
		at += 40;
	} else {
		return 0;
	}
	if (!(variables.control.dscp >> dscp & 1))
		return 0;
	if (at + 20 > end)
		return 0;
	__u32 source = read16(scratch, at), destination = read16(scratch, at + 2), zero = 0;
	if (protocol == IPPROTO_UDP) {
		struct roles *roles_ = bpf_map_lookup_elem(&roles, &zero);
		if (!roles_ || roles_->of[destination & 0xffff])
			return 0;
		at += 8;
	} else if (protocol == IPPROTO_TCP) {
		__u32 size = (read8(scratch, at + 12) >> 4) * 4;
		if (size < 20)
			return 0;
		at += size;
	} else {
		return 0;
	}
	report->key.transport = source | (__u64)destination << 16 | (__u64)protocol << 32 |
				(__u64)(version == 4 ? 4 : 6) << 40;
	return read_int(scratch, report, at, end);
}

/* One report of a group from `at` to `end` (Report 2.0); returns where the next begins, 0: unusual. */
inlined __u32 read_part(struct scratch *scratch, __u32 index, __u32 at, __u32 end)
{
	if (at + 12 > end)
		return 0;
	__u32 head = read32(scratch, at), length = head >> 16 & 0xff, stop = end;
	/* INT, a packet, no report metadata, none of the flags but "tracked" */
	if (head >> 28 != 1 || (head & 0xffd0) != 0 || read16(scratch, at + 4))
		return 0;
	if (length != 0xff && length) {
		stop = at + 4 + length * 4;
		if (stop > end && stop < end + 4)
			stop = end;
	}
	if (stop > end || !read_packet(scratch, index, at + 12, stop, head >> 24 & 15))
		return 0;
	return stop;
}

struct group {
	struct scratch *scratch;
	__u32 at;
	__u32 end;
};

static long read_next(__u32 index, struct group *group)
{
	struct scratch *scratch = group->scratch;
	if (index >= MAX_REPORTS) /* more than are compared */
		return group->at = 0, 1;
	group->at = read_part(scratch, index, group->at, group->end);
	if (!group->at)
		return 1;
	scratch->count = index + 1;
	return group->at + 4 > group->end; /* less than a header is padding */
}

/* What a datagram states of itself; whether all of its reports are compared here. */
inlined int read_reports(struct scratch *scratch, struct numbering *found)
{
	__u32 length = scratch->head.length, first = read32(scratch, 0);
	scratch->count = 0;
	found->version = 0;
	if (length < 16 || length > MAX_COMPARED)
		return 0;
	if (first >> 28 == 2) {
		found->version = 20;
		found->bits = 22;
		found->hardware = first >> 22 & 0x3f;
		found->sequence = first & 0x3fffff;
		found->node = read32(scratch, 4);
		struct group group = {scratch, 8, length};
		bpf_loop(MAX_REPORTS + 1, read_next, &group, 0);
		return group.at != 0;
	}
	if (first >> 28 == 1 && (first >> 24 & 15) >= 4) {
		found->version = 10;
		found->bits = 32;
		found->hardware = first & 0x3f;
		found->node = read32(scratch, 4);
		found->sequence = read32(scratch, 8);
		/* no report metadata, none of the flags but "tracked" */
		__u32 type = first >> 21 & 7;
		if ((first >> 24 & 15) != 4 || type > 2 || first & 0x1f8180)
			return 0;
		scratch->count = 1;
		return read_packet(scratch, 0, 16, length, type + 3);
	}
	return 0;
}
