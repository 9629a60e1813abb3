// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Structures that the programs of INT-label and Python share: `switch/labels/layout.py` has the same. */
#pragma once

#include "shared.h"

#define MAX_LABEL_PORTS 512
#define MAX_LABEL_INDEX 65535 /* an interface with this number or a higher one cannot be a port */
#define MAX_LABEL_FLOWS 1024
#define MAX_CHANCES 101000    /* rows and columns of a table of probabilities */
#define MAX_COUNT 255         /* INT_num */

/* What happened to a packet that leaves through a port. */
enum label_count {
	LABEL_WRITTEN,    /* this port's label was written into it */
	LABEL_RESTORED,   /* last hop: its labels were removed */
	LABEL_LAST,       /* last hop: it had no labels, and this port's own went to the collector */
	LABEL_FAILED,     /* dropped: the kernel ran out of memory halfway through a change */
	LABEL_FORGED,     /* dropped: a host sent it with labels */
	PASS_NOT_DUE,     /* unchanged: no label was due */
	PASS_OTHER,       /* unchanged: neither IPv4 nor IPv6 */
	PASS_OWN,         /* unchanged: this machine sent it */
	PASS_LOCAL,       /* unchanged: multicast, broadcast or link-local */
	PASS_LONG,        /* a label was due, but the packet would exceed the MTU */
	PASS_FULL,        /* a label was due, but the packet has MAX_hop labels */
	PASS_GSO,         /* unchanged: segments in one buffer (GSO), cut later */
	PASS_FRAGMENT,    /* unchanged: an IP fragment */
	PASS_OPTIONS,     /* unchanged: IPv6 hop-by-hop options */
	PASS_LENGTH,      /* unchanged: lengths that contradict each other, or truncated */
	PASS_DAMAGED,     /* unchanged: labels that cannot be read */
	PASS_CHECKSUM,    /* a label was due, but a checksum could not be kept correct */
	PASS_REFUSED,     /* a label was due, but the kernel refused to enlarge the packet */
	LABEL_REPORTED,   /* labels, not packets: passed to the sending process */
	LABEL_UNREPORTED, /* labels, not packets: lost, since that process was not running or too slow */
	LABEL_COUNTS,
};

/* Counters of one CPU, in cache lines of their own. */
struct label_counters {
	__u64 packets[LABEL_COUNTS];
	__u64 padding[4];
};

enum label_role {
	ROLE_NONE,  /* not a port */
	ROLE_INNER, /* leads to a switch */
	ROLE_HOST,  /* leads to a host: the last hop */
};

/* Registers of a port. The program writes the first cache line, Python the second. */
struct label_port {
	__u64 last;    /* Reg1: time of its last label, CLOCK_MONOTONIC */
	__u64 packets; /* packets that left; two CPUs may count two packets as one */
	__u64 labels;  /* labels that it wrote */
	__u64 padding[5];
	__u32 index;   /* of the interface */
	__u32 longest; /* longest frame that it takes, bytes, without a VLAN tag */
	__u8 role;
	__u8 shift;    /* Reg2: the interval is T / 2^shift */
	__u8 every;    /* Reg2 of the one-bit form: label every packet */
	__u8 partial;  /* it can complete checksums of protocols that it does not know */
	__u32 reserved[13];
};

/* Why a packet with labels gets another one within the interval. */
enum label_function {
	FUNCTION_NEVER, /* Base A */
	FUNCTION_TABLE, /* from `chances`, by number of labels and part of the interval */
	FUNCTION_F3,    /* labels / (MAX_hop - 1), times the elapsed share of the interval */
};

/* One 64-bit word, so that all of it changes at once. Bits: function 4, half of `chances` 4, Python's number of the
 * function 8, columns 16, rows 32. */
#define FUNCTION_OF(word) ((word) & 15)
#define HALF_OF(word) ((word) >> 4 & 1)
#define COLUMNS_OF(word) ((word) >> 16 & 0xffff)
#define ROWS_OF(word) ((word) >> 32)

struct label_control {
	__u64 interval; /* T, ns */
	__u64 rest;     /* T1, ns */
	__u64 function;
	__u64 epoch_ns; /* offset from CLOCK_TAI to the time since 1970 */
	__u32 node_id;
	__u32 protocol;
	__u32 max_hop;
	__u32 own;     /* packets of this machine get labels */
	__u32 tracked; /* number of tracked flows */
	__u32 processors; /* number of possible CPUs */
	__u64 sent;     /* datagrams sent to the collector */
	__u64 rejected; /* datagrams rejected or not sent */
	__u64 stale;    /* packets whose labels waited too long */
};

struct label_flow_key {
	__u32 source[4]; /* IPv6, or IPv4 as ::ffff:a.b.c.d, network order */
	__u32 destination[4];
};

struct label_flow {
	__u32 every; /* one packet in `every` is tracked */
	__u32 seen;  /* packets since the last tracked one */
};

/* Values for tests in place of clock, random number, time of arrival and queue. */
struct label_inputs {
	__u64 now;
	__u64 random;
	__u64 received;
	__u64 queued;
};
