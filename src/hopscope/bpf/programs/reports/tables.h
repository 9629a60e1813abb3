// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The tables that both sides share. Their rows are found as in the detector (`detect/flows`). */
#pragma once

#include "shared.h"

/* Tags of a row of flows; 0: the flow is not in this table. */
struct tags {
	__u32 ways[16];
};

TABLE(tags, 1, struct tags);
TABLE(flows, WAYS, struct flow);
TABLE(near_flows, 1, __u32); /* rows where flows were found last */
TABLE(more_hops, POOL_HOPS, struct hop);
TABLE(ports, 1, struct port);
TABLE(sources, 1, struct source);
/* Roles of UDP ports (`rules.UDP_ROLE`). */
struct roles {
	__u8 of[65536];
};

TABLE(roles, 1, struct roles);

/* Set before loading. */
const volatile struct constants constants;

struct variables {
	struct control control;
	struct counters counters[MAX_PROCESSORS];
} variables;

inlined struct counters *own_counters(void)
{
	return &variables.counters[bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1)];
}

/* Multilinear hashing, as in `base/keyed_kernel`. */
inlined __u64 weigh(int first, __u64 word)
{
	return (word & 0xffffffff) * variables.control.keys[first] + (word >> 32) * variables.control.keys[first + 1];
}

inlined __u64 spread(__u64 total)
{
	total ^= total >> 32;
	total *= 0xff51afd7ed558ccd;
	return total ^ total >> 29;
}

struct flow_key {
	__u64 addresses[4];
	__u64 transport;
};

inlined struct flow *flow_at(__u32 row)
{
	return bpf_map_lookup_elem(&flows, &row);
}

inlined int is_flow(const struct flow *flow, const struct flow_key *key)
{
	return !((flow->addresses[0] ^ key->addresses[0]) | (flow->addresses[1] ^ key->addresses[1]) |
		 (flow->addresses[2] ^ key->addresses[2]) | (flow->addresses[3] ^ key->addresses[3]) |
		 (flow->transport ^ key->transport));
}

/* Row of a flow by its tag, or NOWHERE; the row is remembered in `near`. Not static: the verifier then checks it only
 * once, not for each call. */
__noinline __u32 search_flow(const struct flow_key *key, __u32 near)
{
	if (!key)
		return NOWHERE;
	__u64 hash = spread(weigh(0, key->addresses[1]) + weigh(2, key->addresses[0]) + weigh(4, key->addresses[3]) +
			    weigh(6, key->addresses[2]) + weigh(8, key->transport));
	__u32 row = hash & variables.control.flow_mask, tag = hash >> 32;
	struct tags *found = bpf_map_lookup_elem(&tags, &row);
	__u32 *noted = bpf_map_lookup_elem(&near_flows, &near);
	if (!found || !noted)
		return NOWHERE;
	if (!tag)
		tag = 1;
	for (int way = 0; way < WAYS; way++) {
		if (found->ways[way] != tag)
			continue;
		struct flow *flow = flow_at(row * WAYS + way);
		if (flow && is_flow(flow, key))
			return *noted = row * WAYS + way;
	}
	return NOWHERE;
}

/* search_flow() with a shortcut: most flows are where they were last found, which takes no keyed hash, no tags and no
 * call. A sender that makes flows share a place in `near` only makes them slower. */
inlined __u32 find_flow(const struct flow_key *key)
{
	__u64 mixed = (key->addresses[1] ^ key->addresses[0]) * 0x9e3779b97f4a7c15 +
		      (key->addresses[3] ^ key->addresses[2]) * 0xc2b2ae3d27d4eb4f + key->transport * 0xff51afd7ed558ccd;
	__u32 near = mixed >> 36 & variables.control.near_mask, at;
	__u32 *noted = bpf_map_lookup_elem(&near_flows, &near);
	if (!noted)
		return NOWHERE;
	at = *noted;
	struct flow *flow = flow_at(at);
	return flow && flow->state && is_flow(flow, key) ? at : search_flow(key, near);
}

inlined struct port *port_at(__u32 slot)
{
	return bpf_map_lookup_elem(&ports, &slot);
}

/* Row of a followed queue, buffer or egress port, or NOWHERE. Not static: the verifier then checks it only once, not
 * for each call. */
__noinline __u32 find_port(__u64 key)
{
	__u32 home = spread(weigh(0, key));
	for (int i = 0; i < PROBES; i++) {
		__u32 at = (home + i) & variables.control.port_mask;
		struct port *port = port_at(at);
		if (port && port->key == key)
			return port->state && !port->spoiled ? at : NOWHERE;
	}
	return NOWHERE;
}

inlined int is_source(const struct source *source, __u64 high, __u64 low, __u32 node, __u32 hardware, __u32 bits)
{
	return !((source->low ^ low) | (source->high ^ high) | (source->node ^ node) | (source->hardware ^ hardware) |
		 (source->bits ^ bits));
}

/* A followed source and its row; `near`: the row where it was last found. */
inlined struct source *find_source(__u64 high, __u64 low, __u32 node, __u32 hardware, __u32 bits, __u32 *near, __u32 *at)
{
	*at = *near;
	struct source *source = bpf_map_lookup_elem(&sources, at);
	if (source && source->state && is_source(source, high, low, node, hardware, bits))
		return source;
	__u32 home = spread(weigh(0, low) + weigh(2, high) + weigh(4, (__u64)node << 32 | hardware));
	for (int i = 0; i < PROBES; i++) {
		*at = (home + i) & variables.control.source_mask;
		source = bpf_map_lookup_elem(&sources, at);
		if (source && is_source(source, high, low, node, hardware, bits)) {
			*near = *at;
			return source->state ? source : NULL;
		}
	}
	return NULL;
}

/* The coarse clock, which advances once a tick, and is therefore read once a tick. */
inlined __u64 coarse_ns(void)
{
	__u64 jiffies = bpf_jiffies64();
	if (variables.control.jiffies != jiffies) {
		variables.control.now_ns = bpf_ktime_get_coarse_ns();
		variables.control.jiffies = jiffies;
	}
	return variables.control.now_ns;
}

inlined int try_to_enter(void)
{
	__u64 now = *(volatile __u64 *)&variables.control.lock;
	return !(now & 1) && __sync_val_compare_and_swap(&variables.control.lock, now, now + 1) == now;
}

/* Wait for a bounded time until no other CPU uses the tables; returns whether this succeeded. */
__noinline int wait_to_enter(void)
{
	for (int i = 0; i < 1000; i++)
		if (try_to_enter())
			return 1;
	return 0;
}

inlined int enter(void)
{
	return try_to_enter() || wait_to_enter();
}

inlined void leave(void)
{
	__u64 now = *(volatile __u64 *)&variables.control.lock;
	if (constants.stores_in_order)
		*(volatile __u64 *)&variables.control.lock = now + 1;
	else
		__sync_val_compare_and_swap(&variables.control.lock, now, now + 1); /* an addition alone orders nothing on ARM */
}
