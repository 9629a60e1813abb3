/* What the programs of a switch and Python share: `switch/layout.py` has the same numbers and records. */
#pragma once

#include "shared.h"

#define MAX_WATCHES 32

/* What happened to a TCP or UDP packet, or to another one (PASS_OTHER), that leaves the switch. */
enum switch_count {
	SWITCH_SOURCE,    /* INT was put in, with this hop */
	SWITCH_TRANSIT,   /* this hop was added to its INT */
	SWITCH_HOP_LIMIT, /* its INT says now that the path is longer than its hop limit */
	SWITCH_MTU,       /* its INT says now that this hop would not fit into the MTU */
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

/* Counters of one processor; their lines are not shared. */
struct switch_counters {
	__u64 packets[SWITCH_COUNTS];
};

enum int_mode {
	MODE_MD, /* INT-MD: the packet carries what hops write into it */
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

struct switch_control {
	__u32 node_id;
	__u32 instructions; /* that a source writes */
	__u32 hop_limit;
	__u32 port;         /* UDP port that announces INT; 0: the DSCP does */
	__u32 dscp;
	__u32 reserved;
	__u64 epoch_ns;     /* what makes the kernel's atomic time the time since 1970 */
};
