// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Finds the reports that change only counts: those that cause no event (`detect/flows`). */
#pragma once

#include "telemetry.h"

enum { KIND_EGRESS = 1, KIND_QUEUE = 2, KIND_BUFFER = 3 };
enum { KEY_KIND = 62, KEY_PLACE = (1 << 30) - 1 };  /* of a port's key, as in `detect/records` */
#define NO_PORT 0xffff
/* Whether a report's hops have an item. The field is read again each time: if the verifier knew its value, it would
 * follow each combination of items separately. */
#define HAS(report, bit) (*(const volatile __u32 *)&(report)->present & (bit))
#define HOPS(report) (*(const volatile __u32 *)&(report)->hops)

/* A pass over the hops of a report that is passed up, in path order. */
struct pass {
	struct scratch *scratch;
	struct report *report;
	struct flow *flow; /* NULL: only queues, buffers and ports */
	__u64 latency; /* sum of the hops so far */
};

inlined __u32 item_at(const __u8 *hop, __u32 at)
{
	return bpf_ntohl(*(const __u32 *)(hop + (at & PLACE_IN_HOP)));
}

/* Read the hop at `at`. Returns nonzero if one of its values is all ones, which means that it is missing. */
inlined __u32 read_values(struct scratch *scratch, const struct report *report, __u32 at, struct values *values)
{
	const __u8 *hop = scratch->payload + (at & PLACE);
	__u32 word = item_at(hop, 0);
	__u64 full = (__u64)word + 1;
	values->node = word;
	values->port = NO_PORT;
	values->latency = 0; /* latencies are summed */
	if (HAS(report, HAVE_PORTS)) {
		word = item_at(hop, report->at[1]);
		values->port = word & 0xffff;
		full |= (__u64)word + 1;
	}
	if (HAS(report, HAVE_LATENCY)) {
		values->latency = word = item_at(hop, report->at[2]);
		full |= (__u64)word + 1;
	}
	if (HAS(report, HAVE_QUEUE)) {
		values->queue = word = item_at(hop, report->at[3]);
		full |= (__u64)word + 1;
	}
	if (HAS(report, HAVE_CONGESTION)) {
		values->congestion = word = item_at(hop, report->at[6]);
		full |= (__u64)word + 1;
	}
	if (HAS(report, HAVE_UTILIZATION)) {
		values->utilization = word = item_at(hop, report->at[7]);
		full |= (__u64)word + 1;
	}
	if (HAS(report, HAVE_BUFFER)) {
		values->buffer = word = item_at(hop, report->at[8]);
		full |= (__u64)word + 1;
	}
	return full >> 32;
}

/* read_values() for hop `index` of the path. */
inlined __u32 read_hop(struct pass *pass, __u32 index, struct values *values)
{
	struct report *report = pass->report;
	return read_values(pass->scratch, report, report->stack + (report->hops - 1 - index) * report->hop_bytes, values);
}

inlined struct hop *hop_of(struct flow *flow, __u32 index)
{
	if (index < INLINE_HOPS)
		return &flow->hops[index];
	__u32 at = flow->block * POOL_HOPS + index - INLINE_HOPS;
	return bpf_map_lookup_elem(&more_hops, &at);
}

inlined __u64 key_of(int kind, __u32 place, __u32 node)
{
	return (__u64)kind << KEY_KIND | (__u64)(place & KEY_PLACE) << 32 | node;
}

inlined __u64 queue_key(__u32 word, __u32 port, __u32 node)
{
	return key_of(KIND_QUEUE, word >> 24 | (constants.queues_by_port ? port << 8 : 0), node);
}

inlined __u64 gap_of(__u64 value, __u64 stored)
{
	return value > stored ? value - stored : stored - value;
}

/* The bounds of values that cause no event, once a row is compared; `full`: the value that means "missing". */
inlined __u64 low_of(__u64 stored, __u64 change)
{
	return stored > change ? stored - change : 0;
}

inlined __u64 high_of(__u64 stored, __u64 change, __u64 above, __u64 full)
{
	__u64 high = stored + change < above ? stored + change : above;
	return high < full ? high : full - 1;
}

inlined void set_bounds(const struct port *row, struct metric *metric)
{
	metric->low = low_of(metric->stored, metric->change);
	metric->high = high_of(metric->stored, metric->change, metric->above,
			       row->key >> KEY_KIND == KIND_EGRESS ? 0xffffffff : 0xffffff);
}

