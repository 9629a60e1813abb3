// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Telemetry Reports 2.0 on their way to the process that sends them, and counters. */
#pragma once

#include "switch.h"

#define REPORT_INT 0x10000000
#define REPORT_IPV4 0x04000000
#define REPORT_IPV6 0x05000000
#define REPORT_DROPPED 0x80
#define REPORT_TRACKED 0x20
#define MAIN_WORDS 2      /* of the main contents of a report, before its metadata */
#define MAX_REPORTED 1280 /* bytes of a packet in a report: its headers and all of its INT */

TABLE(counters, MAX_PROCESSORS, struct switch_counters);

/* Reports on their way to the process that sends them: struct report_head, then an individual report (Telemetry Report
 * 2.0, 3.2). */
RING(reports, REPORT_RING_BYTES);
TABLE(sender, 1, struct switch_sender);

inlined struct switch_counters *own_counters(void)
{
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	return bpf_map_lookup_elem(&counters, &processor);
}

inlined void count_report(enum report_count what)
{
	struct switch_counters *mine = own_counters();
	if (mine)
		mine->reports[what]++;
}

inlined int is_sending(void)
{
	__u32 zero = 0;
	const struct switch_sender *process = bpf_map_lookup_elem(&sender, &zero);
	return process && bpf_ktime_get_ns() - process->alive_ns < SENDER_TIMEOUT_NS;
}

/* Pass up a report of `length` bytes, which follow its head. */
inlined void send_up(struct report_head *head, __u32 length, __u32 most)
{
	head->time_ns = bpf_ktime_get_ns();
	head->length = length;
	if (length <= most)
		count_report(bpf_ringbuf_output(&reports, head, sizeof(*head) + length, 0) ? REPORT_RING_FULL : REPORT_QUEUED);
}
