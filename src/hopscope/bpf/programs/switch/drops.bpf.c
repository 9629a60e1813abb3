// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Drop reports: for each packet that it drops, the kernel gives the reason (tracepoint skb:kfree_skb). Drops of packets
 * of the watch list are reported to the collector. */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#include "int_ring.h"
#include "int_watch.h"
#include "kernel.h"

#define CONSUMED 1       /* enum skb_drop_reason: not a drop */
#define BURST 100        /* reports that a CPU may send at once */
#define HEADERS 40       /* bytes of an IPv4 packet in a report: TCP without options, or UDP and 12 bytes */
#define WITH_INT 512     /* bytes of a packet with INT in a report */
#define DROP_WORDS 7     /* words of a report before the packet */
#define ITEM_PORTS 0x4000
#define ITEM_INTERFACES 0x0200
#define ITEM_DROP 0x0001

/* Whether the tracepoint also gives the receiving socket (Linux 6.11). */
const volatile __u32 has_socket = 1;

TABLE(drop_control, 1, struct drop_control);

/* Packets of the watch list that were dropped, by reason. */
HASH(drop_reasons, 512, __u32, __u64);

struct drop_scratch {
	__u64 due_ns; /* when the next report would be due if reports were evenly spread */
	struct report_head head;
	__be32 words[DROP_WORDS];
	__u8 packet[WITH_INT];
};

SCRATCH(drop_scratches, struct drop_scratch);

struct dropped {
	const __u8 *ip; /* its IP header */
	__u32 linear;   /* contiguous bytes from there on */
	__u32 version;
	__u32 announced;
	struct switch_flow flow;
};

inlined int from_kernel(void *to, __u32 size, const void *from)
{
	return bpf_probe_read_kernel(to, size, from);
}

inlined int read_ports(struct dropped *packet, const struct drop_control *settings, __u32 at, __u32 dscp)
{
	__be16 ports[2];
	if (packet->linear < at + sizeof(struct udphdr) || from_kernel(ports, sizeof(ports), packet->ip + at))
		return -1;
	packet->flow.source_port = bpf_ntohs(ports[0]);
	packet->flow.destination_port = bpf_ntohs(ports[1]);
	packet->announced = settings->port ? packet->flow.destination_port == settings->port : dscp == settings->dscp;
	return 0;
}

/* Read addresses and ports of TCP or UDP. Returns 0, or -1 for any other packet. */
inlined int read_dropped(struct sk_buff *skb, const struct drop_control *settings, struct dropped *packet)
{
	__be16 type = BPF_CORE_READ(skb, protocol);
	__u32 at = BPF_CORE_READ(skb, network_header), tail = BPF_CORE_READ(skb, tail);
	if (!at || at >= tail)
		return -1;
	packet->ip = BPF_CORE_READ(skb, head) + at;
	packet->linear = tail - at;
	struct switch_flow *flow = &packet->flow;
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;
		if (packet->linear < sizeof(ip) || from_kernel(&ip, sizeof(ip), packet->ip) || ip.version != 4 ||
		    ip.ihl < 5 || ip.frag_off & bpf_htons(0x1fff))
			return -1;
		packet->version = 4;
		flow->protocol = ip.protocol;
		flow->source[2] = flow->destination[2] = bpf_htonl(0xffff);
		flow->source[3] = ip.saddr;
		flow->destination[3] = ip.daddr;
		return flow->protocol == IPPROTO_TCP || flow->protocol == IPPROTO_UDP
			       ? read_ports(packet, settings, ip.ihl * 4, ip.tos >> 2)
			       : -1;
	}
	struct ipv6hdr ip;
	if (type != bpf_htons(ETH_P_IPV6) || packet->linear < sizeof(ip) ||
	    from_kernel(&ip, sizeof(ip), packet->ip) || ip.version != 6)
		return -1;
	packet->version = 6;
	flow->protocol = ip.nexthdr;
	__builtin_memcpy(flow->source, &ip.saddr, sizeof(flow->source));
	__builtin_memcpy(flow->destination, &ip.daddr, sizeof(flow->destination));
	return flow->protocol == IPPROTO_TCP || flow->protocol == IPPROTO_UDP
		       ? read_ports(packet, settings, sizeof(ip), (ip.priority << 2 | ip.flow_lbl[0] >> 6) & 0x3f)
		       : -1;
}