inlined void set_hop_bounds(struct hop *hop)
{
	hop->low = low_of(hop->latency_stored, hop->latency_change);
	hop->high = high_of(hop->latency_stored, hop->latency_change, hop->latency_above, 0xffffffff);
}

/* Differences between the values of a report and the stored ones, as bits: computed without branches, since the
 * verifier would follow all of them. */
struct verdicts {
	__u64 unknown; /* nonzero: not all rows are compared */
	__u64 changed; /* highest bit: a value is beyond its bounds */
};

/* Compare a value with its row; 0 if there is none. */
inlined int check_row(struct verdicts *found, __u32 at, __u64 key, int slot, __u64 value)
{
	struct port *row = port_at(at);
	if (!row)
		return 0;
	found->unknown |= (row->key ^ key) | (row->state ^ ACTIVE);
	found->changed |= (value - row->metrics[slot].low) | (row->metrics[slot].high - value);
	return 1;
}

inlined void commit_row(__u32 at, int slot, __u32 value, __u64 now_ns)
{
	struct port *row = port_at(at);
	if (!row)
		return;
	row->metrics[slot].latest = value;
	row->touched = 1;
	row->samples++;
	row->last_ns = now_ns;
	if (value > row->metrics[slot].highest)
		row->metrics[slot].highest = value;
}

inlined void commit_hop(const struct report *report, struct hop *hop, const struct values *values, __u64 now_ns)
{
	hop->egress_port = values->port;
	if (HAS(report, HAVE_LATENCY)) {
		hop->latency_latest = values->latency;
		hop->latency_sum += values->latency;
		hop->samples++;
	}
	if (HAS(report, HAVE_QUEUE)) {
		hop->queue_latest = values->queue & 0xffffff;
		commit_row(hop->queue_slot, 0, hop->queue_latest, now_ns);
	}
	if (HAS(report, HAVE_CONGESTION))
		commit_row(hop->queue_slot, 1, values->congestion & 0xffffff, now_ns);
	if (HAS(report, HAVE_UTILIZATION)) {
		hop->utilization_latest = values->utilization;
		commit_row(hop->port_slot, 0, values->utilization, now_ns);
	}
	if (HAS(report, HAVE_BUFFER))
		commit_row(hop->buffer_slot, 0, values->buffer & 0xffffff, now_ns);
}

/* Mark a row that can no longer be followed. */
inlined void spoil(struct port *row)
{
	row->spoiled = 1;
	row->metrics[0].low = row->metrics[1].low = 1;
	row->metrics[0].high = row->metrics[1].high = 0;
}

inlined void spoil_flow(struct flow *flow)
{
	flow->spoiled = 1;
	variables.control.spoiled++;
}

/* For a value of a report that is passed up, which the detector will compare: store what the detector will store.
 * Returns the value's row, or NOWHERE. */
inlined __u32 follow_row(__u64 key, int slot, __u32 value)
{
	__u32 at = find_port(key);
	struct port *row = port_at(at);
	if (!row)
		return NOWHERE;
	struct metric *metric = &row->metrics[slot];
	metric->latest = value;
	row->touched = 1;
	if (!(row->has >> slot & 1) || value > metric->above) {
		spoil(row);
	} else if (gap_of(value, metric->stored) > metric->change) {
		metric->stored = value;
		if (row->state == ACTIVE)
			set_bounds(row, metric);
	}
	return at;
}

static long follow_hop(__u32 index, struct pass *pass)
{
	struct values values = {};
	__u32 present = pass->report->present;
	if (read_hop(pass, index, &values))
		return 1;
	struct hop *hop = pass->flow ? hop_of(pass->flow, index & (MAX_HOPS - 1)) : NULL;
	if (hop) {
		if (hop->node != values.node || (present & HAVE_LATENCY && !hop->has_latency))
			spoil_flow(pass->flow);
		hop->egress_port = values.port;
		if (present & HAVE_QUEUE)
			hop->queue_latest = values.queue & 0xffffff;
		if (present & HAVE_UTILIZATION)
			hop->utilization_latest = values.utilization;
		if (present & HAVE_LATENCY) {
			hop->latency_latest = values.latency;
			if (values.latency > hop->latency_above)
				spoil_flow(pass->flow);
			else if (gap_of(values.latency, hop->latency_stored) > hop->latency_change) {
				hop->latency_stored = values.latency;
				if (pass->flow->state == ACTIVE)
					set_hop_bounds(hop);
			}
		}
	}
	pass->latency += values.latency;
	if (present & HAVE_QUEUE) {
		__u32 at = follow_row(queue_key(values.queue, values.port, values.node), 0, values.queue & 0xffffff);
		if (hop)
			hop->queue_slot = at;
	}
	if (present & HAVE_CONGESTION)
		follow_row(queue_key(values.congestion, values.port, values.node), 1, values.congestion & 0xffffff);
	if (present & HAVE_UTILIZATION) {
		__u32 at = follow_row(key_of(KIND_EGRESS, values.port, values.node), 0, values.utilization);
		if (hop)
			hop->port_slot = at;
	}
	if (present & HAVE_BUFFER) {
		__u32 at = follow_row(key_of(KIND_BUFFER, values.buffer >> 24, values.node), 0, values.buffer & 0xffffff);
		if (hop)
			hop->buffer_slot = at;
	}
	return 0;
}

