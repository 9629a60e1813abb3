// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* What the program and Python share: `layout.py` has the same numbers and records. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define inlined static __always_inline
/* Clang keeps this variable, and what is compared with it, as written here: it would count a loop down, or compare two
 * numbers where their difference is compared with 0, and the verifier would not know what it has to. */
#define KNOWN(variable) asm volatile("" : "+r"(variable))

/* Longest UDP payload that goes up: that of a jumbo frame. */
#define MAX_PAYLOAD 9216
#define MAX_PROCESSORS 256
#define WAYS 12        /* of a row of flows, as in the detector's table */
#define INLINE_HOPS 8  /* of a flow; the others are in a block of the pool, as in the detector's */
#define POOL_HOPS 56
#define PROBES 8       /* places after its hash where a port or source is looked for */
#define KEYS 10        /* of the detector's hashes */
#define NOWHERE 0xffffffff

/* What happened to a datagram. */
enum count {
	COUNT_FILTERED,   /* nothing in it would change the detector's state: it ended here */
	COUNT_UNUSUAL,    /* went up: a form that is not compared here */
	COUNT_UNKNOWN,    /* went up: a flow, path, queue, buffer, port or source that is not compared yet */
	COUNT_CHANGED,    /* went up: a value that is beyond its limits */
	COUNT_FLAGGED,    /* went up: of a drop, or of a congested queue */
	COUNT_SEQUENCE,   /* went up: not the next number of its source */
	COUNT_BUSY,       /* went up: another processor had the tables for too long */
	COUNT_UNFILTERED, /* went up: the filter is off */
	COUNT_RING_FULL,  /* lost: no room in the ring */
	COUNT_OVERSIZED,  /* lost: longer than MAX_PAYLOAD */
	COUNT_FRAGMENT,   /* left to the network stack: an IP fragment */
	COUNT_BAD_LENGTH, /* left to the network stack: lengths that contradict each other */
	COUNTS,
};

/* Counters of one processor; their lines are not shared. */
struct counters {
	__u64 datagrams[COUNTS];
	__u64 reports; /* filtered */
	__u64 hops;    /* of these */
	__u64 values;  /* of these, as the detector counts them */
	__u64 bytes;   /* of the payloads of filtered datagrams */
};

/* Marks of a datagram that goes up. */
enum mark {
	MARK_NUMBERED = 1, /* its sequence number was the next one: the detector does not look at it */
	MARK_MERGE = 2,    /* `received` of its source is to be merged before its number is looked at */
	MARK_UNUSUAL = 4,  /* what the detector changes by it is not known here */
};

/* A datagram on its way up: this header, then the UDP payload. */
struct report_head {
	__u64 time_ns;     /* CLOCK_MONOTONIC */
	__u64 source_high; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	__u64 source_low;
	__u32 length; /* of the payload, bytes */
	__u16 source_port;
	__u16 port;
	__u64 received; /* reports in sequence of its source until then, see struct source */
	__u32 source;   /* row of its source, or NOWHERE */
	__u32 marks;    /* enum mark */
};

/* State of a row. The user's side writes all of a row that is ABSENT, and only the state of any other; the program
 * writes no row that is ABSENT, and the state of sources only. */
enum state {
	ABSENT,  /* not compared */
	WATCHED, /* followed, but reports go up: reports on their way may still change it */
	ACTIVE,  /* compared */
	SETTLING, /* of a source: reports that came before may have higher numbers */
};

/* One hop of a flow: what HOP_STATE keeps of it. */
struct hop {
	__u32 node;
	__u32 latency_stored;
	__u32 latency_change; /* the largest difference that is no change */
	__u32 latency_above;  /* limit */
	__u32 port_slot;      /* rows of `ports` */
	__u32 queue_slot;
	__u32 buffer_slot;
	__u32 samples;
	__u64 latency_sum;
	__u32 latency_latest;
	__u32 queue_latest;
	__u32 utilization_latest;
	__u16 egress_port;
	__u16 has_latency; /* `latency_stored` is one */
	__u32 low;         /* the bounds of a latency without an event, kept by the program: as of a port */
	__u32 high;
};

/* One flow, at the place of its row in FLOW. */
struct flow {
	__u64 addresses[4]; /* source high, low, destination high, low */
	__u64 transport;    /* ports, protocol and IP version, as `pack_l4` */
	__u32 state;
	__u32 hop_count;
	__u64 latency_stored;
	__u64 latency_change;
	__u64 latency_above;
	__u64 packets; /* filtered, as all below */
	__u64 last_ns;
	__u64 latency_latest;
	__u64 latency_sum;
	__u64 latency_samples;
	__u32 has_latency;
	__u32 spoiled; /* the program cannot follow it any longer */
	__u32 touched; /* a report came since it is followed: the latest values are the program's */
	__u32 block;   /* of the pool, from 0, if it has more than INLINE_HOPS */
	struct hop hops[INLINE_HOPS];
};

/* What is compared of one metric of a queue, buffer or egress port. */
struct metric {
	__u32 low; /* what a value without an event is between; the program sets them when it compares the row first, and when
		      `stored` changes. Until then, nothing is */
	__u32 high;
	__u32 latest;
	__u32 highest; /* since the user's side set it to 0 */
	__u32 stored;
	__u32 change; /* the largest difference that is no change */
	__u32 above;  /* limit */
	__u32 reserved;
};

/* One queue, buffer or egress port, at the place of its row in PORT. */
struct port {
	__u64 key;
	__u64 last_ns;
	__u32 state;
	__u32 samples;
	__u32 touched; /* as of a flow */
	__u32 spoiled; /* the program cannot follow it any longer */
	struct metric metrics[2];
	__u32 has; /* bit per metric: has a value */
	__u32 reserved;
	__u64 padding[3];
};

/* One sequence space, at the place of its row in SOURCE. */
struct source {
	__u64 high;
	__u64 low;
	__u32 node;
	__u32 hardware;
	__u32 bits; /* 22 or 32 */
	__u32 state; /* WATCHED: the next report gives the number to go on from */
	__u32 highest; /* while SETTLING: the first number that came */
	__u32 reserved;
	__u64 received; /* reports in sequence, filtered or MARK_NUMBERED */
	__u64 last_ns;
	__u64 padding;
};

/* What the user's side sets before the program is loaded. */
struct constants {
	__u16 report_port;     /* of the reports, in network order */
	__u16 stores_in_order; /* other processors see this one's stores in their order, as on x86: a plain one ends what
				  the lock guards */
	__u16 queues_by_port;
	__u16 promiscuous; /* frames for other machines are taken, too */
};

/* What the user's side sets while the program runs. */
struct control {
	__u64 lock; /* odd: a processor is in the tables */
	__u64 dscp; /* bit per DSCP that announces INT */
	__u64 keys[KEYS];
	__u32 filter; /* 0: everything goes up */
	__u32 near_mask; /* rows - 1, as below */
	__u32 flow_mask;
	__u32 port_mask;
	__u32 source_mask;
	__u32 reserved;
	__u64 jiffies; /* of `now_ns` */
	__u64 now_ns;  /* the coarse clock, read once a tick */
	__u64 spoiled; /* flows that could not be followed any longer, so far */
	__u64 address; /* of the interface: the first 8 bytes of a frame to it, without the last two */
	__u64 padding[5];
};
