// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* INT at tc, on interfaces of a Linux host, router or hypervisor: `ingress` notes when a packet arrived, `egress`
 * inserts INT 2.1 into packets that are watched (source), and adds this hop to packets with INT (transit); `sink`
 * removes INT from packets that leave towards hosts, and `arrival` from packets that end at this machine. */
#include "int_sink.h"
#include "int_source.h"
#include "int_transit.h"

#define AF_INET 2
#define AF_INET6 10

/* `inside`: the packet leaves into the INT domain. */
inlined int leave(struct __sk_buff *skb, int inside)
{
	__u32 zero = 0;
	const struct switch_control *settings = bpf_map_lookup_elem(&control, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct packet packet = {};
	if (!settings || !scratch)
		return TC_ACT_UNSPEC;
	if (settings->instructions & ITEM_LOAD)
		add_load(skb);
	enum switch_count what = read_packet(skb, &packet);
	if (what == PASS_OTHER)
		return done(what);
	__u64 noted = take_note(skb);
	if (what != UNDERSTOOD)
		return done(what);
	scratch->words = 0;
	if (!is_announced(settings, &packet))
		return done(start(skb, scratch, settings, noted, &packet, inside));
	return done(inside ? extend_int(skb, scratch, settings, noted, &packet)
			     : end_int(skb, scratch, settings, noted, &packet, 0));
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	return leave(skb, 1);
}

SEC("tc")
int sink(struct __sk_buff *skb)
{
	return leave(skb, 0);
}

/* Note the time of arrival in the packet's delivery time, the only field that the kernel keeps when it forwards. */
inlined void note(struct __sk_buff *skb)
{
	__u8 protocol = 0;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		load(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol));
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		load(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &protocol, sizeof(protocol));
	if ((protocol == IPPROTO_UDP || protocol == IPPROTO_TCP) && skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), BPF_SKB_TSTAMP_DELIVERY_MONO);
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	note(skb);
	return TC_ACT_UNSPEC;
}

/* Whether a packet is for this machine, rather than one that it forwards. */
inlined int ends_here(struct __sk_buff *skb, const struct packet *packet)
{
	struct bpf_fib_lookup route = {.ifindex = skb->ifindex, .l4_protocol = packet->flow.protocol};
	if (skb->pkt_type) /* other than PACKET_HOST */
		return 0;
	if (packet->version == 4) {
		route.family = AF_INET;
		route.ipv4_src = packet->flow.source[3];
		route.ipv4_dst = packet->flow.destination[3];
	} else {
		route.family = AF_INET6;
		__builtin_memcpy(route.ipv6_src, packet->flow.source, sizeof(route.ipv6_src));
		__builtin_memcpy(route.ipv6_dst, packet->flow.destination, sizeof(route.ipv6_dst));
	}
	long found = bpf_fib_lookup(skb, &route, sizeof(route), 0);
	return found == BPF_FIB_LKUP_RET_NOT_FWDED || found == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

SEC("tc")
int arrival(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct switch_control *settings = bpf_map_lookup_elem(&control, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct packet packet = {};
	note(skb);
	if (!settings || !scratch || read_packet(skb, &packet) != UNDERSTOOD || !is_announced(settings, &packet) ||
	    !ends_here(skb, &packet))
		return TC_ACT_UNSPEC;
	return done(end_int(skb, scratch, settings, 0, &packet, 1));
}

char _license[] SEC("license") = "GPL";
