// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* What the programs of a switch and Python share: `switch/layout.py` has the same numbers and records. */
#pragma once

#include "shared.h"

#define MAX_WATCHES 32
#define MAX_PORTS 512
#define REPORT_RING_BYTES (1 << 22)
#define SENDER_TIMEOUT_NS 2000000000 /* a process that did not write for so long has ended */

/* What happened to a TCP or UDP packet, or to another one (PASS_OTHER), that leaves the switch. */
enum switch_count {
	SWITCH_SOURCE,    /* INT was put in, with this hop */
	SWITCH_TRANSIT,   /* this hop was added to its INT */
	SWITCH_HOP_LIMIT, /* its INT says now that the path is longer than its hop limit */
	SWITCH_MTU,       /* its INT says now that this hop would not fit into the MTU */
	SWITCH_POSTCARD,  /* as it came, and reported: INT-MX on its way, INT-XD */
	SWITCH_SINK,      /* its INT was removed and reported */
	SWITCH_FAILED,    /* dropped: the kernel had no memory for it half-way through a change */
	PASS_OTHER,       /* as it came: neither TCP nor UDP over IPv4 or IPv6 */
	PASS_UNWATCHED,   /* no entry of the watch list */
	PASS_UNSAMPLED,   /* watched, but not the one in N */
	PASS_LONG,        /* watched, but too long for the MTU with INT */
	PASS_GSO,         /* segments that are cut later */
	PASS_OPTIONS,     /* IP options or extension headers */
	PASS_FRAGMENT,
	PASS_LENGTH,      /* lengths that contradict each other, or cut */
	PASS_INT,         /* marked as INT, but of another form, or damaged */
	PASS_FULL,        /* its INT is as long as a shim can say */
	PASS_REFUSED,     /* the kernel did not let it be made longer */
	SWITCH_COUNTS,
};

/* What happened to a report of this switch. */
enum report_count {
	REPORT_QUEUED,    /* in the ring of the process that sends it */
	REPORT_RING_FULL, /* lost: no room there */
	REPORT_NO_SENDER, /* not made: no process sends reports */
	REPORT_LIMITED,   /* of a drop, not made: there were too many */
	REPORT_COUNTS,
};

/* Counters of one processor; their lines are not shared. */
struct switch_counters {
	__u64 packets[SWITCH_COUNTS];
	__u64 reports[REPORT_COUNTS];
};

/* What the process that sends reports writes. */
struct switch_sender {
	__u64 alive_ns;  /* CLOCK_MONOTONIC, several times a second */
	__u64 sequence;  /* of the next datagram */
	__u64 lost;      /* reports without room in the ring until then, which the sequence has counted */
	__u64 reports;   /* sent */
	__u64 datagrams;
	__u64 failed;    /* datagrams that the network stack did not take */
};

enum int_mode {
	MODE_MD, /* INT-MD: the packet carries what hops write into it */
	MODE_MX, /* INT-MX: it carries instructions alone, and hops report */
	MODE_XD, /* INT-XD: it does not change, and hops report */
	MODE_DROPS, /* nothing, but if it is dropped */
};

/* Addresses and ports of a packet; addresses in network order, IPv4 as ::ffff:a.b.c.d. */
struct switch_flow {
	__u32 source[4];
	__u32 destination[4];
	__u32 source_port; /* in the order of the processor */
	__u32 destination_port;
	__u32 protocol;
};

/* A packet is watched if it is within both prefixes, and its destination port is in between. */
struct switch_watch {
	__u32 source[4];
	__u32 source_mask[4];
	__u32 destination[4];
	__u32 destination_mask[4];
	__u32 first_port;
	__u32 last_port;
	__u32 sample;  /* one packet in so many */
	__u8 protocol; /* 0: TCP and UDP */
	__u8 mode;     /* enum int_mode */
	__u8 by_flow;  /* all packets of one flow in so many */
	__u8 reserved;
};

struct switch_watch_list {
	__u32 count;
	__u32 reserved;
	struct switch_watch watch[MAX_WATCHES];
};

/* The list that counts is replaced while programs read it: the other one is written, then `active`. */
struct switch_watches {
	__u32 active;
	__u32 reserved;
	struct switch_watch_list lists[2];
};

/* What the program that reports drops does. */
struct drop_control {
	__u64 interval_ns; /* between two reports of a processor, if there are many */
	__u32 network;     /* namespace whose packets are reported, by the number of its inode */
	__u32 port;        /* what announces INT, as in switch_control */
	__u32 dscp;
	__u32 reserved;
};

/* An interface: what it takes and its load, of which the first two are written by the user's side. */
struct switch_port {
	__u32 longest;      /* bytes of a frame, without a VLAN tag */
	__u32 mbits;        /* a second; 0: not known, or its load is not asked for */
	__u64 window_ns;    /* when the time began in which bytes are counted */
	__u64 window_bytes;
	__u32 utilization;  /* of the time before, in 1/100 % */
	__u32 queue;        /* packets in its queue, when it was last looked at */
	__u64 hops;         /* packets whose latency was known, as it was looked at for INT */
	__u64 latency_ns;   /* their sum */
};

struct switch_control {
	__u32 node_id;
	__u32 instructions; /* that a source writes */
	__u32 hop_limit;
	__u32 port;         /* UDP port that announces INT; 0: the DSCP does */
	__u32 dscp;
	__u32 processors;   /* possible ones */
	__u64 epoch_ns;     /* what makes the kernel's atomic time the time since 1970 */
};
