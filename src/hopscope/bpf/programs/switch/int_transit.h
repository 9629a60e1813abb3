// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The INT transit. */
#pragma once

#include "int_edit.h"
#include "int_report.h"

inlined enum switch_count extend_int(struct __sk_buff *skb, struct scratch *scratch,
				     const struct switch_control *settings, __u64 noted, const struct packet *packet)
{
	struct facts facts;
	__be32 head[4], old[2], new[2];
	__u32 at = packet->body, payload = packet->length - (packet->body - packet->l4);
	if (payload < sizeof(head) || load(skb, at, head, sizeof(head)))
		return PASS_INT;
	__u32 shim = bpf_ntohl(head[0]), md = bpf_ntohl(head[1]), instructions = bpf_ntohl(head[2]) >> 16;
	__u32 length = shim >> 16 & 0xff, words = md >> 8 & 0x1f, by_port = settings->port != 0;
	if ((shim & 0xfc000000) == (SHIM_MX | by_port << 26) && (md & 0xf0000000) == MD_VERSION && instructions &&
	    length >= MD_BYTES / 4 && payload >= SHIM_BYTES + length * 4) {
		send_postcard(skb, scratch, settings, noted, packet, instructions, at + HEAD_BYTES);
		return SWITCH_POSTCARD;
	}
	if (skb->gso_size)
		return PASS_GSO;
	if ((shim & 0xfc000000) != (SHIM_MD | by_port << 26) || (md & 0xf0000000) != MD_VERSION || !instructions ||
	    words != words_of(instructions) || length < MD_BYTES / 4 || payload < SHIM_BYTES + length * 4 ||
	    (length - MD_BYTES / 4) % words)
		return PASS_INT;
	enum switch_count what = SWITCH_TRANSIT;
	__u32 size = words * 4;
	old[0] = head[0];
	old[1] = head[1];
	if (!(md & 0xff)) {
		what = SWITCH_HOP_LIMIT;
		md |= MD_HOPS_EXCEEDED;
	} else if (length + words > 0xff) {
		return PASS_FULL;
	} else if (!fits(skb, packet, size)) {
		what = SWITCH_MTU;
		md |= MD_MTU_EXCEEDED;
	} else {
		learn(skb, settings, noted, instructions, &facts);
		put_hop(scratch, instructions, settings, &facts);
		what = insert(skb, scratch, at + HEAD_BYTES, SWITCH_TRANSIT);
		if (what != SWITCH_TRANSIT)
			return what;
		md--;
		shim += words << 16;
	}
	/* if the kernel refuses to change the length, another checksum in the packet is left to the network card */
	if (what != SWITCH_TRANSIT && bpf_skb_change_tail(skb, skb->len, 0))
		return PASS_REFUSED;
	new[0] = bpf_htonl(shim);
	new[1] = bpf_htonl(md);
	__s64 changed = bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
	if (bpf_skb_store_bytes(skb, at, new, sizeof(new), 0))
		return what == SWITCH_TRANSIT ? SWITCH_FAILED : PASS_REFUSED;
	if (what != SWITCH_TRANSIT)
		return fix_checksum(skb, packet, changed, 0) ? SWITCH_FAILED : what;
	size = made_bytes(scratch);
	changed = bpf_csum_diff(0, 0, scratch->made, size, changed);
	return fix_headers(skb, packet, size, packet->first, changed) ? SWITCH_FAILED : SWITCH_TRANSIT;
}
