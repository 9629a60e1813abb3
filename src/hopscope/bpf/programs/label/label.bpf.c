// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* INT-label at tc, on interfaces of a Linux switch: `label_egress` writes the label of a port into some packets
 * (INT-label, Algorithms 1 and 2), and removes labels from packets that go to hosts; `label_ingress` notes when a
 * packet arrived, and removes labels from packets for this machine. */
#include <linux/if_packet.h>

#include "label_report.h"
#include "label_rule.h"

#define AF_INET 2
#define AF_INET6 10

/* Time at which `ingress` saw the packet, or 0. */
inlined __u64 noted_in(struct __sk_buff *skb)
{
	return skb->ingress_ifindex && skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO ? skb->tstamp : 0;
}

/* Remove the note, since a queue might read it as a time of departure. For TCP and UDP, the program of INT does
 * this. */
inlined void clear_note(struct __sk_buff *skb, const struct packet *packet)
{
	__u8 protocol = packet->version == 4 ? packet->v4.protocol : packet->v6.nexthdr;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
}

/* Algorithms 1 and 2 at the egress port. */
inlined enum label_count leave(struct __sk_buff *skb, const struct label_control *control,
			       struct label_scratch *scratch, struct label_port *port, struct packet *packet,
			       __u64 noted)
{
	enum label_count what = read_packet(skb, control, packet);
	if (what == PASS_NOT_DUE && !packet->labelled)
		what = obstacle(skb, control, packet);
	if (what != PASS_NOT_DUE)
		return what;
	if (!packet->labelled && begins_tracked(skb, control, packet)) {
		packet->tracked = 1;
		packet->number = control->max_hop;
	}
	__u64 now = bpf_ktime_get_ns(), last = port->last;
	const struct label_inputs *test = is_test ? given() : 0;
	if (test) {
		now = test->now;
		noted = test->received;
	}
	enum label_verdict verdict = wants_label(control, port, packet->number, now, last, test);
	if (verdict != NO_LABEL)
		what = room_for(skb, control, port, packet);
	int wants = what == LABEL_WRITTEN;
	/* if two CPUs find the label due at the same time, only one writes it */
	if (wants && __sync_val_compare_and_swap(&port->last, last, now) != last && verdict == DUE_LABEL) {
		wants = 0;
		what = PASS_NOT_DUE;
	}
	if (port->role == ROLE_HOST) {
		if (packet->items || wants)
			report(skb, control, scratch, packet, wants, now, noted);
		port->labels += wants;
		if (packet->labelled)
			return restore(skb, scratch, packet);
		return wants ? LABEL_LAST : what;
	}
	if (!wants)
		return what;
	what = write_label(skb, control, scratch, packet, now, noted);
	if (what == LABEL_WRITTEN)
		port->labels++;
	else
		__sync_val_compare_and_swap(&port->last, now, last);
	return what;
}

SEC("tc")
int label_egress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	const struct label_control *control = bpf_map_lookup_elem(&label_control, &zero);
	struct label_scratch *scratch = bpf_map_lookup_elem(&label_scratches, &zero);
	struct label_port *port = port_of(skb->ifindex);
	struct packet packet = {};
	if (!control || !scratch || !port)
		return TC_ACT_UNSPEC;
	__u64 noted = noted_in(skb);
	enum label_count what = leave(skb, control, scratch, port, &packet, noted);
	port->packets++;
	if (noted)
		clear_note(skb, &packet);
	return done(what);
}

/* Whether an incoming packet is for this machine. */
inlined int is_for_us(struct __sk_buff *skb, const struct packet *packet)
{
	struct bpf_fib_lookup route = {.ifindex = skb->ifindex};
	if (skb->pkt_type == PACKET_OTHERHOST)
		return 0;
	if (packet->version == 4) {
		route.family = AF_INET;
		route.ipv4_src = packet->v4.saddr;
		route.ipv4_dst = packet->v4.daddr;
	} else {
		route.family = AF_INET6;
		__builtin_memcpy(route.ipv6_src, &packet->v6.saddr, sizeof(route.ipv6_src));
		__builtin_memcpy(route.ipv6_dst, &packet->v6.daddr, sizeof(route.ipv6_dst));
	}
	long found = bpf_fib_lookup(skb, &route, sizeof(route), 0);
	return found == BPF_FIB_LKUP_RET_NOT_FWDED || found == BPF_FIB_LKUP_RET_FWD_DISABLED;
}

/* Note the time of arrival in the packet's delivery time, the only field that the kernel keeps when it forwards. */
inlined void note(struct __sk_buff *skb)
{
	if (skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), BPF_SKB_TSTAMP_DELIVERY_MONO);
}

SEC("tc")
int label_ingress(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u8 protocol;
	const struct label_control *control = bpf_map_lookup_elem(&label_control, &zero);
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (load(skb, ETH_HLEN + offsetof(struct iphdr, protocol), &protocol, sizeof(protocol)))
			return TC_ACT_UNSPEC;
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		if (load(skb, ETH_HLEN + offsetof(struct ipv6hdr, nexthdr), &protocol, sizeof(protocol)))
			return TC_ACT_UNSPEC;
	} else {
		return TC_ACT_UNSPEC;
	}
	if (!control || protocol != control->protocol) {
		note(skb);
		return TC_ACT_UNSPEC;
	}
	const struct label_port *port = port_of(skb->ifindex);
	struct label_scratch *scratch = bpf_map_lookup_elem(&label_scratches, &zero);
	struct packet packet = {};
	if (!port || !scratch)
		return TC_ACT_UNSPEC;
	if (port->role == ROLE_HOST)
		return done(LABEL_FORGED);
	if (read_packet(skb, control, &packet) != PASS_NOT_DUE || !packet.labelled || !is_for_us(skb, &packet)) {
		note(skb);
		return TC_ACT_UNSPEC;
	}
	if (packet.items)
		report(skb, control, scratch, &packet, 0, bpf_ktime_get_ns(), 0);
	return done(restore(skb, scratch, &packet));
}

char _license[] SEC("license") = "GPL";
