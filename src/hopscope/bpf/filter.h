/* Which reports change nothing but counts: those the detector's fast path would take (`detect/flows`). */
#pragma once

#include "telemetry.h"

enum { KIND_EGRESS = 1, KIND_QUEUE = 2, KIND_BUFFER = 3 };
#define NO_PORT 0xffff
#define NO_ROW -1
/* Clang keeps this loop's variable as it is, where it would count hops down, which the verifier does not know. */
#define KNOWN(variable) asm volatile("" : "+r"(variable))

/* A pass over the hops of a report, in path order. */
struct pass {
	struct scratch *scratch;
	struct report *report;
	struct flow *flow; /* NULL: only queues, buffers and ports */
	__u64 latency; /* sum of the hops so far */
	enum count result;
};

/* An item of a hop, 0 if there is none: without branches, of which the verifier would follow all. */
inlined __u32 item(struct scratch *scratch, struct report *report, __u32 hop, int bit)
{
	__u32 have = -(report->present >> bit & 1);
	return read32(scratch, hop + report->at[bit]) & have;
}

/* Read the hop at `hop`; not 0 if one of its values is all ones, and so not there. */
inlined __u32 read_values(struct scratch *scratch, struct report *report, __u32 hop, struct values *values)
{
	__u32 ports = item(scratch, report, hop, 1);
	values->node = read32(scratch, hop);
	values->port = (ports | ((report->present >> 1 & 1) - 1)) & 0xffff; /* NO_PORT if there is none */
	values->latency = item(scratch, report, hop, 2);
	values->queue = item(scratch, report, hop, 3);
	values->utilization = item(scratch, report, hop, 7);
	values->buffer = item(scratch, report, hop, 8);
	__u64 full = ((__u64)values->node + 1) | ((__u64)ports + 1) | ((__u64)values->latency + 1) |
		     ((__u64)values->queue + 1) | ((__u64)values->utilization + 1) | ((__u64)values->buffer + 1);
	return full >> 32;
}

