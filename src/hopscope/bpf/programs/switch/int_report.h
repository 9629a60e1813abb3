// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Telemetry Reports 2.0 of this switch. */
#pragma once

#include "int_hop.h"

#define POSTCARD_BYTES 20 /* bytes after the IP header in a postcard: TCP without options, or UDP and 12 bytes */

/* Report a packet from its IP header up to offset `end`, with this hop's metadata. */
inlined void report(struct __sk_buff *skb, struct scratch *scratch, const struct switch_control *settings,
		    const struct packet *packet, __u32 instructions, const struct facts *facts, __u32 end)
{
	if (!is_sending()) {
		count_report(REPORT_NO_SENDER);
		return;
	}
	__u32 items = known_items(instructions, facts), words = words_of(items), inner = (end - ETH_HLEN) & ~3u;
	__u32 length = MAIN_WORDS + words + inner / 4;
	scratch->words = 0;
	put(scratch, REPORT_INT | (packet->version == 4 ? REPORT_IPV4 : REPORT_IPV6) |
			     (length < 0xff ? length : 0xff) << 16 | words << 8 | REPORT_TRACKED);
	put(scratch, items << 16);
	put(scratch, 0);
	put_hop(scratch, items, settings, facts);
	__u32 at = made_bytes(scratch);
	if (end <= ETH_HLEN || inner > MAX_REPORTED || !inner ||
	    bpf_skb_load_bytes(skb, ETH_HLEN, (__u8 *)scratch->made + at, inner))
		return;
	send_up(&scratch->head, at + inner, sizeof(scratch->made) + MAX_REPORTED);
}

/* Report a packet that does not change, or that does not end here. */
inlined void send_postcard(struct __sk_buff *skb, struct scratch *scratch, const struct switch_control *settings,
			   __u64 noted, const struct packet *packet, __u32 instructions, __u32 end)
{
	struct facts facts;
	learn(skb, settings, noted, instructions, &facts);
	report(skb, scratch, settings, packet, instructions, &facts, end < skb->len ? end : skb->len);
}
