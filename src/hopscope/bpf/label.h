// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* What the programs of INT-label and Python share: `switch/labels/layout.py` has the same numbers and records. */
#pragma once

#include "shared.h"

#define MAX_LABEL_PORTS 512
#define MAX_LABEL_INDEX 65535 /* an interface with a higher number is no port */
#define MAX_LABEL_FLOWS 1024
#define MAX_CHANCES 101000    /* rows and columns of a table of probabilities */
#define MAX_COUNT 255         /* INT_num */

/* What happened to a packet that leaves through a port. */
enum label_count {
	LABEL_WRITTEN,    /* this port's label was written into it */
	LABEL_RESTORED,   /* last hop: its labels were taken off */
	LABEL_LAST,       /* last hop: it had no labels, and this port's own went to the collector */
	LABEL_FAILED,     /* dropped: the kernel had no memory for it half-way through a change */
	LABEL_FORGED,     /* dropped: a host sent it with labels */
	PASS_NOT_DUE,     /* as it came: no label was due */
	PASS_OTHER,       /* as it came: no IPv4 or IPv6 */
	PASS_OWN,         /* as it came: this machine sent it */
	PASS_LOCAL,       /* as it came: to a group, or within a link */
	PASS_LONG,        /* a label was due, but it would be too long for the MTU */
	PASS_FULL,        /* a label was due, but it has MAX_hop labels */
	PASS_GSO,         /* as it came: segments that are cut later */
	PASS_FRAGMENT,    /* as it came: an IP fragment */
	PASS_OPTIONS,     /* as it came: IPv6 options that routers read */
	PASS_LENGTH,      /* as it came: lengths that contradict each other, or cut */
	PASS_DAMAGED,     /* as it came: labels that cannot be read */
	PASS_CHECKSUM,    /* a label was due, but a checksum could not be kept right */
	PASS_REFUSED,     /* a label was due, but the kernel did not let it grow */
	LABEL_REPORTED,   /* beside these: labels that went to the collector's process */
	LABEL_UNREPORTED, /* beside these: labels that were lost, since it was not there or too slow */
	LABEL_COUNTS,
};

/* Counters of one processor; their lines are not shared. */
struct label_counters {
	__u64 packets[LABEL_COUNTS];
	__u64 padding[4];
};

enum label_role {
	ROLE_NONE,  /* not a port */
	ROLE_INNER, /* leads to a switch */
	ROLE_HOST,  /* leads to a host: the last hop */
};

/* Registers of a port. The program writes the first line, Python the second. */
struct label_port {
	__u64 last;    /* Reg1: time of its last label, CLOCK_MONOTONIC */
	__u64 packets; /* that left; two processors may count one together */
	__u64 labels;  /* that it wrote */
	__u64 padding[5];
	__u32 index;   /* of the interface */
	__u32 longest; /* bytes of a frame that it takes, without a VLAN tag */
	__u8 role;
	__u8 shift;    /* Reg2: the interval is T / 2^shift */
	__u8 every;    /* Reg2 of the one-bit form: label every packet */
	__u8 partial;  /* it can complete checksums of protocols that it does not know */
	__u32 reserved[13];
};

/* Why a packet with labels gets another one within the interval. */
enum label_function {
	FUNCTION_NEVER, /* Base A */
	FUNCTION_TABLE, /* by labels and part of the interval, from `chances` */
	FUNCTION_F3,    /* labels / (MAX_hop - 1), times the share of the interval */
};

/* A number of 64 bits, so that all of it changes at once: function 4, half of `chances` 4, what Python calls it 8,
 * columns 16, rows 32. */
#define FUNCTION_OF(word) ((word) & 15)
#define HALF_OF(word) ((word) >> 4 & 1)
#define COLUMNS_OF(word) ((word) >> 16 & 0xffff)
#define ROWS_OF(word) ((word) >> 32)

struct label_control {
	__u64 interval; /* T, ns */
	__u64 rest;     /* T1, ns */
	__u64 function;
	__u64 epoch_ns; /* what makes the kernel's atomic time the time since 1970 */
	__u32 node_id;
	__u32 protocol;
	__u32 max_hop;
	__u32 own;     /* packets of this machine get labels */
	__u32 tracked; /* flows */
	__u32 processors; /* possible ones */
	__u64 sent;     /* datagrams to the collector */
	__u64 rejected; /* datagrams that were lost on the way */
	__u64 stale;    /* packets whose labels waited too long */
};

struct label_flow_key {
	__u32 source[4]; /* IPv6, or IPv4 as ::ffff:a.b.c.d, network order */
	__u32 destination[4];
};

struct label_flow {
	__u32 every; /* one packet in so many is tracked */
	__u32 seen;  /* since the last one */
};

/* What a test gives in place of the clock, the random numbers, the time of arrival and the queue. */
struct label_inputs {
	__u64 now;
	__u64 random;
	__u64 received;
	__u64 queued;
};
