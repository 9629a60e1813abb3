/* How a packet grows, and how lengths, DSCP and checksums follow.
 *
 * The TCP or UDP header stays where it is and what follows it moves: a checksum that is left to a card is found by its
 * place in the buffer, which no program can change. bpf_l4_csum_replace() knows such checksums, and zero. */
#pragma once

#include "int_packet.h"

#define MAX_REST 9216 /* bytes after the place of a hop: a jumbo frame */

/* Whether a packet that grows by `size` bytes fits into the MTU of its interface, and into its length fields. */
inlined int fits(struct __sk_buff *skb, const struct packet *packet, __u32 size)
{
	__u32 index = skb->ifindex;
	const __u32 *most = bpf_map_lookup_elem(&longest, &index);
	return most && skb->len + size <= *most && bpf_ntohs(packet->ip_length) + size <= 0xffff;
}

/* Insert all of `made` at an offset. */
inlined enum switch_count insert(struct __sk_buff *skb, struct scratch *scratch, __u32 at, enum switch_count what)
{
	__u32 size = made_bytes(scratch), length = skb->len;
	__u32 rest = length - at;
	if (!size || at > length || rest > MAX_REST)
		return PASS_REFUSED;
	/* made one piece of memory, which only such a packet can grow in */
	if (bpf_skb_pull_data(skb, length))
		return PASS_REFUSED;
	if (rest && rest <= MAX_REST && bpf_skb_load_bytes(skb, at, scratch->rest, rest))
		return PASS_REFUSED;
	if (bpf_skb_change_tail(skb, length + size, 0))
		return PASS_REFUSED;
	if (bpf_skb_store_bytes(skb, at, scratch->made, size, 0))
		return SWITCH_FAILED;
	if (rest && rest <= MAX_REST && bpf_skb_store_bytes(skb, at + size, scratch->rest, rest, 0))
		return SWITCH_FAILED;
	return what;
}

/* The checksum of TCP or UDP: `changed` is by how much the sum of what it covers has grown, without lengths; the packet
 * has `grown` bytes more. */
inlined int fix_checksum(struct __sk_buff *skb, const struct packet *packet, __s64 changed, __u32 grown)
{
	int udp = is_udp(packet);
	__u32 at = packet->l4 + (udp ? offsetof(struct udphdr, check) : offsetof(struct tcphdr, check));
	__u64 zero = udp ? BPF_F_MARK_MANGLED_0 : 0;
	__be16 before = bpf_htons(packet->length), after = bpf_htons(packet->length + grown);
	if (grown && udp && bpf_l4_csum_replace(skb, at, before, after, 2 | zero))
		return -1;
	if (grown && bpf_l4_csum_replace(skb, at, before, after, 2 | zero | BPF_F_PSEUDO_HDR))
		return -1;
	return bpf_l4_csum_replace(skb, at, 0, changed, zero);
}

/* Lengths, the DSCP and checksums of the headers around INT that has grown by `size` bytes. */
inlined int fix_headers(struct __sk_buff *skb, const struct packet *packet, __u32 size, __be16 first, __s64 changed)
{
	__be16 length = bpf_htons(bpf_ntohs(packet->ip_length) + size);
	__be16 udp_length = bpf_htons(packet->length + size);
	__u32 length_at = ETH_HLEN + (packet->version == 4 ? offsetof(struct iphdr, tot_len)
							     : offsetof(struct ipv6hdr, payload_len));
	if (packet->version == 4) {
		__u32 at = ETH_HLEN + offsetof(struct iphdr, check);
		if (bpf_l3_csum_replace(skb, at, packet->ip_length, length, 2) ||
		    bpf_l3_csum_replace(skb, at, packet->first, first, 2))
			return -1;
	}
	if (is_udp(packet) &&
	    bpf_skb_store_bytes(skb, packet->l4 + offsetof(struct udphdr, len), &udp_length, sizeof(udp_length), 0))
		return -1;
	return bpf_skb_store_bytes(skb, ETH_HLEN, &first, sizeof(first), 0) ||
	       bpf_skb_store_bytes(skb, length_at, &length, sizeof(length), 0) ||
	       fix_checksum(skb, packet, changed, size);
}
