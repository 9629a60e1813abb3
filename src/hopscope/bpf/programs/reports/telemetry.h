// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Reads reports of the forms that are compared here: Telemetry Report 0.5, 1.0 and 2.0 without report metadata, about
 * Ethernet, IPv4 or IPv6 with TCP or UDP, whose DSCP or UDP port announces INT-MD 0.5, 1.0 or 2.x. All other reports
 * are unusual. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_endian.h>

#include "tables.h"

#define MAX_REPORTS 8   /* reports in a datagram */
#define MAX_HOPS 64     /* hops in a report */
#define MAX_COMPARED 4096 /* longest payload that is read here */
#define PLACE 8191      /* mask of offsets in a payload, for the verifier */
#define PLACE_IN_HOP 63 /* mask of offsets in a hop */
#define ITEMS 9         /* first bits of an instruction bitmap: node id to buffer occupancy */
#define TAGGED_INT 2    /* role of a UDP port: INT follows (`rules.ROLE_INT`) */

/* Bits of `present`, as in Have: bit 0 is the first of the bitmap. */
enum have {
	HAVE_NODE = 1 << 0,
	HAVE_PORTS = 1 << 1,
	HAVE_LATENCY = 1 << 2,
	HAVE_QUEUE = 1 << 3,
	HAVE_CONGESTION = 1 << 6, /* INT 0.5; later versions have L2 ports there, which are not compared */
	HAVE_UTILIZATION = 1 << 7,
	HAVE_BUFFER = 1 << 8,
};

enum version { INT_0_5 = 1, INT_1_0, INT_2_0 };

/* Flags of a report that is passed up whatever its values are. */
enum flags { DROPPED = 2, CONGESTED = 1 };

/* The values of a hop. */
struct values {
	__u32 node;
	__u32 port;
	__u32 latency;
	__u32 queue;
	__u32 congestion;
	__u32 utilization;
	__u32 buffer;
};

struct report {
	struct flow_key key;
	__u32 flow;  /* row of its flow, or NOWHERE */
	__u32 flags; /* enum flags */
	__u32 stack; /* offset of the first hop, which is the newest */
	__u32 hops;
	__u32 layout; /* bitmap and version to which the fields below belong: usually the previous report's, too */
	__u32 hop_bytes;
	__u32 present;
	__u32 at[ITEMS]; /* offset of each item in a hop */
	__u64 latency;	 /* sum of its hops; valid if its flow is compared, like */
	struct values values[MAX_HOPS];
};

/* Numbering data of a datagram. It is stored with the reports, where the verifier forgets which version it was;
 * otherwise the verifier would follow each version to the end. */
struct numbering {
	__u32 version; /* 5, 10, 20; 0: unknown */
	__u32 node;
	__u32 hardware;
	__u32 sequence;
	__u32 bits;
};

