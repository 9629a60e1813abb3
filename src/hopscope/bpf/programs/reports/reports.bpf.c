// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Telemetry Reports in XDP: reports that change only counts end here, every other report to the port is passed up to
 * the collector through a ring, and all other frames pass to the network stack. */
#include "copy.h"
#include "filter.h"
#include "headers.h"

RING(ring, 1 << 25);

/* Memory into which a CPU reads a datagram. */
SCRATCH(scratches, struct scratch);

/* Pass a datagram up; returns whether there was room. */
inlined int send_up(struct scratch *scratch, __u32 source, __u64 received, __u32 marks)
{
	scratch->head.time_ns = bpf_ktime_get_ns();
	scratch->head.source = source;
	scratch->head.received = received;
	scratch->head.marks = marks;
	__u32 length = scratch->head.length;
	if (length > MAX_PAYLOAD)
		return 0;
	return !bpf_ringbuf_output(&ring, scratch, sizeof(scratch->head) + length, 0);
}

/* Pass up a datagram that is not filtered; `at`: row of its source, if known. Returns what happened to it. Not static,
 * like `find_port`. */
__noinline __u32 pass_up(struct scratch *scratch, __u32 at, enum order order, __u32 why, __u64 now_ns)
{
	if (!scratch)
		return COUNT_UNUSUAL;
	struct source *source = bpf_map_lookup_elem(&sources, &at);
	int usual = why != COUNT_UNUSUAL;
	if (why == COUNT_FILTERED)
		why = source && order != ORDER_FIRST && order != ORDER_EARLY ? COUNT_SEQUENCE : COUNT_UNKNOWN;
	__u32 marks = usual ? 0 : MARK_UNUSUAL;
	if (source)
		marks |= usual && order == ORDER_NEXT ? MARK_NUMBERED : MARK_MERGE;
	if (!send_up(scratch, source ? at : NOWHERE, source ? source->received : 0, marks))
		return COUNT_RING_FULL;
	if (usual)
		follow_reports(scratch);
	if (source && (usual || order == ORDER_EARLY)) {
		keep_number(source, &scratch->number, order, now_ns);
	} else if (source) {
		if (order != ORDER_BEHIND && order != ORDER_FAR)
			source->highest = scratch->number.sequence; /* so that reports that it has overtaken are late */
		source->state = WATCHED;
	}
	return why;
}

/* Compare a datagram with the stored values; returns what happened to it, an enum count. */
inlined __u32 filter(struct scratch *scratch, struct counters *counters)
{
	const struct numbering *number = &scratch->number;
	struct source *source = NULL;
	__u64 low = scratch->head.source_low;
	__u32 at = NOWHERE, why = COUNT_UNUSUAL;
	int usual = read_reports(scratch);
	if (!enter())
		return send_up(scratch, NOWHERE, 0, MARK_UNUSUAL) ? COUNT_BUSY : COUNT_RING_FULL;
	if (usual)
		why = check_reports(scratch);
	if (number->version)
		source = find_source(scratch->head.source_high, low, number->node, number->hardware, number->bits,
				     &scratch->near[(low ^ number->node ^ number->hardware) & 15], &at);
	enum order order = source ? order_of(source, number) : ORDER_FAR;
	__u64 now_ns = coarse_ns();
	if (source && order == ORDER_NEXT && why == COUNT_FILTERED) {
		commit_reports(scratch, counters, now_ns);
		counters->bytes += scratch->head.length;
		keep_number(source, number, order, now_ns);
	} else {
		why = pass_up(scratch, source ? at : NOWHERE, order, why, now_ns);
	}
	leave();
	return why;
}

/* Whether a frame is for another machine. */
inlined int is_foreign(__u64 destination)
{
	return !constants.promiscuous && !(destination & 1) && destination != variables.control.address;
}

inlined int take(struct xdp_md *frame)
{
	struct datagram found;
	struct counters *counters = own_counters();
	enum verdict verdict = A_BAD_LENGTH;
	for (int whole = 0; whole < 2 && verdict == A_BAD_LENGTH; whole++) { /* call only if needed */
		__u32 all = whole ? bpf_xdp_get_buff_len(frame) : frame->data_end - frame->data;
		verdict = find_datagram((void *)(long)frame->data, (void *)(long)frame->data_end, all,
					constants.report_port, &found);
	}
	if (verdict != NOT_A_REPORT && is_foreign(found.destination))
		return XDP_PASS;
	if (verdict != REPORT) {
		if (verdict == A_FRAGMENT)
			counters->datagrams[COUNT_FRAGMENT]++;
		else if (verdict == A_BAD_LENGTH)
			counters->datagrams[COUNT_BAD_LENGTH]++;
		return XDP_PASS;
	}
	__u32 zero = 0, length = found.length;
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	if (!scratch)
		return XDP_PASS;
	if (length > MAX_PAYLOAD) {
		counters->datagrams[COUNT_OVERSIZED]++;
		return XDP_DROP;
	}
	if (!copied(frame, found.payload, length, scratch->payload) && length &&
	    bpf_xdp_load_bytes(frame, found.payload, scratch->payload, length))
		return XDP_PASS;
	scratch->head.source_high = found.source_high;
	scratch->head.source_low = found.source_low;
	scratch->head.length = length;
	scratch->head.source_port = found.source_port;
	scratch->head.port = bpf_ntohs(constants.report_port);
	__u32 what;
	if (variables.control.filter)
		what = filter(scratch, counters);
	else
		what = send_up(scratch, NOWHERE, 0, 0) ? COUNT_UNFILTERED : COUNT_RING_FULL;
	if (what < COUNTS)
		counters->datagrams[what & 15]++;
	return XDP_DROP;
}

SEC("xdp.frags")
int reports(struct xdp_md *frame)
{
	return take(frame);
}

char _license[] SEC("license") = "Apache-2.0";
