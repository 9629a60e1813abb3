// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The headers of a TCP or UDP packet at tc. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include "int_state.h"

#define IPV6_FRAGMENT 44
#define UNDERSTOOD SWITCH_COUNTS

struct packet {
	struct switch_flow flow;
	__u32 version;
	__u32 l4;     /* offset of the TCP or UDP header */
	__u32 body;   /* offset of the bytes after it */
	__u32 length; /* length of TCP or UDP, header and payload */
	__be16 first; /* first two bytes of the IP header, with the DSCP */
	__be16 ip_length; /* length field of the IP header */
	__be16 port;  /* destination port */
};

inlined int load(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return bpf_skb_load_bytes(skb, at, to, size);
}

inlined int is_udp(const struct packet *packet)
{
	return packet->flow.protocol == IPPROTO_UDP;
}

inlined enum switch_count read_ipv4_header(struct __sk_buff *skb, struct packet *packet)
{
	struct iphdr ip;
	if (load(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4 ||
	    (ip.protocol != IPPROTO_UDP && ip.protocol != IPPROTO_TCP))
		return PASS_OTHER;
	if (ip.ihl != 5)
		return PASS_OPTIONS;
	if (ip.frag_off & bpf_htons(0x3fff))
		return PASS_FRAGMENT;
	__u32 size = bpf_ntohs(ip.tot_len);
	if (size + ETH_HLEN != skb->len || size < sizeof(ip))
		return PASS_LENGTH;
	struct switch_flow *flow = &packet->flow;
	flow->protocol = ip.protocol;
	flow->source[0] = flow->source[1] = flow->destination[0] = flow->destination[1] = 0;
	flow->source[2] = flow->destination[2] = bpf_htonl(0xffff);
	flow->source[3] = ip.saddr;
	flow->destination[3] = ip.daddr;
	packet->version = 4;
	packet->l4 = ETH_HLEN + sizeof(ip);
	packet->ip_length = ip.tot_len;
	packet->length = size - sizeof(ip);
	return UNDERSTOOD;
}

inlined enum switch_count read_ipv6_header(struct __sk_buff *skb, struct packet *packet)
{
	struct ipv6hdr ip;
	if (load(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 6)
		return PASS_OTHER;
	if (ip.nexthdr == IPV6_FRAGMENT)
		return PASS_FRAGMENT;
	if (ip.nexthdr == IPPROTO_HOPOPTS || ip.nexthdr == IPPROTO_ROUTING || ip.nexthdr == IPPROTO_DSTOPTS)
		return PASS_OPTIONS;
	if (ip.nexthdr != IPPROTO_UDP && ip.nexthdr != IPPROTO_TCP)
		return PASS_OTHER;
	packet->length = bpf_ntohs(ip.payload_len);
	if (packet->length + ETH_HLEN + sizeof(ip) != skb->len)
		return PASS_LENGTH;
	packet->flow.protocol = ip.nexthdr;
	packet->version = 6;
	packet->l4 = ETH_HLEN + sizeof(ip);
	packet->ip_length = ip.payload_len;
	__builtin_memcpy(packet->flow.source, &ip.saddr, sizeof(packet->flow.source));
	__builtin_memcpy(packet->flow.destination, &ip.daddr, sizeof(packet->flow.destination));
	return UNDERSTOOD;
}

/* Read the headers of a packet; returns UNDERSTOOD, or why it was not. */
inlined enum switch_count read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__be16 type;
	if (load(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type)))
		return PASS_OTHER;
	enum switch_count what = PASS_OTHER;
	if (type == bpf_htons(ETH_P_IP))
		what = read_ipv4_header(skb, packet);
	else if (type == bpf_htons(ETH_P_IPV6))
		what = read_ipv6_header(skb, packet);
	if (what != UNDERSTOOD)
		return what;
	__be16 ports[2];
	if (load(skb, ETH_HLEN, &packet->first, sizeof(packet->first)) || load(skb, packet->l4, ports, sizeof(ports)))
		return PASS_LENGTH;
	packet->flow.source_port = bpf_ntohs(ports[0]);
	packet->flow.destination_port = bpf_ntohs(ports[1]);
	packet->port = ports[1];
	if (is_udp(packet)) {
		__be16 length;
		packet->body = packet->l4 + sizeof(struct udphdr);
		if (load(skb, packet->l4 + offsetof(struct udphdr, len), &length, sizeof(length)) ||
		    packet->length < sizeof(struct udphdr) || bpf_ntohs(length) != packet->length)
			return PASS_LENGTH;
		return UNDERSTOOD;
	}
	__u8 words; /* length of the TCP header, in the upper half */
	if (load(skb, packet->l4 + 12, &words, sizeof(words)))
		return PASS_LENGTH;
	__u32 size = (words >> 4) * 4;
	packet->body = packet->l4 + size;
	return size < sizeof(struct tcphdr) || size > packet->length ? PASS_LENGTH : UNDERSTOOD;
}

/* The DSCP: six bits of the IP header's first two bytes. */
inlined __u32 dscp_of(const struct packet *packet)
{
	__u32 first = bpf_ntohs(packet->first);
	return packet->version == 4 ? first >> 2 & 0x3f : first >> 6 & 0x3f;
}

inlined __be16 with_dscp(const struct packet *packet, __u32 dscp)
{
	__u32 first = bpf_ntohs(packet->first);
	return packet->version == 4 ? bpf_htons((first & 0xff03) | dscp << 2) : bpf_htons((first & 0xf03f) | dscp << 6);
}

/* Whether DSCP or port of a packet announce INT. */
inlined int is_announced(const struct switch_control *settings, const struct packet *packet)
{
	if (settings->port)
		return is_udp(packet) && packet->port == bpf_htons(settings->port);
	return dscp_of(packet) == settings->dscp;
}
