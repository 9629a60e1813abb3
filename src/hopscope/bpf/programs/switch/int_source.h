// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The INT source, and postcards of packets without INT. */
#pragma once

#include "int_edit.h"
#include "int_report.h"
#include "int_watch.h"

/* Insert INT-MD with this hop, or INT-MX, in which case the packet is also reported. */
inlined enum switch_count start_int(struct __sk_buff *skb, struct scratch *scratch,
				    const struct switch_control *settings, __u64 noted, const struct packet *packet,
				    __u32 mode)
{
	struct facts facts;
	__u32 by_port = settings->port != 0;
	if (by_port && !is_udp(packet))
		return PASS_UNWATCHED;
	if (skb->gso_size)
		return PASS_GSO;
	__u32 words = mode == MODE_MD ? words_of(settings->instructions) : 0, size = HEAD_BYTES + words * 4;
	if (!fits(skb, packet, size))
		return PASS_LONG;
	__u32 original = by_port ? packet->flow.destination_port : dscp_of(packet) << 2;
	put(scratch, (mode == MODE_MD ? SHIM_MD : SHIM_MX) | by_port << 26 | (MD_BYTES / 4 + words) << 16 | original);
	put(scratch, MD_VERSION | (mode == MODE_MD ? words << 8 | ((settings->hop_limit - 1) & 0xff) : 0));
	put(scratch, settings->instructions << 16);
	put(scratch, 0);
	if (mode == MODE_MD) {
		learn(skb, settings, noted, settings->instructions, &facts);
		put_hop(scratch, settings->instructions, settings, &facts);
	}
	enum switch_count what = insert(skb, scratch, packet->body, SWITCH_SOURCE);
	if (what != SWITCH_SOURCE)
		return what;
	__be32 was = packet->port, becomes = by_port ? bpf_htons(settings->port) : packet->port;
	__s64 changed = bpf_csum_diff(&was, sizeof(was), &becomes, sizeof(becomes), 0);
	size = made_bytes(scratch);
	changed = bpf_csum_diff(0, 0, scratch->made, size, changed);
	__be16 port = becomes, first = by_port ? packet->first : with_dscp(packet, settings->dscp & 0x3f);
	if (bpf_skb_store_bytes(skb, packet->l4 + offsetof(struct udphdr, dest), &port, sizeof(port), 0) ||
	    fix_headers(skb, packet, size, first, changed))
		return SWITCH_FAILED;
	if (mode == MODE_MX)
		send_postcard(skb, scratch, settings, noted, packet, settings->instructions, packet->body + HEAD_BYTES);
	return SWITCH_SOURCE;
}

/* A hash that distinguishes a packet from others of its flow, the same at every switch. */
inlined __u32 packet_hash(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 words[2] = {}, hash = flow_hash(&packet->flow);
	__be16 identification = 0;
	if (packet->version == 4)
		load(skb, ETH_HLEN + offsetof(struct iphdr, id), &identification, sizeof(identification));
	/* sequence and acknowledgment numbers of TCP, or the first bytes of a datagram */
	__u32 at = is_udp(packet) ? packet->body : packet->l4 + offsetof(struct tcphdr, seq);
	if (packet->l4 + packet->length >= at + sizeof(words))
		load(skb, at, words, sizeof(words));
	return finished(mixed(mixed(mixed(hash, identification), words[0]), words[1]));
}

/* Whether a packet is in the sample of an entry. */
inlined int is_sampled(struct __sk_buff *skb, const struct packet *packet, const struct switch_watch *watch)
{
	if (watch->sample <= 1)
		return 1;
	__u32 drawn = watch->by_flow		? finished(flow_hash(&packet->flow))
		      : watch->mode == MODE_XD ? packet_hash(skb, packet)
						: bpf_get_prandom_u32();
	return drawn % watch->sample == 0;
}

/* Handle a packet without INT; `inside`: it leaves into the INT domain. */
inlined enum switch_count start(struct __sk_buff *skb, struct scratch *scratch, const struct switch_control *settings,
				__u64 noted, const struct packet *packet, int inside)
{
	const struct switch_watch *watch = watch_of(&packet->flow);
	if (!watch || watch->mode == MODE_DROPS || (!inside && watch->mode != MODE_XD))
		return PASS_UNWATCHED;
	if (!is_sampled(skb, packet, watch))
		return PASS_UNSAMPLED;
	if (watch->mode != MODE_XD)
		return start_int(skb, scratch, settings, noted, packet, watch->mode);
	__u32 ip = packet->l4 + POSTCARD_BYTES;
	send_postcard(skb, scratch, settings, noted, packet, settings->instructions, ip);
	return SWITCH_POSTCARD;
}
