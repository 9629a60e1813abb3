// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Queue and load of the interface that a packet leaves through. */
#pragma once

#include <bpf/bpf_core_read.h>

#include "int_state.h"
#include "kernel.h"

#define MAX_QUEUES 64       /* of an interface that are looked at */
#define ALL_QUEUES 0xff     /* queue id of their sum */
#define PERCPU_STATS 0x20   /* TCQ_F_CPUSTATS: a lock-less qdisc counts by processor */
#define WINDOW_NS 10000000  /* in which bytes are counted for the utilisation */

/* Whether the kernel has the function below (Linux 6.2). */
const volatile __u32 has_queues = 1;

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;
extern const void __per_cpu_offset __ksym __weak;

/* Packets in the qdisc at an address, as qdisc_qlen_sum() adds them up.  This function and the next one are not inlined: the
 * kernel checks them once, and the programs are loaded in 0.1 s instead of 1.6. */
__attribute__((noinline)) __u32 length_of(__u64 address, __u32 processors)
{
	struct Qdisc *qdisc = (void *)address;
	__u32 length = BPF_CORE_READ(qdisc, qstats.qlen);
	if (!(BPF_CORE_READ(qdisc, flags) & PERCPU_STATS))
		return length + BPF_CORE_READ(qdisc, q.qlen);
	const void *offsets = &__per_cpu_offset;
	const char *counted = (void *)BPF_CORE_READ(qdisc, cpu_qstats);
	for (__u32 i = 0; i < MAX_PROCESSORS && i < processors; i++) {
		__u64 offset;
		if (!offsets || bpf_probe_read_kernel(&offset, sizeof(offset), offsets + i * sizeof(offset)))
			break;
		length += BPF_CORE_READ((struct gnet_stats_queue *)(counted + offset), qlen);
	}
	return length;
}

/* Queue id and occupancy in packets, as INT writes them.  The kernel chooses one of several queues only later: then this
 * is the sum of all. */
__attribute__((noinline)) __u32 queue_of(struct __sk_buff *skb, __u32 processors)
{
	if (!has_queues)
		return NO_VALUE;
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	struct net_device *device = BPF_CORE_READ(packet, dev);
	__u32 queues = BPF_CORE_READ(device, real_num_tx_queues), sum = 0, id = 0;
	const char *queue = (void *)BPF_CORE_READ(device, _tx);
	struct Qdisc *first = BPF_CORE_READ((struct netdev_queue *)queue, qdisc);
	if (!first)
		return NO_VALUE;
	sum = length_of((__u64)first, processors);
	for (__u32 i = 1; i < MAX_QUEUES && i < queues; i++) {
		queue += bpf_core_type_size(struct netdev_queue);
		struct Qdisc *qdisc = BPF_CORE_READ((struct netdev_queue *)queue, qdisc);
		if (qdisc == first) /* one for all */
			break;
		id = ALL_QUEUES;
		sum += length_of((__u64)qdisc, processors);
	}
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
