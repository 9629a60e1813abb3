// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Structures that the program of a wire and Python share: `wire_layout.py` has the same numbers and records. */
#pragma once

#include "shared.h"

#define HEAD_ROOM 2048 /* bytes of a frame's head, a power of two; the longest copied head has 1250 */
#define AFTER_INT 64   /* bytes after the INT that are copied, too */

/* What happened to a frame. */
enum wire_count {
	WIRE_FORWARDED,   /* redirected unchanged */
	WIRE_STRIPPED,    /* redirected without its INT */
	WIRE_UNVERIFIED,  /* of the stripped ones: with a checksum that was right neither with INT nor without */
	WIRE_LOST_HEAD,   /* of all redirected ones: without room in the ring for the head, so not detected */
	WIRE_UP_FORM,     /* passed up: headers that are not read here */
	WIRE_UP_FRAGMENT, /* passed up: an IP fragment */
	WIRE_UP_LENGTH,   /* passed up: lengths that contradict each other */
	WIRE_UP_INT,      /* passed up: INT of another form, or damaged */
	WIRE_UP_CHECKSUM, /* passed up: a checksum of TCP or UDP that its sender left to its network card */
	WIRE_UP_LONG,     /* passed up: longer than the MTU of the output */
	WIRE_UP_OFF,      /* passed up: the output cannot send, or the worker has not begun yet */
	WIRE_KEPT,        /* redirected with its INT, since the settings keep it */
	WIRE_COUNTS,
};

/* Counters of one CPU, in cache lines of their own. */
struct wire_counters {
	__u64 frames[WIRE_COUNTS];
	__u64 bytes; /* bytes of redirected frames, as received */
	__u64 reserved[3];
};

/* What a UDP destination port announces. */
enum wire_role {
	ROLE_NOTHING,
	ROLE_INT,      /* INT follows */
	ROLE_INSERTED, /* the UDP header was inserted with INT, unless the shim says otherwise */
	ROLE_UP,       /* a tunnel */
};

/* Values that user space sets while the program runs. */
struct wire_control {
	__u32 on;      /* 0: all frames are passed up */
	__u32 longest; /* longest frame that the output accepts, bytes, without a VLAN tag */
	__u32 strip;   /* 0: INT stays in the frames */
	__u32 read;    /* 0: frames with INT are passed up, since the dialect's INT has another form */
	__u64 dscp;    /* bit per DSCP that announces INT */
	__u8 plain_dscp[64]; /* for each of these DSCPs, its replacement if the shim has none */
	__u8 reserved[40];
};