inlined void count_reason(__u32 reason)
{
	__u64 one = 1, *counted = bpf_map_lookup_elem(&drop_reasons, &reason);
	if (counted)
		__sync_fetch_and_add(counted, 1);
	else
		bpf_map_update_elem(&drop_reasons, &reason, &one, BPF_NOEXIST);
}

/* Whether a report is within the rate limit. */
inlined int is_due(struct drop_scratch *scratch, const struct drop_control *settings)
{
	__u64 now = bpf_ktime_get_ns(), least = now - BURST * settings->interval_ns;
	__u64 due = scratch->due_ns > least ? scratch->due_ns : least;
	if (due > now)
		return 0;
	scratch->due_ns = due + settings->interval_ns;
	return 1;
}

inlined void report_drop(struct drop_scratch *scratch, const struct dropped *packet, __u32 reason, __u32 ingress,
			 __u32 egress)
{
	__u32 size = packet->announced ? WITH_INT : packet->version == 4 ? HEADERS : HEADERS + 20;
	if (size > packet->linear)
		size = packet->linear;
	size &= ~3u;
	if (size > WITH_INT || from_kernel(scratch->packet, size, packet->ip))
		return;
	__u32 in = ingress && ingress < 0xffff ? ingress : 0xffff, out = egress && egress < 0xffff ? egress : 0xffff;
	__be32 *words = scratch->words;
	words[0] = bpf_htonl(REPORT_INT | (packet->version == 4 ? REPORT_IPV4 : REPORT_IPV6) |
			     (MAIN_WORDS + 4 + size / 4) << 16 | 4 << 8 | REPORT_DROPPED);
	words[1] = bpf_htonl((__u32)(ITEM_PORTS | ITEM_INTERFACES | ITEM_DROP) << 16);
	words[2] = 0;
	words[3] = bpf_htonl(in << 16 | out);
	words[4] = bpf_htonl(ingress ? ingress : 0xffffffff);
	words[5] = bpf_htonl(egress ? egress : 0xffffffff);
	words[6] = bpf_htonl((reason < 0xff ? reason : 0xff) << 16);
	send_up(&scratch->head, sizeof(scratch->words) + size, sizeof(scratch->words) + WITH_INT);
}

SEC("tp_btf/kfree_skb")
int dropped(__u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	__u32 reason = arguments[2], zero = 0;
	struct dropped packet = {};
	const struct drop_control *settings = bpf_map_lookup_elem(&drop_control, &zero);
	struct drop_scratch *scratch = bpf_map_lookup_elem(&drop_scratches, &zero);
	if (!settings || !scratch || reason <= CONSUMED || read_dropped(skb, settings, &packet))
		return 0;
	/* while a packet is in a socket's queue, this field does not hold the interface */
	struct net_device *device = BPF_CORE_READ(skb, dev);
	struct sock *socket = has_socket ? (void *)arguments[3] : 0;
	__u32 network = socket ? BPF_CORE_READ(socket, __sk_common.skc_net.net, ns.inum)
			       : BPF_CORE_READ(device, nd_net.net, ns.inum);
	if (network != settings->network || !watch_of(&packet.flow))
		return 0;
	count_reason(reason);
	if (!is_sending()) {
		count_report(REPORT_NO_SENDER);
	} else if (!is_due(scratch, settings)) {
		count_report(REPORT_LIMITED);
	} else {
		__u32 ingress = BPF_CORE_READ(skb, skb_iif), egress = socket ? 0 : BPF_CORE_READ(device, ifindex);
		report_drop(scratch, &packet, reason, ingress, egress == ingress ? 0 : egress);
	}
	return 0;
}

char _license[] SEC("license") = "GPL";
