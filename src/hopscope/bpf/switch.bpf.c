// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* INT at tc, on interfaces of a Linux host, router or hypervisor: `ingress` notes when a packet came, `egress` puts
 * INT-MD 2.1 into packets that are watched (source), and adds this hop to those that have it (transit). */
#include "int_source.h"
#include "int_transit.h"

SEC("tc")
int egress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct switch_control *settings = bpf_map_lookup_elem(&control, &zero);
	struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
	struct packet packet = {};
	if (!settings || !scratch)
		return TC_ACT_UNSPEC;
	enum switch_count what = read_packet(skb, &packet);
	if (what == PASS_OTHER)
		return done(what);
	__u64 noted = take_note(skb);
	if (what != UNDERSTOOD)
		return done(what);
	scratch->words = 0;
	return done(is_announced(settings, &packet) ? extend_int(skb, scratch, settings, noted, &packet)
						     : start(skb, scratch, settings, noted, &packet));
}

/* A packet's delivery time is the one field of a packet that the kernel keeps as it forwards it. */
SEC("tc")
int ingress(struct __sk_buff *skb)
{
	__u8 protocol = 0;
	if (skb->protocol == bpf_htons(ETH_P_IP))
		load(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol));
	else if (skb->protocol == bpf_htons(ETH_P_IPV6))
		load(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &protocol, sizeof(protocol));
	if ((protocol == IPPROTO_UDP || protocol == IPPROTO_TCP) && skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), BPF_SKB_TSTAMP_DELIVERY_MONO);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "GPL";
