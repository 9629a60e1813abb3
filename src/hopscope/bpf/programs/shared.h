// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Structures that the program and Python share: `layout.py` has the same numbers and records. */
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#define inlined static __always_inline
/* Makes clang keep this variable, and comparisons with it, as written. Otherwise it might count a loop down, or compare
 * two numbers where the source compares their difference with 0, and the verifier would not learn the bounds it
 * needs. */
#define KNOWN(variable) asm volatile("" : "+r"(variable))

/* Maps. A table is an array that user space maps; a ring takes records to user space; scratch memory belongs to a CPU. */
#define TABLE(name, entries, row)                                                                                      \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, entries);                                                                          \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__type(key, __u32);                                                                                    \
		__type(value, row);                                                                                    \
	} name SEC(".maps")
#define HASH(name, entries, from, to)                                                                                  \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_HASH);                                                                       \
		__uint(max_entries, entries);                                                                          \
		__type(key, from);                                                                                     \
		__type(value, to);                                                                                     \
	} name SEC(".maps")
#define SCRATCH(name, memory)                                                                                          \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                                               \
		__uint(max_entries, 1);                                                                                \
		__type(key, __u32);                                                                                    \
		__type(value, memory);                                                                                 \
	} name SEC(".maps")
#define RING(name, bytes)                                                                                              \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_RINGBUF);                                                                    \
		__uint(max_entries, bytes);                                                                            \
	} name SEC(".maps")

/* Longest UDP payload that is passed up: that of a jumbo frame. */
#define MAX_PAYLOAD 9216
#define MAX_PROCESSORS 256
#define WAYS 12        /* ways of a row of flows, as in the detector's table */
#define INLINE_HOPS 8  /* hops of a flow; further hops are in a block of the pool, as in the detector's table */
#define POOL_HOPS 56
#define PROBES 8       /* places, from its hash on, where a port or source is searched */
#define KEYS 10        /* keys of the detector's hashes */
#define NOWHERE 0xffffffff

/* What happened to a datagram. */
enum count {
	COUNT_FILTERED,   /* ended here: nothing in it would change the detector's state */
	COUNT_UNUSUAL,    /* passed up: a form that is not compared here */
	COUNT_UNKNOWN,    /* passed up: a flow, path, queue, buffer, port or source that is not compared yet */
	COUNT_CHANGED,    /* passed up: a value beyond its limits */
	COUNT_FLAGGED,    /* passed up: about a drop or a congested queue */
	COUNT_SEQUENCE,   /* passed up: not the next sequence number of its source */
	COUNT_BUSY,       /* passed up: another CPU held the lock of the tables for too long */
	COUNT_UNFILTERED, /* passed up: the filter is off */
	COUNT_RING_FULL,  /* lost: no room in the ring */
	COUNT_OVERSIZED,  /* lost: longer than MAX_PAYLOAD */
	COUNT_FRAGMENT,   /* left to the network stack: an IP fragment */
	COUNT_BAD_LENGTH, /* left to the network stack: lengths that contradict each other */
	COUNTS,
};

/* Counters of one CPU, in cache lines of their own. */
struct counters {
	__u64 datagrams[COUNTS];
	__u64 reports; /* filtered reports */
	__u64 hops;    /* their hops */
	__u64 values;  /* their values, as the detector counts them */
	__u64 bytes;   /* bytes in the payloads of filtered datagrams */
};

/* Marks of a datagram that is passed up. */
enum mark {
	MARK_NUMBERED = 1, /* its sequence number was the next one: the detector does not check it */
	MARK_MERGE = 2,    /* `received` of its source must be merged before its number is checked */
	MARK_UNUSUAL = 4,  /* it is unknown here what the detector changes because of it */
};

