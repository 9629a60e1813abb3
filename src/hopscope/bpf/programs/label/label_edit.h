// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Writes and removes labels. Room is made after the IP header by moving the headers before it: the bytes after it stay
 * where they are in the buffer, so that a checksum that is left to the network card is still found. A sum of the whole
 * packet that a card has computed (CHECKSUM_COMPLETE) is adapted with each change. */
#pragma once

#include "label_packet.h"
#include "queue.h"

#define MAX_IP_OPTIONS 40
#define NO_PORT 0xffff
#define MAX_REMOVED 4080 /* bpf_skb_adjust_room() removes less than 4096 bytes at a time */

/* Bytes in the queue of the interface; 0 without a queue.  Not inlined, like `length_of`. */
__attribute__((noinline)) __u32 queued_at(struct __sk_buff *skb, __u32 processors)
{
	__u64 found = queued(skb, processors, 1);
	return found == NO_QUEUE ? 0 : found;
}

inlined void put_item(struct __sk_buff *skb, const struct label_control *control, __u64 now, __u64 noted,
		      struct label_item *item)
{
	__u32 in = skb->ingress_ifindex, out = skb->ifindex;
	__u64 time = is_test ? now : bpf_ktime_get_tai_ns() + control->epoch_ns;
	__u64 waited = noted && noted < now ? now - noted : 0;
	__u32 waits = queued_at(skb, control->processors);
	if (is_test && given())
		waits = given()->queued;
	item->node_id = bpf_htonl(control->node_id);
	item->ingress_port = bpf_htons(in && in < NO_PORT ? in : NO_PORT);
	item->egress_port = bpf_htons(out < NO_PORT ? out : NO_PORT);
	item->time_ns = bpf_cpu_to_be64(time);
	item->latency_ns = bpf_htonl(waited < 0xffffffff ? waited : 0xffffffff);
	item->occupancy = bpf_htonl(waits);
	item->reserved = 0;
}

/* Change the IP header's length and protocol. IPv4's checksum is updated by the difference (RFC 1624), so that a wrong
 * checksum stays wrong. */
inlined int amend(struct __sk_buff *skb, struct packet *packet, __s32 grown, __u8 protocol)
{
	if (packet->version == 6) {
		packet->v6.payload_len = bpf_htons(bpf_ntohs(packet->v6.payload_len) + grown);
		packet->v6.nexthdr = protocol;
		return bpf_skb_store_bytes(skb, ETH_HLEN, &packet->v6, 8, BPF_F_RECOMPUTE_CSUM);
	}
	__u32 before = bpf_ntohs(packet->v4.tot_len), after = before + grown;
	__u32 sum = bpf_ntohs(packet->v4.check) + before + packet->v4.protocol + 2 * ONES_16 - after - protocol;
	packet->v4.tot_len = bpf_htons(after);
	packet->v4.protocol = protocol;
	packet->v4.check = bpf_htons(sum % ONES_16);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &packet->v4, 12, BPF_F_RECOMPUTE_CSUM);
}

/* Write this port's label into a packet that has room for it. */
inlined enum label_count write_label(struct __sk_buff *skb, const struct label_control *control,
				     struct label_scratch *scratch, struct packet *packet, __u64 now, __u64 noted)
{
	__u32 options = packet->options & 63, base = packet->payload - options;
	__u32 grown = ITEM_BYTES + (packet->labelled ? 0 : OPTION_BYTES);
	struct label_option *option = (void *)scratch->made + options;
	/* the kernel moves headers in contiguous memory, and does not check that they are contiguous */
	if (bpf_skb_pull_data(skb, packet->payload))
		return PASS_REFUSED;
	if (options > MAX_IP_OPTIONS || (options && load(skb, base, scratch->made, options)))
		return PASS_REFUSED;
	option->next_header = packet->next;
	option->count = packet->number + 1;
	put_item(skb, control, now, noted, (void *)(option + 1));
	if (bpf_skb_adjust_room(skb, grown, BPF_ADJ_ROOM_NET, 0))
		return PASS_REFUSED;
	if (bpf_skb_store_bytes(skb, base, scratch->made, options + OPTION_BYTES + ITEM_BYTES, BPF_F_RECOMPUTE_CSUM) ||
	    amend(skb, packet, grown, control->protocol))
		return LABEL_FAILED;
	return LABEL_WRITTEN;
}

/* Remove all labels. */
inlined enum label_count restore(struct __sk_buff *skb, struct label_scratch *scratch, struct packet *packet)
{
	__u32 options = packet->options & 63, base = packet->payload - options;
	__u32 removed = OPTION_BYTES + packet->items * ITEM_BYTES;
	__u32 first = removed > MAX_REMOVED ? MAX_REMOVED : removed;
	if (options > MAX_IP_OPTIONS || (options && load(skb, base, scratch->made, options)))
		return PASS_REFUSED;
	if (bpf_skb_adjust_room(skb, -(__s32)first, BPF_ADJ_ROOM_NET, 0))
		return PASS_REFUSED;
	if (removed > first && bpf_skb_adjust_room(skb, -(__s32)(removed - first), BPF_ADJ_ROOM_NET, 0))
		return LABEL_FAILED;
	if ((options && bpf_skb_store_bytes(skb, base, scratch->made, options, BPF_F_RECOMPUTE_CSUM)) ||
	    amend(skb, packet, -(__s32)removed, packet->next))
		return LABEL_FAILED;
	return LABEL_RESTORED;
}
