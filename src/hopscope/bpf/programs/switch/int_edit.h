// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Makes a packet longer or shorter, and adapts lengths, DSCP and checksums.
 *
 * * The TCP or UDP header stays where it is, and the bytes after it move: a checksum that is left to the network card
 * is found by its place in the buffer, which no program can change. bpf_l4_csum_replace() handles such checksums, and
 * zero. */
#pragma once

#include "int_packet.h"

#define MAX_INT 1024  /* bytes of INT: a shim, and the greatest length that it can state */
#define CHUNK 256     /* bytes of one bpf_csum_diff(), whose limit is 512 before Linux 6.13 */
#define MAX_REST 9216 /* bytes after the place where a hop is inserted: a jumbo frame */

/* Whether a packet that grows by `size` bytes fits into the MTU of its interface, and into its length fields. */
inlined int fits(struct __sk_buff *skb, const struct packet *packet, __u32 size)
{
	const struct switch_port *port = own_port(skb);
	return port && skb->len + size <= port->longest && bpf_ntohs(packet->ip_length) + size <= 0xffff;
}

/* Insert the whole of `made` at an offset. */
inlined enum switch_count insert(struct __sk_buff *skb, struct scratch *scratch, __u32 at, enum switch_count what)
{
	__u32 size = made_bytes(scratch), length = skb->len;
	__u32 rest = length - at;
	KNOWN(rest);
	if (!size || at > length || rest > MAX_REST)
		return PASS_REFUSED;
	/* make it contiguous: only a contiguous packet can grow */
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

/* Remove `size` bytes at an offset. A packet that cannot be restored is dropped: a receiver would take INT for
 * payload. */
inlined enum switch_count take_out(struct __sk_buff *skb, struct scratch *scratch, __u32 at, __u32 size, int arrived)
{
	__u32 length = skb->len, rest = length - at - size;
	KNOWN(rest);
	if (at + size > length || rest > MAX_REST || bpf_skb_pull_data(skb, length))
		return SWITCH_FAILED;
	/* a packet that grows gives up the sum of all bytes that the card computed */
	if (arrived && bpf_skb_change_tail(skb, length + 4, 0))
		return SWITCH_FAILED;
	if (rest && rest <= MAX_REST &&
	    (bpf_skb_load_bytes(skb, at + size, scratch->rest, rest) || bpf_skb_store_bytes(skb, at, scratch->rest, rest, 0)))
		return SWITCH_FAILED;
	return bpf_skb_change_tail(skb, length - size, 0) ? SWITCH_FAILED : SWITCH_SINK;
}

/* `sum` minus the sum of these words. */
inlined __s64 without(const __be32 *words, __u32 size, __s64 sum)
{
	for (__u32 at = 0; at < MAX_INT; at += CHUNK) {
		__u32 left = size - at;
		if (at >= size)
			break;
		sum = bpf_csum_diff((__be32 *)words + at / 4, left < CHUNK ? left & ~3 : CHUNK, 0, 0, sum);
	}
	return sum;
}

/* Adapt the checksum of TCP or UDP. `changed`: how much the sum of the covered bytes has grown, without lengths;
 * `grown`: how many bytes longer the packet is. */
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

/* Adapt lengths, DSCP and checksums of the headers around INT that has grown by `size` bytes. */
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
