// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Passes labels to the process that sends them to the collector. */
#pragma once

#include "label_edit.h"

/* Ports of the packet, as a last hop reports them; 0 for packets without ports, and for fragments. */
inlined __u32 ports_of(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 ports, at = packet->payload + (packet->labelled ? OPTION_BYTES + packet->items * ITEM_BYTES : 0);
	if ((packet->next != IPPROTO_TCP && packet->next != IPPROTO_UDP) || at + sizeof(ports) > packet->limit ||
	    (packet->version == 4 && packet->v4.frag_off & bpf_htons(0x3fff)) || load(skb, at, &ports, sizeof(ports)))
		return 0;
	return ports;
}

/* Pass a packet's labels to the sending process, as a block of a datagram: its flow if it is tracked, then this port's
 * own label if it `wants` one, then the other labels. */
inlined void report(struct __sk_buff *skb, const struct label_control *control, struct label_scratch *scratch,
		    const struct packet *packet, int wants, __u64 now, __u64 noted)
{
	__u32 start = BEFORE_ITEMS, labels = packet->items + wants, size = packet->items * ITEM_BYTES;
	if (packet->labelled && load(skb, packet->payload, scratch->block + BEFORE_ITEMS - OPTION_BYTES, OPTION_BYTES + size))
		return;
	if (wants) {
		start -= ITEM_BYTES;
		put_item(skb, control, now, noted, (void *)scratch->block + start);
	}
	start -= OPTION_BYTES;
	struct label_option *option = (void *)scratch->block + start;
	option->next_header = packet->next;
	option->count = packet->number + wants;
	if (packet->tracked) {
		start -= FLOW_BYTES;
		struct label_flow_head *flow = (void *)scratch->block + start;
		__u32 source[4], destination[4];
		addresses_of(packet, source, destination);
		flow->version = 1;
		flow->no_items = 0;
		__builtin_memcpy(flow->source, source, sizeof(source));
		__builtin_memcpy(flow->destination, destination, sizeof(destination));
		flow->ports = ports_of(skb, packet);
	}
	start -= HEAD_BYTES;
	struct report_head head = {
		.time_ns = now, .length = BEFORE_ITEMS - HEAD_BYTES - start + size, .source = NOWHERE,
	};
	__builtin_memcpy(scratch->block + start, &head, sizeof(head));
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	struct label_counters *mine = bpf_map_lookup_elem(&label_counters, &processor);
	long lost = bpf_ringbuf_output(&label_ring, scratch->block + start, BEFORE_ITEMS - start + size, 0);
	if (mine)
		mine->packets[lost ? LABEL_UNREPORTED : LABEL_REPORTED] += labels;
}
