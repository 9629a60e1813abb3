/* The tables that both sides share, and how their rows are found: as in the detector (`detect/flows`). */
#pragma once

#include "shared.h"

#define TABLE(name, entries, row)                                                                                      \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, entries);                                                                          \
		__uint(map_flags, BPF_F_MMAPABLE);                                                                     \
		__type(key, __u32);                                                                                    \
		__type(value, row);                                                                                    \
	} name SEC(".maps")

/* Tags of a row of flows, 0: not here. */
struct tags {
	__u32 ways[16];
};

TABLE(tags, 1, struct tags);
TABLE(flows, WAYS, struct flow);
TABLE(ports, 1, struct port);
TABLE(sources, 1, struct source);
/* Roles of UDP ports (`rules.UDP_ROLE`). */
struct roles {
	__u8 of[65536];
};

TABLE(roles, 1, struct roles);

struct variables {
	struct control control;
	struct counters counters[MAX_PROCESSORS];
} variables;

inlined struct counters *own_counters(void)
{
	return &variables.counters[bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1)];
}

/* Multilinear hashing, as `base/keyed_kernel`. */
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

/* Row of a flow, or NOWHERE. Not static, as below. */
__noinline __u32 find_flow(const struct flow_key *key)
{
	if (!key)
		return NOWHERE;
	__u64 hash = spread(weigh(0, key->addresses[1]) + weigh(2, key->addresses[0]) + weigh(4, key->addresses[3]) +
			    weigh(6, key->addresses[2]) + weigh(8, key->transport));
	__u32 row = hash & variables.control.flow_mask, tag = hash >> 32;
	struct tags *found = bpf_map_lookup_elem(&tags, &row);
	if (!found)
		return NOWHERE;
	if (!tag)
		tag = 1;
	for (int way = 0; way < WAYS; way++) {
		if (found->ways[way] != tag)
			continue;
		struct flow *flow = flow_at(row * WAYS + way);
		if (flow && !((flow->addresses[0] ^ key->addresses[0]) | (flow->addresses[1] ^ key->addresses[1]) |
			      (flow->addresses[2] ^ key->addresses[2]) | (flow->addresses[3] ^ key->addresses[3]) |
			      (flow->transport ^ key->transport)))
			return row * WAYS + way;
	}
	return NOWHERE;
}

inlined struct port *port_at(__u32 slot)
{
	return bpf_map_lookup_elem(&ports, &slot);
}

/* Row of a followed queue, buffer or egress port, or NOWHERE. Not static: the verifier checks it once, and not for each
 * call. */
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

inlined struct source *find_source(__u64 high, __u64 low, __u32 node, __u32 hardware, __u32 bits, __u32 *at)
{
	__u32 home = spread(weigh(0, low) + weigh(2, high) + weigh(4, (__u64)node << 32 | hardware));
	for (int i = 0; i < PROBES; i++) {
		*at = (home + i) & variables.control.source_mask;
		struct source *source = bpf_map_lookup_elem(&sources, at);
		if (source && source->low == low && source->high == high && source->node == node &&
		    source->hardware == hardware && source->bits == bits)
			return source->state ? source : NULL;
	}
	return NULL;
}

/* Wait until no other processor is in the tables, for a bounded time; whether that was so. */
inlined int enter(void)
{
	for (int i = 0; i < 1000; i++) {
		__u64 now = *(volatile __u64 *)&variables.control.lock;
		if (!(now & 1) && __sync_val_compare_and_swap(&variables.control.lock, now, now + 1) == now)
			return 1;
	}
	return 0;
}

inlined void leave(void)
{
	__u64 now = *(volatile __u64 *)&variables.control.lock;
	__sync_val_compare_and_swap(&variables.control.lock, now, now + 1); /* an addition alone orders nothing on ARM */
}