struct scratch {
	struct report_head head;
	__u8 payload[MAX_PAYLOAD];
	struct report reports[MAX_REPORTS];
	__u32 count;
	struct numbering number;
	__u32 near[16]; /* rows where sources were last found */
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

/* Set the places of a bitmap's items; returns whether all of them can be compared or skipped. Not static: the verifier
 * then checks it only once, not for each call. */
__noinline int place_items(struct report *report, __u32 bitmap, enum version version)
{
	__u32 unknown = version == INT_2_0 ? 0x7e : version == INT_1_0 ? 0xfe : 0xff;
	if (!report || bitmap & unknown || !(bitmap & 0x8000))
		return 0;
	__u32 at = 0, present = 0;
	report->layout = 0;
	for (int bit = 0; bit < ITEMS; bit++) { /* without branches, since the verifier would follow all of them */
		__u32 taken = bitmap >> (15 - bit) & 1;
		present |= taken << bit;
		report->at[bit] = at;
		at += taken * (bit == 6 ? 4 + 4 * (version != INT_0_5) : bit == 4 || bit == 5 ? 4 + 4 * (version == INT_2_0) : 4);
	}
	if (present & HAVE_UTILIZATION && !(present & HAVE_PORTS))
		return 0;
	report->present = version == INT_0_5 ? present : present & ~HAVE_CONGESTION;
	report->hop_bytes = at + (bitmap & 1) * 4;
	report->layout = bitmap | version << 16;
	return 1;
}

/* Set the packet's own UDP port, which INT may have replaced; returns whether it is not the port of a tunnel. */
inlined int set_port(struct report *report, const struct roles *roles_, __u32 port)
{
	report->key.transport = (report->key.transport & ~0xffff0000ULL) | (__u64)port << 16;
	return !(roles_->of[port & 0xffff] & ~TAGGED_INT);
}

/* Read INT-MD with its shim at `at`, in a packet that ends at `end`; returns whether it is compared here. */
inlined int read_int(struct scratch *scratch, struct report *report, const struct roles *roles_, __u32 at, __u32 end)
{
	if (at + 16 > end)
		return 0;
	__u32 shim = read32(scratch, at), head = read32(scratch, at + 4), words, left, tail = 0;
	__u32 instructions = read32(scratch, at + 8), protocol = report->key.transport >> 32 & 0xff;
	enum version version;
	if (shim >> 28 == 1 && head >> 13 == 0x20000000 >> 13) {
		__u32 npt = shim >> 26 & 3;
		if (read32(scratch, at + 12) || shim >> 24 & 3 || npt > 1) /* domain-specific */
			return 0;
		if (npt && (protocol != IPPROTO_UDP || !set_port(report, roles_, shim & 0xffff)))
			return 0;
		version = INT_2_0;
		words = head >> 8 & 0x1f;
		left = shim >> 16 & 0xff;
		report->stack = at + 16;
	} else if (shim >> 24 == 0x01 && head >> 13 == 0x10000000 >> 13) {
		version = INT_1_0;
		words = head >> 8 & 0x1f;
		left = shim >> 8 & 0xff;
		report->stack = at + 12;
	} else if (shim >> 24 == 0x01 && head >> 21 == 0) {
		version = INT_0_5;
		words = head >> 16 & 0x1f;
		left = shim >> 8 & 0xff;
		report->stack = at + 12;
		tail = 1;
	} else {
		return 0;
	}
	instructions >>= 16;
	if (left < 3 + tail || !words ||
	    (report->layout != (instructions | version << 16) && !place_items(report, instructions, version)) ||
	    report->hop_bytes != words * 4)
		return 0;
	left -= 3 + tail;
	report->hops = left / words;
	if (!report->hops || report->hops > MAX_HOPS || report->hops * words != left ||
	    report->stack + (left + tail) * 4 > end)
		return 0;
	if (!tail)
		return 1;
	__u32 own = read32(scratch, report->stack + left * 4);
	if ((head & 0xff) != report->hops)
		return 0;
	return own >> 24 != protocol || set_port(report, roles_, own >> 8 & 0xffff) || protocol != IPPROTO_UDP;
}

/* Read the packet that a report is about, from `at` to `end`; `type`: as InType of Report 2.0. */
inlined int read_packet_at(struct scratch *scratch, struct report *report, __u32 at, __u32 end, __u32 type)
{
	__u32 version = type, protocol, dscp, stop, zero = 0;
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
		if (first >> 28 != 4 || size < 20 || length < size || read16(scratch, at + 6) & 0x3fff)
			return 0;
		dscp = first >> 18 & 0x3f;
		protocol = read8(scratch, at + 9);
		report->key.addresses[0] = report->key.addresses[2] = 0;
		report->key.addresses[1] = 0xffff00000000 | read32(scratch, at + 12);
		report->key.addresses[3] = 0xffff00000000 | read32(scratch, at + 16);
		stop = at + length;
		at += size;
	} else if (version == 5) {
		if (at + 40 > end)
			return 0;
		__u32 first = read32(scratch, at), length = 40 + read16(scratch, at + 4);
		if (first >> 28 != 6)
			return 0;
		dscp = first >> 22 & 0x3f;
		protocol = read8(scratch, at + 6);
		for (int i = 0; i < 4; i++)
			report->key.addresses[i] = read64(scratch, at + 8 + 8 * i);
		stop = at + length;
		at += 40;
	} else {
		return 0;
	}
	struct roles *roles_ = bpf_map_lookup_elem(&roles, &zero);
	if (!roles_)
		return 0;
	__u32 ports = read32(scratch, at), announced = variables.control.dscp >> dscp & 1;
	report->key.transport = ports >> 16 | (__u64)(ports & 0xffff) << 16 | (__u64)protocol << 32 |
				(__u64)(version == 4 ? 4 : 6) << 40;
	if (protocol == IPPROTO_UDP) {
		__u32 role = roles_->of[ports & 0xffff];
		if (role & ~TAGGED_INT)
			return 0;
		announced |= role;
		at += 8;
	} else if (protocol == IPPROTO_TCP) {
		__u32 size = (read8(scratch, at + 12) >> 4) * 4;
		if (size < 20)
			return 0;
		at += size;
	} else {
		return 0;
	}
	/* the switch may have truncated it after its INT */
	return announced && read_int(scratch, report, roles_, at, stop < end ? stop : end);
}

