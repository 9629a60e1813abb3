/* Which reports change nothing but counts: those the detector's fast path would take (`detect/flows`). */
#pragma once

#include "telemetry.h"

enum { KIND_EGRESS = 1, KIND_QUEUE = 2, KIND_BUFFER = 3 };
#define NO_PORT 0xffff

/* A pass over the hops of a report, in path order. */
struct pass {
	struct scratch *scratch;
	struct report *report;
	struct flow *flow; /* NULL: only queues, buffers and ports */
	__u64 now_ns;
	__u64 latency; /* sum of the hops so far */
	enum count result;
	__u32 values;
};

/* The values of a hop. */
struct values {
	__u32 node;
	__u32 port;
	__u32 latency;
	__u32 queue;
	__u32 utilization;
	__u32 buffer;
};

/* An item of a hop, 0 if there is none: without branches, of which the verifier would follow all. */
inlined __u32 item(struct pass *pass, __u32 hop, int bit)
{
	__u32 have = -(pass->report->present >> bit & 1);
	return read32(pass->scratch, hop + pass->report->at[bit]) & have;
}

/* Read hop `index` of the path; 0 if one of its values is all ones, and so not there. */
inlined int read_values(struct pass *pass, __u32 index, struct values *values)
{
	struct report *report = pass->report;
	__u32 hop = report->stack + (report->hops - 1 - index) * report->hop_bytes, ports = item(pass, hop, 1);
	values->node = read32(pass->scratch, hop);
	values->port = (ports | ((report->present >> 1 & 1) - 1)) & 0xffff; /* NO_PORT if there is none */
	values->latency = item(pass, hop, 2);
	values->queue = item(pass, hop, 3);
	values->utilization = item(pass, hop, 7);
	values->buffer = item(pass, hop, 8);
	__u64 full = ((__u64)values->node + 1) | ((__u64)ports + 1) | ((__u64)values->latency + 1) |
		     ((__u64)values->queue + 1) | ((__u64)values->utilization + 1) | ((__u64)values->buffer + 1);
	return !(full >> 32);
}

inlined __u64 key_of(int kind, __u32 place, __u32 node)
{
	return (__u64)kind << 56 | (__u64)(place & 0xffffff) << 32 | node;
}

inlined __u64 queue_key(struct values *values)
{
	__u32 place = values->queue >> 24;
	if (variables.control.queues_by_port)
		place |= values->port << 8;
	return key_of(KIND_QUEUE, place, values->node);
}

inlined __u64 gap_of(__u64 value, __u64 stored)
{
	return value > stored ? value - stored : stored - value;
}

/* COUNT_FILTERED if this value of a row causes no event. */
inlined enum count check_row(__u32 slot, __u64 key, __u32 value)
{
	struct port *row = port_at(slot);
	if (!row || row->key != key || row->state != ACTIVE || row->spoiled || !(row->has & 1))
		return COUNT_UNKNOWN;
	if (gap_of(value, row->stored[0]) > row->change[0] || value > row->above[0])
		return COUNT_CHANGED;
	return COUNT_FILTERED;
}

inlined enum count check_values(struct pass *pass, struct hop *hop, struct values *values)
{
	__u32 present = pass->report->present;
	enum count result = COUNT_FILTERED;
	if (hop->node != values->node)
		return COUNT_UNKNOWN;
	if (present & HAVE_LATENCY) {
		if (!hop->has_latency)
			return COUNT_UNKNOWN;
		if (gap_of(values->latency, hop->latency_stored) > hop->latency_change ||
		    values->latency > hop->latency_above)
			return COUNT_CHANGED;
	}
	if (present & HAVE_QUEUE &&
	    (result = check_row(hop->queue_slot, queue_key(values), values->queue & 0xffffff)))
		return result;
	if (present & HAVE_UTILIZATION &&
	    (result = check_row(hop->port_slot, key_of(KIND_EGRESS, values->port, values->node), values->utilization)))
		return result;
	if (present & HAVE_BUFFER)
		result = check_row(hop->buffer_slot, key_of(KIND_BUFFER, values->buffer >> 24, values->node),
				   values->buffer & 0xffffff);
	return result;
}