/* The same of hop `index` of the path. */
inlined __u32 read_hop(struct pass *pass, __u32 index, struct values *values)
{
	struct report *report = pass->report;
	return read_values(pass->scratch, report, report->stack + (report->hops - 1 - index) * report->hop_bytes, values);
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

/* What the values of a report differ in from those kept, in bits: without branches, of which the verifier would follow
 * all. */
struct verdicts {
	__u64 unknown; /* 0: all rows are compared */
	__u64 changed; /* the highest bit: a value is beyond its limits */
};

inlined void compare(struct verdicts *found, __u64 value, __u64 stored, __u64 change, __u64 above)
{
	__s64 gap = value - stored, sign = gap >> 63;
	found->changed |= (change - ((gap ^ sign) - sign)) | (above - value);
}

/* Compare a value with its row; 0 if there is none. */
inlined int check_row(struct verdicts *found, __u32 slot, __u64 key, __u32 value)
{
	struct port *row = port_at(slot);
	if (!row)
		return 0;
	found->unknown |= (row->key ^ key) | (row->state ^ ACTIVE) | row->spoiled | (~row->has & 1);
	compare(found, value, row->stored[0], row->change[0], row->above[0]);
	return 1;
}

/* Whether a hop has all of its values, of a report that goes up whatever they are. */
static long check_hop(__u32 index, struct pass *pass)
{
	struct values values;
	if (!read_hop(pass, index, &values))
		return 0;
	pass->result = COUNT_UNUSUAL;
	return 1;
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

inlined void commit_hop(__u32 present, struct hop *hop, struct values *values, __u64 now_ns)
{
	hop->egress_port = values->port;
	if (present & HAVE_LATENCY) {
		hop->latency_latest = values->latency;
		hop->latency_sum += values->latency;
		hop->samples++;
	}
	if (present & HAVE_QUEUE) {
		hop->queue_latest = values->queue & 0xffffff;
		commit_row(hop->queue_slot, hop->queue_latest, now_ns);
	}
	if (present & HAVE_UTILIZATION) {
		hop->utilization_latest = values->utilization;
		commit_row(hop->port_slot, values->utilization, now_ns);
	}
	if (present & HAVE_BUFFER)
		commit_row(hop->buffer_slot, values->buffer & 0xffffff, now_ns);
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
	if (read_hop(pass, index, &values))
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

/* Compare the hops of a report with those of its flow, and keep their values and their latency. Loops over hops are
 * bounded, and no callbacks, whose returns are dear. An enum count, or NO_ROW: of a queue, buffer or port. */
inlined int check_hops(struct scratch *scratch, struct report *report, struct flow *flow)
{
	__u32 hops = report->hops, present = report->present, absent = 0;
	__u32 at = report->stack + (hops - 1) * report->hop_bytes;
	__u64 latency = 0;
	struct verdicts found = {};
	for (__u32 i = 0; i < INLINE_HOPS; i++) {
		KNOWN(i);
		if (i >= hops)
			break;
		struct values *values = &report->values[i];
		struct hop *hop = &flow->hops[i];
		absent |= read_values(scratch, report, at, values);
		at -= report->hop_bytes;
		latency += values->latency;
		found.unknown |= hop->node ^ values->node;
		if (present & HAVE_LATENCY) {
			found.unknown |= hop->has_latency ^ 1;
			compare(&found, values->latency, hop->latency_stored, hop->latency_change, hop->latency_above);
		}
		if (present & HAVE_QUEUE &&
		    !check_row(&found, hop->queue_slot, queue_key(values), values->queue & 0xffffff))
			return NO_ROW;
		if (present & HAVE_UTILIZATION &&
		    !check_row(&found, hop->port_slot, key_of(KIND_EGRESS, values->port, values->node),
			       values->utilization))
			return NO_ROW;
		if (present & HAVE_BUFFER &&
		    !check_row(&found, hop->buffer_slot, key_of(KIND_BUFFER, values->buffer >> 24, values->node),
			       values->buffer & 0xffffff))
			return NO_ROW;
	}
	report->latency = latency;
	if (absent)
		return COUNT_UNUSUAL;
	if (found.unknown)
		return COUNT_UNKNOWN;
	if (found.changed >> 63)
		return COUNT_CHANGED;
	if (!(present & HAVE_LATENCY))
		return COUNT_FILTERED;
	if (!flow->has_latency)
		return COUNT_UNKNOWN;
	return gap_of(latency, flow->latency_stored) > flow->latency_change || latency > flow->latency_above ? COUNT_CHANGED
													     : COUNT_FILTERED;
}

/* COUNT_FILTERED if report `index` causes no event. Not static, as `find_port`. */
__noinline int check_report(struct scratch *scratch, __u32 index)
{
	if (!scratch)
		return COUNT_UNUSUAL;
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	report->flow = find_flow(&report->key);
	struct flow *flow = flow_at(report->flow);
	if (flow && flow->state == ACTIVE && !flow->spoiled && flow->hop_count == report->hops) {
		int result = check_hops(scratch, report, flow);
		if (result != NO_ROW)
			return result;
	}
	struct pass pass = {.scratch = scratch, .report = report, .result = COUNT_UNKNOWN};
	bpf_loop(report->hops, check_hop, &pass, 0);
	return pass.result;
}

/* The same of all reports of a datagram, up to the first that causes one. */
inlined enum count check_reports(struct scratch *scratch)
{
	for (__u32 i = 0; i < MAX_REPORTS; i++) {
		KNOWN(i);
		if (i >= scratch->count)
			break;
		enum count result = check_report(scratch, i);
		if (result)
			return result;
	}
	return COUNT_FILTERED;
}

/* Count report `index`, which causes no event. Not static, as `find_port`. */
__noinline int commit_report(struct scratch *scratch, __u32 index, __u64 now_ns)
{
	if (!scratch)
		return 1;
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(report->flow);
	struct counters *counters = own_counters();
	if (!flow)
		return 1;
	__u32 hops = report->hops, present = report->present;
	for (__u32 i = 0; i < INLINE_HOPS; i++) {
		KNOWN(i);
		if (i >= hops)
			break;
		commit_hop(present, &flow->hops[i], &report->values[i], now_ns);
	}
	flow->packets++;
	flow->touched = 1;
	flow->last_ns = now_ns;
	__u32 latencies = present >> 2 & 1;
	if (latencies) {
		flow->latency_latest = report->latency;
		flow->latency_sum += report->latency;
		flow->latency_samples++;
	}
	counters->reports++;
	counters->hops += hops;
	counters->values += 1 + latencies + hops * (latencies + (present >> 3 & 1) + (present >> 7 & 1) + (present >> 8 & 1));
	return 0;
}

inlined void commit_reports(struct scratch *scratch, __u64 now_ns)
{
	for (__u32 i = 0; i < MAX_REPORTS; i++) {
		KNOWN(i);
		if (i >= scratch->count)
			break;
		commit_report(scratch, i, now_ns);
	}
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