/* read_packet_at(), not inlined, so that the verifier checks it only once. The first report of a datagram avoids the
 * call, which costs as much as twenty lines. */
__noinline int read_packet(struct scratch *scratch, __u32 index, __u32 at, __u32 end, __u32 type)
{
	if (!scratch)
		return 0;
	return read_packet_at(scratch, &scratch->reports[index & (MAX_REPORTS - 1)], at, end, type);
}

/* The part of a datagram that belongs to one report. */
struct part {
	__u32 at; /* offset of the packet that it is about; 0: unusual */
	__u32 end;
	__u32 type; /* type of the packet, as InType of Report 2.0 */
};

/* Read one report of a group, from `at` to `end` (Report 2.0). */
inlined struct part read_part(struct scratch *scratch, struct report *report, __u32 at, __u32 end)
{
	struct part part = {.end = end};
	if (at + 12 > end)
		return part;
	__u32 head = read32(scratch, at), length = head >> 16 & 0xff;
	/* INT, a packet, no report metadata, no flags except D, Q and F */
	if (head >> 28 != 1 || (head & 0xff10) != 0 || read16(scratch, at + 4))
		return part;
	if (length != 0xff && length) {
		part.end = at + 4 + length * 4;
		if (part.end > end && part.end < end + 4)
			part.end = end;
	}
	part.at = part.end > end ? 0 : at + 12;
	part.type = head >> 24 & 15;
	report->flags = head >> 6 & 3;
	return part;
}

struct group {
	struct scratch *scratch;
	__u32 at;
	__u32 end;
};

static long read_next(__u32 index, struct group *group)
{
	struct scratch *scratch = group->scratch;
	__u32 at = group->at;
	group->at = 0;
	if (++index >= MAX_REPORTS) /* more reports than are compared */
		return 1;
	struct part part = read_part(scratch, &scratch->reports[index & (MAX_REPORTS - 1)], at, group->end);
	if (!part.at || !read_packet(scratch, index, part.at, part.end, part.type))
		return 1;
	group->at = part.end;
	scratch->count = index + 1;
	return part.end + 4 > group->end; /* fewer bytes than a header are padding */
}

/* Read the reports of a group after the first one, which begin at `at`; returns whether all are compared here. Not
 * static, like `read_packet`. */
__noinline int read_rest(struct scratch *scratch, __u32 at)
{
	if (!scratch)
		return 0;
	struct group group = {scratch, at, scratch->head.length};
	bpf_loop(MAX_REPORTS, read_next, &group, 0);
	return group.at != 0;
}

/* Read a datagram; returns whether all of its reports are compared here. */
inlined int read_reports(struct scratch *scratch)
{
	struct numbering *found = &scratch->number;
	__u32 length = scratch->head.length, first = read32(scratch, 0);
	struct report *report = &scratch->reports[0];
	struct part part = {.end = length <= MAX_COMPARED ? length : 0}; /* only the number of a longer one is read */
	scratch->count = 0;
	found->version = 0;
	if (length < 12)
		return 0;
	if (first >> 28 == 2) {
		found->version = 20;
		found->bits = 22;
		found->hardware = first >> 22 & 0x3f;
		found->sequence = first & 0x3fffff;
		found->node = read32(scratch, 4);
		part = read_part(scratch, report, 8, part.end);
	} else if (first >> 28 == 1 && (first >> 24 & 15) >= 4) {
		found->version = 10;
		found->bits = 32;
		found->hardware = first & 0x3f;
		found->node = read32(scratch, 4);
		found->sequence = read32(scratch, 8);
		report->flags = first >> 7 & 3;
		part.type = (first >> 21 & 7) + 3;
		/* no report metadata, no flags except D, Q and F */
		if ((first >> 24 & 15) == 4 && part.type <= 5 && !(first & 0x1f8000))
			part.at = 16;
	} else if (first >> 29 == 0 && (first >> 24 & 15) <= 2) {
		found->version = 5;
		found->bits = 32;
		found->hardware = first & 0x3f;
		found->node = 0; /* one sequence for all forms of report, whatever they carry */
		found->sequence = read32(scratch, 4);
		report->flags = first >> 22 & 3;
		part.type = 3;
		if (!(first >> 24 & 15)) /* no drop or queue header before the packet */
			part.at = 12;
	}
	if (!part.at || !read_packet_at(scratch, report, part.at, part.end, part.type))
		return 0;
	scratch->count = 1;
	return part.end + 4 > length || found->version != 20 || read_rest(scratch, part.end);
}