/* Whether all hops of a report are within the bounds of its flow; keeps their values and the sum of their latencies.
 * The loops over hops are bounded loops rather than callbacks, which are slow to return. Missing values (all ones) are
 * beyond the bounds, except for ports. */
inlined int is_steady(struct scratch *scratch, struct report *report, struct flow *flow, __u32 most)
{
	__u32 hops = HOPS(report), at = report->stack + (hops - 1) * report->hop_bytes;
	__u64 latency = 0, absent = 0;
	struct verdicts found = {};
	for (__u32 i = 0; i < most; i++) {
		KNOWN(i);
		if (i >= hops)
			break;
		struct values *values = &report->values[i];
		struct hop *hop = hop_of(flow, i);
		if (!hop)
			return 0;
		const __u8 *bytes = scratch->payload + (at & PLACE);
		__u32 word, port = NO_PORT, node = item_at(bytes, 0);
		at -= report->hop_bytes;
		found.unknown |= hop->node ^ node;
		if (HAS(report, HAVE_PORTS)) {
			word = item_at(bytes, report->at[1]);
			absent |= (__u64)word + 1;
			port = word & 0xffff;
		}
		values->port = port;
		if (HAS(report, HAVE_LATENCY)) {
			values->latency = word = item_at(bytes, report->at[2]);
			latency += word;
			found.changed |= ((__u64)word - hop->low) | ((__u64)hop->high - word);
		}
		if (HAS(report, HAVE_QUEUE)) {
			values->queue = word = item_at(bytes, report->at[3]);
			if (!check_row(&found, hop->queue_slot, queue_key(word, port, node), 0, word & 0xffffff))
				return 0;
		}
		if (HAS(report, HAVE_CONGESTION)) {
			values->congestion = word = item_at(bytes, report->at[6]);
			if (!check_row(&found, hop->queue_slot, queue_key(word, port, node), 1, word & 0xffffff))
				return 0;
		}
		if (HAS(report, HAVE_UTILIZATION)) {
			values->utilization = word = item_at(bytes, report->at[7]);
			if (!check_row(&found, hop->port_slot, key_of(KIND_EGRESS, port, node), 0, word))
				return 0;
		}
		if (HAS(report, HAVE_BUFFER)) {
			values->buffer = word = item_at(bytes, report->at[8]);
			if (!check_row(&found, hop->buffer_slot, key_of(KIND_BUFFER, word >> 24, node), 0, word & 0xffffff))
				return 0;
		}
	}
	report->latency = latency;
	if (found.unknown | found.changed >> 63 | absent >> 32)
		return 0;
	return !HAS(report, HAVE_LATENCY) || (flow->has_latency && latency <= flow->latency_above &&
					      gap_of(latency, flow->latency_stored) <= flow->latency_change);
}

/* A pass over the hops of a report that is not steady. */
struct inspection {
	struct scratch *scratch;
	struct report *report;
	struct flow *flow; /* NULL: only check whether all values are present */
	__u32 result;      /* enum count */
	__u32 prepared;	   /* bounds were missing, and have been set */
};

/* Whether a value of a compared row would cause an event; sets missing bounds. */
inlined __u32 inspect_row(struct inspection *inspection, __u32 at, __u64 key, int slot, __u32 value)
{
	struct port *row = port_at(at);
	if (!row || row->key != key || row->state != ACTIVE || row->spoiled || !(row->has >> slot & 1))
		return COUNT_UNKNOWN;
	struct metric *metric = &row->metrics[slot];
	if (metric->low > metric->high) {
		set_bounds(row, metric);
		inspection->prepared = 1;
	}
	return value < metric->low || value > metric->high ? COUNT_CHANGED : COUNT_FILTERED;
}

