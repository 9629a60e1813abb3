// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Queue and load of the interface through which a packet leaves. */
#pragma once

#include "int_state.h"
#include "queue.h"

#define WINDOW_NS 10000000  /* window in which bytes are counted for the utilisation */

/* Whether the kernel has bpf_cast_to_kern_ctx(). */
const volatile __u32 has_queues = 1;

/* Queue id and occupancy in packets, in INT's form.  Not inlined, like `length_of`. */
__attribute__((noinline)) __u32 queue_of(struct __sk_buff *skb, __u32 processors)
{
	if (!has_queues)
		return NO_VALUE;
	__u64 found = queued(skb, processors, 0);
	__u32 sum = found, id = found >> 32;
	if (found == NO_QUEUE)
		return NO_VALUE;
	return id << 24 | (sum < 0xffffff ? sum : 0xfffffe);
}

/* Add a packet to the load of its interface. */
inlined void add_load(struct __sk_buff *skb)
{
	struct switch_port *port = own_port(skb);
	if (!port || !port->mbits)
		return;
	__u64 now = bpf_ktime_get_ns(), begin = port->window_ns, spent = now - begin;
	if (spent > WINDOW_NS && __sync_val_compare_and_swap(&port->window_ns, begin, now) == begin) {
		__u64 bytes = __sync_lock_test_and_set(&port->window_bytes, 0), most = port->mbits * spent;
		/* bits in 1/1000 of a microsecond, in 1/100 % */
		port->utilization = begin && most ? bytes * 8 * 1000 * 10000 / most : 0;
	}
	__sync_fetch_and_add(&port->window_bytes, skb->wire_len);
}
