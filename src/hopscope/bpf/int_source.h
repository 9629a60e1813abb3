/* The INT source. */
#pragma once

#include "int_edit.h"
#include "int_hop.h"
#include "int_watch.h"

inlined enum switch_count start_int(struct __sk_buff *skb, struct scratch *scratch,
				    const struct switch_control *settings, __u64 noted, const struct packet *packet)
{
	struct facts facts;
	__u32 by_port = settings->port != 0;
	if (by_port && !is_udp(packet))
		return PASS_UNWATCHED;
	if (skb->gso_size)
		return PASS_GSO;
	__u32 words = words_of(settings->instructions), size = HEAD_BYTES + words * 4;
	if (!fits(skb, packet, size))
		return PASS_LONG;
	__u32 original = by_port ? packet->flow.destination_port : dscp_of(packet) << 2;
	put(scratch, 0x10000000 | by_port << 26 | (MD_BYTES / 4 + words) << 16 | original);
	put(scratch, MD_VERSION | words << 8 | ((settings->hop_limit - 1) & 0xff));
	put(scratch, settings->instructions << 16);
	put(scratch, 0);
	learn(skb, settings, noted, &facts);
	put_hop(scratch, settings->instructions, settings, &facts);
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
	return SWITCH_SOURCE;
}

/* A packet without INT. */
inlined enum switch_count start(struct __sk_buff *skb, struct scratch *scratch, const struct switch_control *settings,
				__u64 noted, const struct packet *packet)
{
	const struct switch_watch *watch = watch_of(&packet->flow);
	if (!watch)
		return PASS_UNWATCHED;
	if (!is_sampled(watch, &packet->flow))
		return PASS_UNSAMPLED;
	return start_int(skb, scratch, settings, noted, packet);
}