static long inspect_hop(__u32 index, struct inspection *inspection)
{
	struct values values = {};
	struct report *report = inspection->report;
	__u32 present = report->present;
	if (read_values(inspection->scratch, report, report->stack + (report->hops - 1 - index) * report->hop_bytes,
			&values)) {
		inspection->result = COUNT_UNUSUAL;
		return 1;
	}
	struct hop *hop = inspection->flow ? hop_of(inspection->flow, index & (MAX_HOPS - 1)) : NULL;
	if (!hop)
		return 0;
	__u32 worst = hop->node == values.node ? COUNT_FILTERED : COUNT_UNKNOWN;
	if (present & HAVE_LATENCY) {
		if (hop->has_latency && hop->low > hop->high) {
			set_hop_bounds(hop);
			inspection->prepared = 1;
		}
		if (!hop->has_latency)
			worst = COUNT_UNKNOWN;
		else if (!worst && (values.latency < hop->low || values.latency > hop->high))
			worst = COUNT_CHANGED;
	}
	if (!worst && present & HAVE_QUEUE)
		worst = inspect_row(inspection, hop->queue_slot, queue_key(values.queue, values.port, values.node), 0,
				    values.queue & 0xffffff);
	if (!worst && present & HAVE_CONGESTION)
		worst = inspect_row(inspection, hop->queue_slot, queue_key(values.congestion, values.port, values.node), 1,
				    values.congestion & 0xffffff);
	if (!worst && present & HAVE_UTILIZATION)
		worst = inspect_row(inspection, hop->port_slot, key_of(KIND_EGRESS, values.port, values.node), 0,
				    values.utilization);
	if (!worst && present & HAVE_BUFFER)
		worst = inspect_row(inspection, hop->buffer_slot,
				    key_of(KIND_BUFFER, values.buffer >> 24, values.node), 0, values.buffer & 0xffffff);
	if (worst && inspection->result != COUNT_UNKNOWN)
		inspection->result = worst;
	return 0;
}

/* Why a report is passed up, an enum count. Not static, like `find_port`. */
__noinline __u32 inspect(struct scratch *scratch, __u32 index)
{
	if (!scratch)
		return COUNT_UNUSUAL;
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(report->flow);
	if (flow && (flow->state != ACTIVE || flow->spoiled || flow->hop_count != report->hops || report->flags))
		flow = NULL;
	struct inspection inspection = {.scratch = scratch, .report = report, .flow = flow};
	bpf_loop(report->hops, inspect_hop, &inspection, 0);
	if (inspection.result == COUNT_UNUSUAL)
		return COUNT_UNUSUAL;
	if (report->flags)
		return COUNT_FLAGGED;
	if (!flow)
		return COUNT_UNKNOWN;
	if (inspection.result)
		return inspection.result;
	return inspection.prepared ? COUNT_UNKNOWN : COUNT_CHANGED; /* the flow's latency differs */
}

/* COUNT_FILTERED if report `index`, of `most` hops, causes no event. */
inlined __u32 check_report_at(struct scratch *scratch, __u32 index, __u32 most)
{
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	report->flow = find_flow(&report->key);
	struct flow *flow = flow_at(report->flow);
	if (flow && flow->state == ACTIVE && !flow->spoiled && flow->hop_count == HOPS(report) && !report->flags &&
	    is_steady(scratch, report, flow, most))
		return COUNT_FILTERED;
	return inspect(scratch, index);
}

/* check_report_at(), not inlined, like `read_packet`. */
__noinline __u32 check_report(struct scratch *scratch, __u32 index)
{
	return scratch ? check_report_at(scratch, index, MAX_HOPS) : COUNT_UNUSUAL;
}

/* check_report_at() for all reports of a datagram, up to the first that causes an event. */
inlined __u32 check_reports(struct scratch *scratch)
{
	/* the first report, if its path is short, needs no call */
	__u32 result = HOPS(&scratch->reports[0]) <= INLINE_HOPS ? check_report_at(scratch, 0, INLINE_HOPS)
								      : check_report(scratch, 0);
	for (__u32 i = 1; i < MAX_REPORTS; i++) {
		KNOWN(i);
		if (result || i >= scratch->count)
			break;
		result = check_report(scratch, i);
	}
	return result;
}