/* A datagram on its way up: this header, then the UDP payload. */
struct report_head {
	__u64 time_ns;     /* CLOCK_MONOTONIC */
	__u64 source_high; /* IPv6, or IPv4 as ::ffff:a.b.c.d */
	__u64 source_low;
	__u32 length; /* of the payload, bytes */
	__u16 source_port;
	__u16 port;
	__u64 received; /* its source's reports in sequence so far, see struct source */
	__u32 source;   /* row of its source, or NOWHERE */
	__u32 marks;    /* enum mark */
};

/* State of a row. User space writes all fields of ABSENT rows, and only the state of other rows. The program writes no
 * ABSENT row, and the state only of sources. */
enum state {
	ABSENT,  /* not compared */
	WATCHED, /* followed, but its reports are passed up, since reports on their way may still change it */
	ACTIVE,  /* compared */
	SETTLING, /* of a source: earlier reports may have higher numbers */
};

/* One hop of a flow, with the fields of HOP_STATE that are needed here. */
struct hop {
	__u32 node;
	__u32 latency_stored;
	__u32 latency_change; /* the largest difference that is not a change */
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
	__u16 has_latency; /* `latency_stored` is valid */
	__u32 low;         /* bounds of latencies that cause no event, kept by the program as for a port */
	__u32 high;
};

/* One flow, at the place of its row in FLOW. */
struct flow {
	__u64 addresses[4]; /* source high, low, destination high, low */
	__u64 transport;    /* ports, protocol and IP version, see `pack_l4` */
	__u32 state;
	__u32 hop_count;
	__u64 latency_stored;
	__u64 latency_change;
	__u64 latency_above;
	__u64 packets; /* filtered packets; the fields below count only filtered ones, too */
	__u64 last_ns;
	__u64 latency_latest;
	__u64 latency_sum;
	__u64 latency_samples;
	__u32 has_latency;
	__u32 spoiled; /* the program cannot follow it any longer */
	__u32 touched; /* a report came since it has been followed: the program has the latest values */
	__u32 block;   /* block of the pool, from 0, if it has more than INLINE_HOPS */
	struct hop hops[INLINE_HOPS];
};

/* Values and limits of one metric of a queue, buffer or egress port. */
struct metric {
	__u32 low; /* bounds of values that cause no event; the program sets them when it first compares the row, and
		      when `stored` changes. Until then, no value is within them */
	__u32 high;
	__u32 latest;
	__u32 highest; /* since user space set it to 0 */
	__u32 stored;
	__u32 change; /* the largest difference that is not a change */
	__u32 above;  /* limit */
	__u32 reserved;
};

/* One queue, buffer or egress port, at the place of its row in PORT. */
struct port {
	__u64 key;
	__u64 last_ns;
	__u32 state;
	__u32 samples;
	__u32 touched; /* as for a flow */
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
	__u32 state; /* WATCHED: the next report gives the number to continue from */
	__u32 highest; /* while SETTLING: the first number that arrived */
	__u32 reserved;
	__u64 received; /* reports in sequence, filtered or MARK_NUMBERED */
	__u64 last_ns;
	__u64 padding;
};

/* Values that user space sets before the program is loaded. */
struct constants {
	__u16 report_port;     /* of the reports, in network order */
	__u16 stores_in_order; /* CPUs see each other's stores in order, as on x86: a plain store can release the
				  lock */
	__u16 queues_by_port;
	__u16 promiscuous; /* frames for other machines are taken, too */
};

/* Values that user space sets while the program runs. */
struct control {
	__u64 lock; /* odd: a CPU uses the tables */
	__u64 dscp; /* bit per DSCP that announces INT */
	__u64 keys[KEYS];
	__u32 filter; /* 0: every report is passed up */
	__u32 near_mask; /* rows - 1, as below */
	__u32 flow_mask;
	__u32 port_mask;
	__u32 source_mask;
	__u32 reserved;
	__u64 jiffies; /* of `now_ns` */
	__u64 now_ns;  /* the coarse clock, read once a tick */
	__u64 spoiled; /* number of flows so far that could no longer be followed */
	__u64 address; /* address of the interface: the first 8 bytes of a frame to it, without the last two */
	__u64 padding[5];
};
