// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Structures that the programs of a switch and Python share: `switch/layout.py` has the same numbers and records. */
#pragma once

#include "shared.h"

#define MAX_WATCHES 32
#define MAX_PORTS 512
#define REPORT_RING_BYTES (1 << 22)
#define SENDER_TIMEOUT_NS 2000000000 /* a process that has not written for this long has ended */

/* What happened to a packet that leaves the switch; packets other than TCP and UDP are PASS_OTHER. */
enum switch_count {
	SWITCH_SOURCE,    /* INT was inserted, with this hop */
	SWITCH_TRANSIT,   /* this hop was added to its INT */
	SWITCH_HOP_LIMIT, /* its INT now says that the path is longer than the hop limit */
	SWITCH_MTU,       /* its INT now says that this hop would not fit into the MTU */
	SWITCH_POSTCARD,  /* unchanged, and reported: INT-MX in transit, or INT-XD */
	SWITCH_SINK,      /* its INT was removed and reported */
	SWITCH_FAILED,    /* dropped: the kernel ran out of memory halfway through a change */
	PASS_OTHER,       /* unchanged: neither TCP nor UDP over IPv4 or IPv6 */
	PASS_UNWATCHED,   /* no entry of the watch list */
	PASS_UNSAMPLED,   /* watched, but not chosen by the sampling */
	PASS_LONG,        /* watched, but too long for the MTU with INT */
	PASS_GSO,         /* segments in one buffer (GSO), cut later */
	PASS_OPTIONS,     /* IP options or extension headers */
	PASS_FRAGMENT,
	PASS_LENGTH,      /* lengths that contradict each other, or truncated */
	PASS_INT,         /* marked as INT, but of another form, or damaged */
	PASS_FULL,        /* its INT has the greatest length that a shim can state */
	PASS_REFUSED,     /* the kernel refused to enlarge it */
	SWITCH_COUNTS,
};

/* What happened to a report of this switch. */
enum report_count {
	REPORT_QUEUED,    /* in the ring of the process that sends it */
	REPORT_RING_FULL, /* lost: no room there */
	REPORT_NO_SENDER, /* not made: no process sends reports */
	REPORT_LIMITED,   /* not made: too many drop reports */
	REPORT_COUNTS,
};

/* Counters of one CPU, in cache lines of their own. */
struct switch_counters {
	__u64 packets[SWITCH_COUNTS];
	__u64 reports[REPORT_COUNTS];
};

/* Values that the process that sends reports writes. */
struct switch_sender {
	__u64 alive_ns;  /* CLOCK_MONOTONIC, several times a second */
	__u64 sequence;  /* of the next datagram */
	__u64 lost;      /* reports so far without room in the ring, for which sequence numbers were skipped */
	__u64 reports;   /* sent */
	__u64 datagrams;
	__u64 failed;    /* datagrams that the network stack did not accept */
};

enum int_mode {
	MODE_MD, /* INT-MD: the packet carries the metadata that hops write into it */
	MODE_MX, /* INT-MX: it carries only instructions, and hops report */
	MODE_XD, /* INT-XD: it does not change, and hops report */
	MODE_DROPS, /* it is reported only if it is dropped */
};

/* Addresses and ports of a packet; addresses in network order, IPv4 as ::ffff:a.b.c.d. */
struct switch_flow {
	__u32 source[4];
	__u32 destination[4];
	__u32 source_port; /* in host byte order */
	__u32 destination_port;
	__u32 protocol;
};

/* A packet is watched if its addresses are within both prefixes, and its destination port is in the range. */
struct switch_watch {
	__u32 source[4];
	__u32 source_mask[4];
	__u32 destination[4];
	__u32 destination_mask[4];
	__u32 first_port;
	__u32 last_port;
	__u32 sample;  /* one packet in `sample` */
	__u8 protocol; /* 0: TCP and UDP */
	__u8 mode;     /* enum int_mode */
	__u8 by_flow;  /* all packets of one flow in `sample` */
	__u8 reserved;
};

struct switch_watch_list {
	__u32 count;
	__u32 reserved;
	struct switch_watch watch[MAX_WATCHES];
};

/* The active list is replaced while programs read it: the other list is written first, then `active`. */
struct switch_watches {
	__u32 active;
	__u32 reserved;
	struct switch_watch_list lists[2];
};

/* Settings of the program that reports drops. */
struct drop_control {
	__u64 interval_ns; /* between two reports of a CPU, if there are many */
	__u32 network;     /* inode number of the network namespace whose packets are reported */
	__u32 port;        /* announces INT, as in switch_control */
	__u32 dscp;
	__u32 reserved;
};

/* An interface. User space writes the first two fields. */
struct switch_port {
	__u32 longest;      /* longest frame, bytes, without a VLAN tag */
	__u32 mbits;        /* speed, Mbit/s; 0: unknown, or the utilisation is not needed */
	__u64 window_ns;    /* start of the window in which bytes are counted */
	__u64 window_bytes;
	__u32 utilization;  /* of the previous window, in 1/100 % */
	__u32 queue;        /* packets in its queue, as last measured */
	__u64 hops;         /* packets whose latency was measured for INT */
	__u64 latency_ns;   /* sum of their latencies */
};

struct switch_control {
	__u32 node_id;
	__u32 instructions; /* instruction bitmap that a source writes */
	__u32 hop_limit;
	__u32 port;         /* UDP port that announces INT; 0: the DSCP does */
	__u32 dscp;
	__u32 processors;   /* number of possible CPUs */
	__u64 epoch_ns;     /* offset from CLOCK_TAI to the time since 1970 */
};
