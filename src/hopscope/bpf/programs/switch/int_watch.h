// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The watch list: which packets get INT, and how. */
#pragma once

#include <bpf/bpf_endian.h>

#include "switch.h"

TABLE(watches, 1, struct switch_watches);

inlined int within(const __u32 *address, const __u32 *prefix, const __u32 *mask)
{
	return !(((address[0] & mask[0]) ^ prefix[0]) | ((address[1] & mask[1]) ^ prefix[1]) |
		 ((address[2] & mask[2]) ^ prefix[2]) | ((address[3] & mask[3]) ^ prefix[3]));
}

/* The first entry that a packet matches, or NULL. */
inlined const struct switch_watch *watch_of(const struct switch_flow *flow)
{
	__u32 zero = 0;
	const struct switch_watches *all = bpf_map_lookup_elem(&watches, &zero);
	if (!all)
		return 0;
	const struct switch_watch_list *list = &all->lists[*(volatile __u32 *)&all->active & 1];
	for (__u32 i = 0; i < MAX_WATCHES && i < list->count; i++) {
		const struct switch_watch *watch = &list->watch[i];
		if (flow->destination_port >= watch->first_port && flow->destination_port <= watch->last_port &&
		    (!watch->protocol || watch->protocol == flow->protocol) &&
		    within(flow->source, watch->source, watch->source_mask) &&
		    within(flow->destination, watch->destination, watch->destination_mask))
			return watch;
	}
	return 0;
}

/* Steps of MurmurHash3: the same packet has the same value at every switch. */
inlined __u32 mixed(__u32 hash, __u32 word)
{
	word *= 0xcc9e2d51;
	hash ^= (word << 15 | word >> 17) * 0x1b873593;
	return (hash << 13 | hash >> 19) * 5 + 0xe6546b64;
}

inlined __u32 finished(__u32 hash)
{
	hash = (hash ^ hash >> 16) * 0x85ebca6b;
	hash = (hash ^ hash >> 13) * 0xc2b2ae35;
	return hash ^ hash >> 16;
}

inlined __u32 flow_hash(const struct switch_flow *flow)
{
	__u32 hash = flow->protocol;
	for (int i = 0; i < 4; i++)
		hash = mixed(mixed(hash, bpf_ntohl(flow->source[i])), bpf_ntohl(flow->destination[i]));
	return mixed(hash, flow->source_port << 16 | flow->destination_port);
}