/* Count report `index`, of `most` hops, which causes no event. */
inlined void commit_report_at(struct scratch *scratch, struct counters *counters, __u32 index, __u64 now_ns, __u32 most)
{
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(report->flow);
	if (!flow)
		return;
	__u32 hops = HOPS(report), present = HAS(report, -1);
	for (__u32 i = 0; i < most; i++) {
		KNOWN(i);
		if (i >= hops)
			break;
		struct hop *hop = hop_of(flow, i);
		if (hop)
			commit_hop(report, hop, &report->values[i], now_ns);
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
	counters->values += 1 + latencies + hops * (latencies + (present >> 3 & 1) + (present >> 6 & 1) +
						    (present >> 7 & 1) + (present >> 8 & 1));
}

/* commit_report_at(), not inlined, like `read_packet`. */
__noinline int commit_report(struct scratch *scratch, __u32 index, __u64 now_ns)
{
	if (scratch)
		commit_report_at(scratch, own_counters(), index, now_ns, MAX_HOPS);
	return 0;
}

inlined void commit_reports(struct scratch *scratch, struct counters *counters, __u64 now_ns)
{
	if (HOPS(&scratch->reports[0]) <= INLINE_HOPS)
		commit_report_at(scratch, counters, 0, now_ns, INLINE_HOPS);
	else
		commit_report(scratch, 0, now_ns);
	for (__u32 i = 1; i < MAX_REPORTS; i++) {
		KNOWN(i);
		if (i >= scratch->count)
			break;
		commit_report(scratch, i, now_ns);
	}
}

/* For a report that is passed up: store what the detector will store of it. Not static, like `find_port`. */
__noinline int follow_report(struct scratch *scratch, __u32 index)
{
	if (!scratch)
		return 0;
	struct report *report = &scratch->reports[index & (MAX_REPORTS - 1)];
	struct flow *flow = flow_at(find_flow(&report->key)); /* the search ended at the report that was passed up */
	if (flow && (flow->state == ABSENT || flow->spoiled))
		flow = NULL;
	if (flow && (flow->hop_count != report->hops || report->flags & DROPPED)) { /* it may lack the rest of the path */
		spoil_flow(flow);
		flow = NULL;
	}
	struct pass pass = {.scratch = scratch, .report = report, .flow = flow};
	bpf_loop(report->hops, follow_hop, &pass, 0);
	if (flow)
		flow->touched = 1;
	if (flow && report->present & HAVE_LATENCY) {
		flow->latency_latest = pass.latency;
		if (!flow->has_latency || pass.latency > flow->latency_above)
			spoil_flow(flow);
		else if (gap_of(pass.latency, flow->latency_stored) > flow->latency_change)
			flow->latency_stored = pass.latency;
	}
	return 0;
}

inlined void follow_reports(struct scratch *scratch)
{
	for (__u32 i = 0; i < MAX_REPORTS; i++) {
		KNOWN(i);
		if (i >= scratch->count)
			break;
		follow_report(scratch, i);
	}
}

/* How a sequence number follows those before it (`detect/flows/source_table_kernel`). */
enum order {
	ORDER_NEXT,
	ORDER_EARLY,  /* its source is SETTLING: earlier reports may have higher numbers */
	ORDER_FIRST,  /* the first report after user space has seen its source */
	ORDER_AHEAD,
	ORDER_BEHIND,
	ORDER_FAR,
};

inlined __u32 mask_of(const struct numbering *number)
{
	return number->bits == 22 ? 0x3fffff : 0xffffffff;
}

inlined enum order order_of(struct source *source, const struct numbering *number)
{
	__u32 mask = mask_of(number);
	__u32 ahead = (number->sequence - source->highest) & mask, behind = (source->highest - number->sequence) & mask;
	__u32 farthest = number->bits == 22 ? 1 << 20 : 1 << 24;
	if (source->state == SETTLING) /* late reports are less than 64 behind */
		return ahead >= 64 && ahead <= farthest ? ORDER_FIRST : ORDER_EARLY;
	if (behind < 64)
		return ORDER_BEHIND;
	if (source->state == WATCHED)
		return ORDER_FIRST;
	if (ahead == 1)
		return ORDER_NEXT;
	return ahead <= farthest ? ORDER_AHEAD : ORDER_FAR;
}

inlined void keep_number(struct source *source, const struct numbering *number, enum order order, __u64 now_ns)
{
	if (order == ORDER_EARLY) {
		if (((number->sequence - source->highest + 63) & mask_of(number)) >= 127)
			/* more than 63 away: the first report, or its source has restarted */
			source->highest = number->sequence;
		return;
	}
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
