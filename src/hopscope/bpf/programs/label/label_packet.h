// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Reads an IP packet and its labels, and finds what prevents another label. */
#pragma once

#include "label_state.h"

#define IPV6_FRAGMENT 44
#define IPPROTO_ICMP6 58
#define ONES_16 0xffff

struct packet {
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	};
	__u32 version; /* 4 or 6 */
	__u32 payload; /* offset of the bytes after the IP header */
	__u32 limit;   /* end of the IP packet */
	__u32 options; /* bytes of IPv4 options */
	__u8 next;     /* the packet's own protocol */
	__u8 number;   /* INT_num */
	__u8 items;
	__u8 labelled;
	__u8 tracked;
};

/* Read the labels of a packet whose IP header announces them; returns whether they can be read. */
inlined int read_labels(struct __sk_buff *skb, const struct label_control *control, struct packet *packet)
{
	struct label_option option;
	if (packet->payload + OPTION_BYTES > packet->limit || load(skb, packet->payload, &option, sizeof(option)))
		return 0;
	packet->labelled = 1;
	packet->next = option.next_header;
	packet->number = packet->items = option.count;
	if (option.count > control->max_hop) {
		packet->items -= control->max_hop;
		packet->tracked = 1;
	}
	return packet->payload + OPTION_BYTES + packet->items * ITEM_BYTES <= packet->limit;
}

/* Read the headers of a packet; returns PASS_NOT_DUE if it can be labelled, else why not. `labelled`: read labels,
 * too. */
inlined enum label_count read_packet(struct __sk_buff *skb, const struct label_control *control,
				     struct packet *packet)
{
	__be16 type;
	if (load(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type)))
		return PASS_OTHER;
	if (type == bpf_htons(ETH_P_IP)) {
		if (load(skb, ETH_HLEN, &packet->v4, sizeof(packet->v4)) || packet->v4.version != 4)
			return PASS_OTHER;
		if (packet->v4.ihl < 5)
			return PASS_LENGTH;
		packet->version = 4;
		packet->options = (packet->v4.ihl - 5) * 4;
		packet->payload = ETH_HLEN + sizeof(struct iphdr) + packet->options;
		packet->limit = ETH_HLEN + bpf_ntohs(packet->v4.tot_len);
		packet->next = packet->v4.protocol;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		if (load(skb, ETH_HLEN, &packet->v6, sizeof(packet->v6)) || packet->v6.version != 6)
			return PASS_OTHER;
		packet->version = 6;
		packet->payload = ETH_HLEN + sizeof(struct ipv6hdr);
		packet->limit = packet->payload + bpf_ntohs(packet->v6.payload_len);
		packet->next = packet->v6.nexthdr;
	} else {
		return PASS_OTHER;
	}
	if (skb->gso_size)
		return PASS_GSO;
	if (packet->payload > packet->limit || packet->limit > skb->len)
		return PASS_LENGTH;
	if (packet->next == control->protocol && !read_labels(skb, control, packet))
		return PASS_DAMAGED;
	return PASS_NOT_DUE;
}

/* Why a packet without labels must not get one here; PASS_NOT_DUE: it may. A labelled fragment could not be reassembled
 * by a router that tracks connections. */
inlined enum label_count obstacle(struct __sk_buff *skb, const struct label_control *control,
				  const struct packet *packet)
{
	__u8 group;
	if (!skb->ingress_ifindex && !control->own)
		return PASS_OWN;
	if (load(skb, 0, &group, sizeof(group)) || group & 1)
		return PASS_LOCAL;
	if (packet->version == 4) {
		__u32 from = bpf_ntohl(packet->v4.saddr), to = bpf_ntohl(packet->v4.daddr);
		if (from >> 16 == 0xa9fe || to >> 16 == 0xa9fe || to >> 28 >= 0xe)
			return PASS_LOCAL;
		return packet->v4.frag_off & bpf_htons(0x3fff) ? PASS_FRAGMENT : PASS_NOT_DUE;
	}
	const struct in6_addr *from = &packet->v6.saddr, *to = &packet->v6.daddr;
	__u32 source = bpf_ntohl(from->in6_u.u6_addr32[0]) >> 22, target = bpf_ntohl(to->in6_u.u6_addr32[0]) >> 22;
	if (source == 0x3fa || target == 0x3fa || target >> 2 == 0xff)
		return PASS_LOCAL;
	if (packet->next == IPPROTO_ICMP6 && packet->v6.hop_limit == 255 && !skb->ingress_ifindex)
		return PASS_LOCAL; /* neighbour discovery */
	if (packet->next == IPV6_FRAGMENT)
		return PASS_FRAGMENT;
	return packet->next == IPPROTO_HOPOPTS ? PASS_OPTIONS : PASS_NOT_DUE;
}

inlined void addresses_of(const struct packet *packet, __u32 *source, __u32 *destination)
{
	if (packet->version == 6) {
		__builtin_memcpy(source, &packet->v6.saddr, 16);
		__builtin_memcpy(destination, &packet->v6.daddr, 16);
		return;
	}
	source[0] = source[1] = destination[0] = destination[1] = 0;
	source[2] = destination[2] = bpf_htonl(0xffff);
	source[3] = packet->v4.saddr;
	destination[3] = packet->v4.daddr;
}

/* Fold a sum of 16-bit numbers to 16 bits, as in a checksum. */
inlined __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & ONES_16) + (sum >> 16);
	sum = (sum & ONES_16) + (sum >> 16);
	return (sum & ONES_16) + (sum >> 16);
}

/* Whether the checksum of TCP or UDP is only the sum of the pseudo header, since its sender leaves the rest to the
 * network card. A complete checksum may happen to have this value, too. */
inlined int left_to_a_card(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 at = packet->payload + (packet->labelled ? OPTION_BYTES + packet->items * ITEM_BYTES : 0);
	__u32 size = packet->limit - at;
	__u64 sum = bpf_htons(packet->next) + (__u64)bpf_htons(size);
	__be16 check;
	if (packet->next == IPPROTO_TCP)
		at += 16;
	else if (packet->next == IPPROTO_UDP)
		at += offsetof(struct udphdr, check);
	else
		return 0;
	if (load(skb, at, &check, sizeof(check)))
		return 0;
	if (packet->version == 4) {
		sum += (__u64)packet->v4.saddr + packet->v4.daddr;
	} else {
		for (int i = 0; i < 4; i++)
			sum += (__u64)packet->v6.saddr.in6_u.u6_addr32[i] + packet->v6.daddr.in6_u.u6_addr32[i];
	}
	return check == folded(sum);
}

/* Check whether a label that is due can be written; else returns why not. */
inlined enum label_count room_for(struct __sk_buff *skb, const struct label_control *control,
				  const struct label_port *port, const struct packet *packet)
{
	__u32 full = packet->tracked ? MAX_COUNT - control->max_hop : control->max_hop;
	__u32 grown = ITEM_BYTES + (packet->labelled ? 0 : OPTION_BYTES);
	if (packet->items >= full)
		return PASS_FULL;
	if (packet->version == 4 && packet->v4.check == ONES_16)
		return PASS_CHECKSUM; /* the sink could not restore it */
	if (port->role == ROLE_HOST)
		return LABEL_WRITTEN;
	if (skb->len + grown > port->longest || packet->limit - ETH_HLEN + grown > ONES_16)
		return PASS_LONG;
	return port->partial || !left_to_a_card(skb, packet) ? LABEL_WRITTEN : PASS_CHECKSUM;
}
