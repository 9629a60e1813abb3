// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Ethernet, VLAN, IPv4, IPv6 and UDP headers around a report. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

#include "shared.h"

#define MAX_TAGS 2
#define MAX_EXTENSIONS 4
#define IPV6_FRAGMENT 44

enum verdict {
	NOT_A_REPORT,
	REPORT,
	A_FRAGMENT,
	A_BAD_LENGTH,
};

struct datagram {
	__u64 source_high;
	__u64 source_low;
	__u64 destination; /* Ethernet address, as `address` of struct control */
	__u32 payload; /* offset in the frame */
	__u32 length;  /* of the payload */
	__u16 source_port;
};

/* An IP packet while its headers are read: `at` moves from the IP header to its payload, `end` is the end of the
 * packet. */
struct ip_packet {
	__u32 at;
	__u32 end;
	__u8 protocol;
	__u8 fragment;
};

inlined enum verdict read_ipv4(void *frame, void *frame_end, __u32 length, struct ip_packet *packet, struct datagram *found)
{
	struct iphdr *ip = frame + packet->at;
	if ((void *)(ip + 1) > frame_end)
		return NOT_A_REPORT;
	__u32 size = ip->ihl * 4, total = bpf_ntohs(ip->tot_len);
	if (ip->version != 4 || size < sizeof(*ip))
		return NOT_A_REPORT;
	packet->protocol = ip->protocol;
	packet->fragment = (ip->frag_off & bpf_htons(0x3fff)) != 0;
	found->source_high = 0;
	found->source_low = 0xffff00000000 | bpf_ntohl(ip->saddr);
	packet->end = packet->at + total;
	packet->at += size;
	return packet->end < packet->at || packet->end > length ? A_BAD_LENGTH : REPORT;
}

inlined enum verdict read_ipv6(void *frame, void *frame_end, __u32 length, struct ip_packet *packet, struct datagram *found)
{
	struct ipv6hdr *ip = frame + packet->at;
	if ((void *)(ip + 1) > frame_end || ip->version != 6)
		return NOT_A_REPORT;
	const __u32 *source = ip->saddr.in6_u.u6_addr32;
	found->source_high = (__u64)bpf_ntohl(source[0]) << 32 | bpf_ntohl(source[1]);
	found->source_low = (__u64)bpf_ntohl(source[2]) << 32 | bpf_ntohl(source[3]);
	packet->protocol = ip->nexthdr;
	packet->fragment = 0;
	packet->end = packet->at + sizeof(*ip) + bpf_ntohs(ip->payload_len);
	packet->at += sizeof(*ip);
	if (packet->end > length)
		return A_BAD_LENGTH;
	for (int i = 0; i < MAX_EXTENSIONS; i++) {
		if (packet->protocol != IPPROTO_HOPOPTS && packet->protocol != IPPROTO_ROUTING && packet->protocol != IPPROTO_DSTOPTS)
			break;
		__u8 *extension = frame + packet->at;
		if ((void *)(extension + 8) > frame_end)
			return A_BAD_LENGTH;
		packet->protocol = extension[0];
		packet->at += 8 + extension[1] * 8;
		if (packet->at > length)
			return A_BAD_LENGTH;
	}
	if (packet->protocol == IPV6_FRAGMENT)
		packet->fragment = 1;
	return REPORT;
}

/* Whether a frame of `length` bytes holds a datagram to `port` (in network order). */
inlined enum verdict find_datagram(void *frame, void *frame_end, __u32 length, __u16 port, struct datagram *found)
{
	struct ethhdr *ethernet = frame;
	if ((void *)(ethernet + 1) > frame_end)
		return NOT_A_REPORT;
	__u16 type = ethernet->h_proto;
	found->destination = *(__u64 *)ethernet & 0xffffffffffff;
	struct ip_packet packet = {.at = sizeof(*ethernet)};
	for (int i = 0; i < MAX_TAGS; i++) {
		if (type != bpf_htons(ETH_P_8021Q) && type != bpf_htons(ETH_P_8021AD))
			break;
		__u16 *tag = frame + packet.at;
		if ((void *)(tag + 2) > frame_end)
			return NOT_A_REPORT;
		type = tag[1];
		packet.at += 4;
	}
	enum verdict verdict = NOT_A_REPORT;
	if (type == bpf_htons(ETH_P_IP))
		verdict = read_ipv4(frame, frame_end, length, &packet, found);
	else if (type == bpf_htons(ETH_P_IPV6))
		verdict = read_ipv6(frame, frame_end, length, &packet, found);
	if (verdict == NOT_A_REPORT || packet.protocol == IPV6_FRAGMENT)
		return verdict == NOT_A_REPORT ? NOT_A_REPORT : A_FRAGMENT;
	if (packet.protocol != IPPROTO_UDP)
		return NOT_A_REPORT;
	if (packet.fragment)
		return A_FRAGMENT;
	struct udphdr *udp = frame + (packet.at & 0x3fff);
	if ((void *)(udp + 1) > frame_end || udp->dest != port)
		return NOT_A_REPORT;
	__u32 size = bpf_ntohs(udp->len);
	if (verdict == A_BAD_LENGTH || size < sizeof(*udp) || packet.at + size > packet.end)
		return A_BAD_LENGTH;
	found->source_port = bpf_ntohs(udp->source);
	found->payload = packet.at + sizeof(*udp);
	found->length = size - sizeof(*udp);
	return REPORT;
}
