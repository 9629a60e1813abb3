// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The INT sink: restores a packet to its form before the source, and reports its INT. */
#pragma once

#include "int_edit.h"
#include "int_report.h"

/* Length of the INT that begins with these words, bytes; 0 if it is not a known form of INT. Bytes after the
 * domain-specific instructions are not checked. */
inlined __u32 int_bytes(const __be32 *head, __u32 payload, __u32 by_port)
{
	__u32 shim = bpf_ntohl(head[0]), md = bpf_ntohl(head[1]), items = bpf_ntohl(head[2]) >> 16;
	__u32 domain = bpf_ntohl(head[2]) & 0xffff, length = shim >> 16 & 0xff, words = md >> 8 & 0x1f;
	__u32 type = shim & 0xf0000000, stack = length - MD_BYTES / 4;
	if ((shim & 0x0f000000) != by_port << 26 || (!by_port && shim & 0xff03) || (md & 0xf0000000) != MD_VERSION ||
	    !items || length < MD_BYTES / 4 || payload < SHIM_BYTES + length * 4)
		return 0;
	if (type == SHIM_MX)
		return md & 0x07ffffff || (!domain && stack) ? 0 : SHIM_BYTES + length * 4;
	if (type != SHIM_MD || md & 0x01ffe000 || words < words_of(items) ||
	    (!domain && (words != words_of(items) || stack % words)))
		return 0;
	return SHIM_BYTES + length * 4;
}

/* Remove and report INT. `arrived`: the packet ends at this machine; otherwise `noted` is when it arrived. */
inlined enum switch_count end_int(struct __sk_buff *skb, struct scratch *scratch, const struct switch_control *settings,
				  __u64 noted, const struct packet *packet, int arrived)
{
	struct facts facts;
	__be32 head[4];
	__u32 at = packet->body, payload = packet->length - (packet->body - packet->l4), by_port = settings->port != 0;
	if (skb->gso_size)
		return PASS_GSO;
	if (payload < sizeof(head) || load(skb, at, head, sizeof(head)))
		return PASS_INT;
	__u32 size = int_bytes(head, payload, by_port);
	if (!size)
		return PASS_INT;
	__u32 instructions = bpf_ntohl(head[2]) >> 16;
	if (arrived)
		learn_arrival(skb, settings, &facts);
	else
		learn(skb, settings, noted, instructions, &facts);
	report(skb, scratch, settings, packet, instructions, &facts, at + size);
	if (size > MAX_INT || bpf_skb_load_bytes(skb, at, scratch->made, size))
		return SWITCH_FAILED;
	__u32 original = bpf_ntohl(head[0]) & 0xffff;
	__be32 was = packet->port, becomes = by_port ? bpf_htons(original) : packet->port;
	__s64 changed = bpf_csum_diff(&was, sizeof(was), &becomes, sizeof(becomes), 0);
	changed = without(scratch->made, size, changed);
	if (take_out(skb, scratch, at, size, arrived) != SWITCH_SINK)
		return SWITCH_FAILED;
	__be16 port = becomes, first = by_port ? packet->first : with_dscp(packet, original >> 2);
	if (bpf_skb_store_bytes(skb, packet->l4 + offsetof(struct udphdr, dest), &port, sizeof(port), 0) ||
	    fix_headers(skb, packet, -size, first, changed))
		return SWITCH_FAILED;
	return SWITCH_SINK;
}