static long check_hop(__u32 index, struct pass *pass)
{
	struct values values;
	if (!read_values(pass, index, &values)) {
		pass->result = COUNT_UNUSUAL;
		return 1;
	}
	pass->latency += values.latency;
	if (pass->flow)
		pass->result = check_values(pass, &pass->flow->hops[index & (INLINE_HOPS - 1)], &values);
	return pass->result != COUNT_FILTERED;
}

inlined void commit_row(__u32 slot, __u32 value, __u64 now_ns)
{
	struct port *row = port_at(slot);
	if (!row)
		return;
	row->latest[0] = value;
	row->touched = 1;
	row->samples++;
	row->last_ns = now_ns;
	if (value > row->highest[0])
		row->highest[0] = value;
}

static long commit_hop(__u32 index, struct pass *pass)
{
	struct values values;
	__u32 present = pass->report->present;
	if (!pass->flow || !read_values(pass, index, &values))
		return 1;
	struct hop *hop = &pass->flow->hops[index & (INLINE_HOPS - 1)];
	hop->egress_port = values.port;
	if (present & HAVE_LATENCY) {
		hop->latency_latest = values.latency;
		hop->latency_sum += values.latency;
		hop->samples++;
		pass->values++;
	}
	if (present & HAVE_QUEUE) {
		hop->queue_latest = values.queue & 0xffffff;
		commit_row(hop->queue_slot, hop->queue_latest, pass->now_ns);
		pass->values++;
	}
	if (present & HAVE_UTILIZATION) {
		hop->utilization_latest = values.utilization;
		commit_row(hop->port_slot, values.utilization, pass->now_ns);
		pass->values++;
	}
	if (present & HAVE_BUFFER) {
		commit_row(hop->buffer_slot, values.buffer & 0xffffff, pass->now_ns);
		pass->values++;
	}
	return 0;
}

/* The detector will compare this value of a report that goes up: keep what it will keep. */
inlined void follow_row(__u64 key, __u32 value)
{
	struct port *row = port_at(find_port(key));
	if (!row)
		return;
	row->latest[0] = value;
	row->touched = 1;
	if (!(row->has & 1) || value > row->above[0])
		row->spoiled = 1;
	else if (gap_of(value, row->stored[0]) > row->change[0])
		row->stored[0] = value;
}

static long follow_hop(__u32 index, struct pass *pass)
{
	struct values values;
	__u32 present = pass->report->present;
	if (!read_values(pass, index, &values))
		return 1;
	if (pass->flow) {
		struct hop *hop = &pass->flow->hops[index & (INLINE_HOPS - 1)];
		if (hop->node != values.node || (present & HAVE_LATENCY && !hop->has_latency))
			pass->flow->spoiled = 1;
		hop->egress_port = values.port;
		if (present & HAVE_QUEUE)
			hop->queue_latest = values.queue & 0xffffff;
		if (present & HAVE_UTILIZATION)
			hop->utilization_latest = values.utilization;
		if (present & HAVE_LATENCY) {
			hop->latency_latest = values.latency;
			if (values.latency > hop->latency_above)
				pass->flow->spoiled = 1;
			else if (gap_of(values.latency, hop->latency_stored) > hop->latency_change)
				hop->latency_stored = values.latency;
		}
	}
	pass->latency += values.latency;
	if (present & HAVE_QUEUE)
		follow_row(queue_key(&values), values.queue & 0xffffff);
	if (present & HAVE_UTILIZATION)
		follow_row(key_of(KIND_EGRESS, values.port, values.node), values.utilization);
	if (present & HAVE_BUFFER)
		follow_row(key_of(KIND_BUFFER, values.buffer >> 24, values.node), values.buffer & 0xffffff);
	return 0;
}

