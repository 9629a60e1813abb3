// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The labelling rule of a port (labels/rule_kernel.py in integers), and tracked flows. */
#pragma once

#include "label_packet.h"

#define MAX_SHIFT 40
#define RANDOM_BITS 53

enum label_verdict {
	NO_LABEL,
	DUE_LABEL,    /* the interval has passed */
	CHANCE_LABEL, /* by chance, or because every packet gets a label */
};

/* Whether random / 2^53 < part / whole, exactly. */
inlined int is_below(__u64 random, __u64 part, __u64 whole)
{
	__u64 low = (random & 0xffffffff) * (whole & 0xffffffff);
	__u64 one = (random >> 32) * (whole & 0xffffffff) + (low >> 32);
	__u64 other = (random & 0xffffffff) * (whole >> 32) + (one & 0xffffffff);
	__u64 high = (random >> 32) * (whole >> 32) + (one >> 32) + (other >> 32);
	__u64 most = part >> (64 - RANDOM_BITS);
	low = other << 32 | (low & 0xffffffff);
	return high < most || (high == most && low < part << RANDOM_BITS);
}

/* Whether chance labels a packet with `count` labels, `elapsed` after the port's last one. */
inlined int has_chance(const struct label_control *control, __u64 count, __u64 elapsed, __u64 interval, __u64 random)
{
	__u64 function = control->function, columns = COLUMNS_OF(function), rows = ROWS_OF(function);
	if (FUNCTION_OF(function) == FUNCTION_F3)
		return count && is_below(random, count * elapsed, (control->max_hop - 1) * interval);
	if (FUNCTION_OF(function) != FUNCTION_TABLE || !columns || !rows)
		return 0;
	__u64 part = elapsed * columns / interval;
	if (part >= columns)
		part = columns - 1;
	if (count >= rows)
		count = rows - 1;
	__u32 at = HALF_OF(function) * MAX_CHANCES + count * columns + part;
	const __u64 *chance = bpf_map_lookup_elem(&label_chances, &at);
	return chance && random < *chance;
}

/* Whether a port labels a packet with `count` labels that leaves it at `now`. `random`, if given, has 53 bits. */
inlined enum label_verdict wants_label(const struct label_control *control, const struct label_port *port, __u64 count,
				       __u64 now, __u64 last, const struct label_inputs *given)
{
	__u32 shift = port->shift < MAX_SHIFT ? port->shift : MAX_SHIFT;
	__u64 interval = control->interval >> shift;
	if (port->every || count >= control->max_hop)
		return CHANCE_LABEL;
	__s64 elapsed = now - last;
	if (elapsed > (__s64)interval || !interval)
		return DUE_LABEL;
	if (FUNCTION_OF(control->function) == FUNCTION_NEVER || elapsed < (__s64)control->rest)
		return NO_LABEL;
	__u64 random = given ? given->random : (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	random >>= 64 - RANDOM_BITS;
	return has_chance(control, count, elapsed, interval, random) ? CHANCE_LABEL : NO_LABEL;
}

/* Whether all switches must label this packet (INT-label, 3.3); the first switch decides. */
inlined int is_tracked(const struct packet *packet)
{
	struct label_flow_key key;
	addresses_of(packet, key.source, key.destination);
	struct label_flow *flow = bpf_map_lookup_elem(&label_flows, &key);
	if (!flow || !flow->every)
		return 0;
	__u32 seen = __sync_fetch_and_add(&flow->seen, 1) + 1;
	if (seen < flow->every)
		return 0;
	flow->seen = 0;
	return 1;
}

/* Whether a packet without labels came from a host and belongs to a flow that all switches label. */
inlined int begins_tracked(struct __sk_buff *skb, const struct label_control *control, const struct packet *packet)
{
	if (!control->tracked)
		return 0;
	if (skb->ingress_ifindex) {
		const struct label_port *ingress = port_of(skb->ingress_ifindex);
		if (!ingress || ingress->role != ROLE_HOST)
			return 0;
	}
	return is_tracked(packet);
}
