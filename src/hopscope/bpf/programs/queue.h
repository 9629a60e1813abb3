// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The queue at the interface through which a packet leaves. */
#pragma once

#include <bpf/bpf_core_read.h>

#include "kernel.h"
#include "shared.h"

#define MAX_QUEUES 64     /* queues of an interface that are read */
#define ALL_QUEUES 0xff   /* queue id of their sum */
#define PERCPU_STATS 0x20 /* TCQ_F_CPUSTATS: a lockless qdisc counts per CPU */
#define NO_QUEUE (~0ULL)

/* Linux 6.2. */
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;
extern const void __per_cpu_offset __ksym __weak;

inlined __u32 counted_in(struct gnet_stats_queue *queue, __u32 in_bytes)
{
	return in_bytes ? BPF_CORE_READ(queue, backlog) : BPF_CORE_READ(queue, qlen);
}

/* Packets or bytes in the qdisc at an address, summed as in qdisc_qlen_sum().  Not inlined: the kernel then verifies it
 * only once, and the programs are loaded in 0.1 s instead of 1.6. */
__attribute__((noinline)) __u32 length_of(__u64 address, __u32 processors, __u32 in_bytes)
{
	struct Qdisc *qdisc = (void *)address;
	__u32 length = counted_in(&qdisc->qstats, in_bytes);
	if (!(BPF_CORE_READ(qdisc, flags) & PERCPU_STATS))
		return length + (in_bytes ? 0 : BPF_CORE_READ(qdisc, q.qlen));
	const void *offsets = &__per_cpu_offset;
	const char *counted = (void *)BPF_CORE_READ(qdisc, cpu_qstats);
	for (__u32 i = 0; i < MAX_PROCESSORS && i < processors; i++) {
		__u64 offset;
		if (!offsets || bpf_probe_read_kernel(&offset, sizeof(offset), offsets + i * sizeof(offset)))
			break;
		length += counted_in((struct gnet_stats_queue *)(counted + offset), in_bytes);
	}
	return length;
}

/* Queue id (high 32 bits) and the packets or bytes that wait in the queue.  If there are several queues, the kernel
 * chooses one only later; then this is the sum of all. */
inlined __u64 queued(struct __sk_buff *skb, __u32 processors, __u32 in_bytes)
{
	struct sk_buff *packet = bpf_cast_to_kern_ctx(skb);
	struct net_device *device = BPF_CORE_READ(packet, dev);
	__u32 queues = BPF_CORE_READ(device, real_num_tx_queues), sum = 0, id = 0;
	const char *queue = (void *)BPF_CORE_READ(device, _tx);
	struct Qdisc *first = BPF_CORE_READ((struct netdev_queue *)queue, qdisc);
	if (!first)
		return NO_QUEUE;
	sum = length_of((__u64)first, processors, in_bytes);
	for (__u32 i = 1; i < MAX_QUEUES && i < queues; i++) {
		queue += bpf_core_type_size(struct netdev_queue);
		struct Qdisc *qdisc = BPF_CORE_READ((struct netdev_queue *)queue, qdisc);
		if (qdisc == first) /* one qdisc for all queues */
			break;
		id = ALL_QUEUES;
		sum += length_of((__u64)qdisc, processors, in_bytes);
	}
	return (__u64)id << 32 | sum;
}