/* COUNT_FILTERED if a report causes no event. */
static long check_report(__u32 index, struct pass *pass)
{
	struct report *report = &pass->scratch->reports[index & (MAX_REPORTS - 1)];
	report->flow = find_flow(&report->key);
	struct flow *flow = flow_at(report->flow);
	if (flow && (flow->state != ACTIVE || flow->spoiled || flow->hop_count != report->hops))
		flow = NULL;
	enum count result = flow ? COUNT_FILTERED : COUNT_UNKNOWN;
	pass->report = report;
	pass->flow = flow;
	pass->latency = 0;
	pass->result = COUNT_FILTERED;
	bpf_loop(report->hops, check_hop, pass, 0);
	if (pass->result == COUNT_FILTERED)
		pass->result = result;
	if (pass->result == COUNT_FILTERED && flow && report->present & HAVE_LATENCY) {
		if (!flow->has_latency)
			pass->result = COUNT_UNKNOWN;
		else if (gap_of(pass->latency, flow->latency_stored) > flow->latency_change ||
			 pass->latency > flow->latency_above)
			pass->result = COUNT_CHANGED;
	}
	return pass->result != COUNT_FILTERED;
}

static long commit_report(__u32 index, struct pass *pass)
{
	struct report *report = &pass->scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(report->flow);
	struct counters *counters = own_counters();
	if (!flow)
		return 1;
	pass->report = report;
	pass->flow = flow;
	pass->values = 1; /* the path */
	bpf_loop(report->hops, commit_hop, pass, 0);
	flow->packets++;
	flow->touched = 1;
	flow->last_ns = pass->now_ns;
	if (report->present & HAVE_LATENCY) {
		__u64 sum = 0;
		for (int i = 0; i < INLINE_HOPS; i++)
			if (i < report->hops)
				sum += flow->hops[i].latency_latest;
		flow->latency_latest = sum;
		flow->latency_sum += sum;
		flow->latency_samples++;
		pass->values++;
	}
	counters->reports++;
	counters->hops += report->hops;
	counters->values += pass->values;
	return 0;
}

/* A report goes up: keep what the detector will keep of it. */
static long follow_report(__u32 index, struct pass *pass)
{
	struct report *report = &pass->scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(find_flow(&report->key)); /* those after the one that went up were not looked for */
	if (flow && (flow->state == ABSENT || flow->spoiled))
		flow = NULL;
	if (flow && flow->hop_count != report->hops) {
		flow->spoiled = 1;
		flow = NULL;
	}
	pass->report = report;
	pass->flow = flow;
	pass->latency = 0;
	bpf_loop(report->hops, follow_hop, pass, 0);
	if (flow)
		flow->touched = 1;
	if (flow && report->present & HAVE_LATENCY) {
		flow->latency_latest = pass->latency;
		if (!flow->has_latency || pass->latency > flow->latency_above)
			flow->spoiled = 1;
		else if (gap_of(pass->latency, flow->latency_stored) > flow->latency_change)
			flow->latency_stored = pass->latency;
	}
	return 0;
}

/* How a sequence number follows those before it (`detect/flows/source_table_kernel`). */
enum order {
	ORDER_NEXT,
	ORDER_FIRST,  /* the first after its source was seen by the user's side */
	ORDER_AHEAD,
	ORDER_BEHIND,
	ORDER_FAR,
};

inlined enum order order_of(struct source *source, struct numbering *number)
{
	__u32 mask = number->bits == 22 ? 0x3fffff : 0xffffffff;
	__u32 ahead = (number->sequence - source->highest) & mask, behind = (source->highest - number->sequence) & mask;
	if (source->state == WATCHED)
		return ORDER_FIRST;
	if (ahead == 1)
		return ORDER_NEXT;
	if (behind < 64)
		return ORDER_BEHIND;
	return ahead <= (number->bits == 22 ? 1 << 20 : 1 << 24) ? ORDER_AHEAD : ORDER_FAR;
}

inlined void keep_number(struct source *source, struct numbering *number, enum order order, __u64 now_ns)
{
	if (order == ORDER_FAR)
		source->state = ABSENT;
	else if (order != ORDER_BEHIND)
		source->highest = number->sequence;
	if (order == ORDER_FIRST)
		source->state = ACTIVE;
	if (order == ORDER_NEXT) {
		source->received++;
		source->last_ns = now_ns;
	}
}
