// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* INT-label at tc, on interfaces of a Linux switch: `egress` writes the label of a port into a packet now and then
 * (INT-label, Algorithms 1 and 2), and takes labels off packets that go to hosts; `ingress` notes when a packet came,
 * and takes labels off packets that are for this machine.
 *
 * Room is made after the IP header by moving what is before it: what follows stays where it is in the buffer, so that
 * a checksum that is left to a card is still found. */
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

#include "label.h"
#include "label_rule.h"

#define AF_INET 2
#define AF_INET6 10
#define IPV6_FRAGMENT 44
#define IPPROTO_ICMP6 58
#define MAX_IP_OPTIONS 40
#define MAX_COUNT 255
#define ONES_16 0xffff
#define NO_PORT 0xffff
#define MOST_REMOVED 4080 /* bytes that bpf_skb_adjust_room() takes at once are less than 4096 */

/* Set before the program is loaded: times and random numbers are those of `inputs`. */
const volatile __u32 is_test = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct label_control);
} label_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_PROCESSORS);
	__type(key, __u32);
	__type(value, struct label_counters);
} label_counters SEC(".maps");

/* Row in `label_ports` of an interface, by its number. Row 0 is no port. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_LABEL_INDEX);
	__type(key, __u32);
	__type(value, __u32);
} label_rows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_LABEL_PORTS);
	__type(key, __u32);
	__type(value, struct label_port);
} label_ports SEC(".maps");

/* Two tables of probabilities, in 2^-53: one is in use, the other may be written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2 * MAX_CHANCES);
	__type(key, __u32);
	__type(value, __u64);
} label_chances SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_LABEL_FLOWS);
	__type(key, struct label_flow_key);
	__type(value, struct label_flow);
} label_flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} label_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct label_inputs);
} inputs SEC(".maps");

struct label_option {
	__u8 next_header;
	__u8 count;
} __attribute__((packed));

/* The label of a port, LABEL_STATE of wire/label/layout.py. */
struct label_item {
	__be32 node_id;
	__be16 ingress_port;
	__be16 egress_port;
	__be64 time_ns;
	__be32 latency_ns;
	__be32 occupancy;
	__u64 reserved;
} __attribute__((packed));

/* LABEL_FLOW there. */
struct label_flow_head {
	__u8 version;
	__u8 no_items;
	__u32 source[4];
	__u32 destination[4];
	__u32 ports;
} __attribute__((packed));

#define OPTION_BYTES sizeof(struct label_option)
#define ITEM_BYTES sizeof(struct label_item)
#define FLOW_BYTES sizeof(struct label_flow_head)
#define HEAD_BYTES sizeof(struct report_head)
#define BEFORE_ITEMS (HEAD_BYTES + FLOW_BYTES + OPTION_BYTES + ITEM_BYTES)

/* Where a processor builds what it inserts, and what goes to the collector: the items at a fixed place, and before
 * them as much as there is. */
struct label_scratch {
	__u8 made[128];
	__u8 block[BEFORE_ITEMS + MAX_COUNT * ITEM_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct label_scratch);
} label_scratches SEC(".maps");

/* Fields of the kernel's structures, wherever this kernel has them. */
struct gnet_stats_queue {
	__u32 backlog;
} __attribute__((preserve_access_index));

struct Qdisc {
	struct gnet_stats_queue qstats;
} __attribute__((preserve_access_index));

struct net_device {
	struct Qdisc *qdisc;
} __attribute__((preserve_access_index));

struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *context) __ksym;

/* An IP packet, and its labels. */
struct packet {
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	};
	__u32 version; /* 4 or 6 */
	__u32 payload; /* offset of what follows the IP header */
	__u32 limit;   /* end of the IP packet */
	__u32 options; /* bytes of IPv4's */
	__u8 next;     /* the packet's own protocol */
	__u8 number;   /* INT_num */
	__u8 items;
	__u8 labelled;
	__u8 tracked;
};

inlined int done(enum label_count what)
{
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	struct label_counters *mine = bpf_map_lookup_elem(&label_counters, &processor);
	if (mine)
		mine->packets[what]++;
	return what == LABEL_FAILED || what == LABEL_FORGED ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

inlined int load(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return bpf_skb_load_bytes(skb, at, to, size);
}

inlined struct label_port *port_of(__u32 index)
{
	const __u32 *row = bpf_map_lookup_elem(&label_rows, &index);
	if (!row || !*row)
		return 0;
	struct label_port *port = bpf_map_lookup_elem(&label_ports, row);
	return port && port->role != ROLE_NONE ? port : 0;
}

inlined const struct label_inputs *given(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&inputs, &zero);
}

/* The labels of a packet whose IP header announces them; whether they can be read. */
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

/* The headers of a packet; PASS_NOT_DUE if it can be labelled, else why not. Labels are read where `labelled`. */
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

/* Why a packet without labels must not get one here; PASS_NOT_DUE: it may. A fragment could not be put together
 * with others by a router that tracks connections. */
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

/* What this switch knows of a packet. */
struct facts {
	__u64 now; /* CLOCK_MONOTONIC, as Reg1 */
	__u64 random;
	__u32 waited;
	__u32 queued;
};

/* When `ingress` saw the packet, or 0. */
inlined __u64 noted_in(struct __sk_buff *skb)
{
	return skb->ingress_ifindex && skb->tstamp_type == BPF_SKB_TSTAMP_DELIVERY_MONO ? skb->tstamp : 0;
}

/* Take the note away, since a queue might read it as a time to send at; the program of INT does so with TCP and UDP. */
inlined void clear_note(struct __sk_buff *skb, const struct packet *packet)
{
	__u8 protocol = packet->version == 4 ? packet->v4.protocol : packet->v6.nexthdr;
	if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
		bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
}

/* Bytes in the queue of the interface, as its root qdisc counts them. */
inlined __u32 queued_at(struct __sk_buff *skb)
{
	struct sk_buff *kernel = bpf_cast_to_kern_ctx(skb);
	return kernel->dev->qdisc->qstats.backlog;
}

inlined void put_item(struct __sk_buff *skb, const struct label_control *control, __u64 now, __u64 noted,
		      struct label_item *item)
{
	__u32 in = skb->ingress_ifindex, out = skb->ifindex;
	__u64 time = is_test ? now : bpf_ktime_get_tai_ns() + control->epoch_ns;
	__u64 waited = noted && noted < now ? now - noted : 0;
	__u32 queued = queued_at(skb);
	if (is_test && given())
		queued = given()->queued;
	item->node_id = bpf_htonl(control->node_id);
	item->ingress_port = bpf_htons(in && in < NO_PORT ? in : NO_PORT);
	item->egress_port = bpf_htons(out < NO_PORT ? out : NO_PORT);
	item->time_ns = bpf_cpu_to_be64(time);
	item->latency_ns = bpf_htonl(waited < 0xffffffff ? waited : 0xffffffff);
	item->occupancy = bpf_htonl(queued);
	item->reserved = 0;
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

/* Whether all switches must label this packet (INT-label, 3.3); asked at its first one. */
inlined int is_tracked(const struct packet *packet)
{
	struct label_flow_key key;
	addresses_of(packet, key.source, key.destination);
	struct label_flow *flow = bpf_map_lookup_elem(&label_flows, &key);
	if (!flow || !flow->every)
		return 0;
	__u32 seen = __sync_fetch_and_add(&flow->seen, 1) + 1;
	if (seen < flow->every)
		return 0;
	flow->seen = 0;
	return 1;
}

/* The IP header's length and protocol, where they have changed. IPv4's checksum follows by the difference (RFC 1624),
 * so that a wrong one stays wrong. */
inlined int amend(struct __sk_buff *skb, struct packet *packet, __s32 grown, __u8 protocol)
{
	if (packet->version == 6) {
		packet->v6.payload_len = bpf_htons(bpf_ntohs(packet->v6.payload_len) + grown);
		packet->v6.nexthdr = protocol;
		return bpf_skb_store_bytes(skb, ETH_HLEN, &packet->v6, 8, 0);
	}
	__u32 before = bpf_ntohs(packet->v4.tot_len), after = before + grown;
	__u32 sum = bpf_ntohs(packet->v4.check) + before + packet->v4.protocol + 2 * ONES_16 - after - protocol;
	packet->v4.tot_len = bpf_htons(after);
	packet->v4.protocol = protocol;
	packet->v4.check = bpf_htons(sum % ONES_16);
	return bpf_skb_store_bytes(skb, ETH_HLEN, &packet->v4, 12, 0);
}

/* Write this port's label into a packet that has room for it. */
inlined enum label_count write_label(struct __sk_buff *skb, const struct label_control *control,
				     struct label_scratch *scratch, struct packet *packet, __u64 now, __u64 noted)
{
	__u32 options = packet->options & 63, base = packet->payload - options;
	__u32 grown = ITEM_BYTES + (packet->labelled ? 0 : OPTION_BYTES);
	struct label_option *option = (void *)scratch->made + options;
	if (options > MAX_IP_OPTIONS || (options && load(skb, base, scratch->made, options)))
		return PASS_REFUSED;
	option->next_header = packet->next;
	option->count = packet->number + 1;
	put_item(skb, control, now, noted, (void *)(option + 1));
	if (bpf_skb_adjust_room(skb, grown, BPF_ADJ_ROOM_NET, 0))
		return PASS_REFUSED;
	if (bpf_skb_store_bytes(skb, base, scratch->made, options + OPTION_BYTES + ITEM_BYTES, 0) ||
	    amend(skb, packet, grown, control->protocol))
		return LABEL_FAILED;
	return LABEL_WRITTEN;
}

/* Take all labels off. */
inlined enum label_count restore(struct __sk_buff *skb, struct label_scratch *scratch, struct packet *packet)
{
	__u32 options = packet->options & 63, base = packet->payload - options;
	__u32 removed = OPTION_BYTES + packet->items * ITEM_BYTES;
	__u32 first = removed > MOST_REMOVED ? MOST_REMOVED : removed;
	if (options > MAX_IP_OPTIONS || (options && load(skb, base, scratch->made, options)))
		return PASS_REFUSED;
	if (bpf_skb_adjust_room(skb, -(__s32)first, BPF_ADJ_ROOM_NET, 0))
		return PASS_REFUSED;
	if (removed > first && bpf_skb_adjust_room(skb, -(__s32)(removed - first), BPF_ADJ_ROOM_NET, 0))
		return LABEL_FAILED;
	if ((options && bpf_skb_store_bytes(skb, base, scratch->made, options, 0)) ||
	    amend(skb, packet, -(__s32)removed, packet->next))
		return LABEL_FAILED;
	return LABEL_RESTORED;
}

/* Ports of the packet, as a last hop reports them: 0 without ports, and of fragments. */
inlined __u32 ports_of(struct __sk_buff *skb, const struct packet *packet)
{
	__u32 ports, at = packet->payload + (packet->labelled ? OPTION_BYTES + packet->items * ITEM_BYTES : 0);
	if ((packet->next != IPPROTO_TCP && packet->next != IPPROTO_UDP) || at + sizeof(ports) > packet->limit ||
	    (packet->version == 4 && packet->v4.frag_off & bpf_htons(0x3fff)) || load(skb, at, &ports, sizeof(ports)))
		return 0;
	return ports;
}

/* Send a packet's labels to the collector's process, as a block of a datagram: its flow if it is tracked, and this
 * port's own label if it `wants` one, before the others. */
inlined void report(struct __sk_buff *skb, const struct label_control *control, struct label_scratch *scratch,
		    const struct packet *packet, int wants, __u64 now, __u64 noted)
{
	__u32 start = BEFORE_ITEMS, labels = packet->items + wants, size = packet->items * ITEM_BYTES;
	if (packet->labelled && load(skb, packet->payload, scratch->block + BEFORE_ITEMS - OPTION_BYTES, OPTION_BYTES + size))
		return;
	if (wants) {
		start -= ITEM_BYTES;
		put_item(skb, control, now, noted, (void *)scratch->block + start);
	}
	start -= OPTION_BYTES;
	struct label_option *option = (void *)scratch->block + start;
	option->next_header = packet->next;
	option->count = packet->number + wants;
	if (packet->tracked) {
		start -= FLOW_BYTES;
		struct label_flow_head *flow = (void *)scratch->block + start;
		__u32 source[4], destination[4];
		addresses_of(packet, source, destination);
		flow->version = 1;
		flow->no_items = 0;
		__builtin_memcpy(flow->source, source, sizeof(source));
		__builtin_memcpy(flow->destination, destination, sizeof(destination));
		flow->ports = ports_of(skb, packet);
	}
	start -= HEAD_BYTES;
	struct report_head head = {
		.time_ns = now, .length = BEFORE_ITEMS - HEAD_BYTES - start + size, .source = NOWHERE,
	};
	__builtin_memcpy(scratch->block + start, &head, sizeof(head));
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	struct label_counters *mine = bpf_map_lookup_elem(&label_counters, &processor);
	long lost = bpf_ringbuf_output(&label_ring, scratch->block + start, BEFORE_ITEMS - start + size, 0);
	if (mine)
		mine->packets[lost ? LABEL_UNREPORTED : LABEL_REPORTED] += labels;
}

/* A sum of 16-bit numbers as a checksum has it. */
inlined __u16 folded(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & ONES_16) + (sum >> 16);
	sum = (sum & ONES_16) + (sum >> 16);
	return (sum & ONES_16) + (sum >> 16);
}

/* Whether the checksum of TCP or UDP is only the sum of the pseudo header: its sender leaves the rest to a card. A
 * whole one may have this value, too. */
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

/* Whether nothing is in the way of a label that is due; else why not. */
inlined enum label_count room_for(struct __sk_buff *skb, const struct label_control *control,
				  const struct label_port *port, const struct packet *packet)
{
	__u32 full = packet->tracked ? MAX_COUNT - control->max_hop : control->max_hop;
	__u32 grown = ITEM_BYTES + (packet->labelled ? 0 : OPTION_BYTES);
	if (packet->items >= full)
		return PASS_FULL;
	if (packet->version == 4 && packet->v4.check == ONES_16)
		return PASS_CHECKSUM; /* could not be restored */
	if (port->role == ROLE_HOST)
		return LABEL_WRITTEN;
	if (skb->len + grown > port->longest || packet->limit - ETH_HLEN + grown > ONES_16)
		return PASS_LONG;
	return port->partial || !left_to_a_card(skb, packet) ? LABEL_WRITTEN : PASS_CHECKSUM;
}

/* Whether a packet without labels came from a host and belongs to a flow that all switches label. */
inlined int begins_tracked(struct __sk_buff *skb, const struct label_control *control, const struct packet *packet)
{
	if (!control->tracked)
		return 0;
	if (skb->ingress_ifindex) {
		const struct label_port *ingress = port_of(skb->ingress_ifindex);
		if (!ingress || ingress->role != ROLE_HOST)
			return 0;
	}
	return is_tracked(packet);
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
	enum label_verdict verdict = wants_label(&label_chances, control, port, packet->number, now, last, test);
	if (verdict != NO_LABEL)
		what = room_for(skb, control, port, packet);
	int wants = what == LABEL_WRITTEN;
	/* of two processors that find the label due at once, one writes it */
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

/* Whether a packet that comes in is for this machine. */
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

/* A packet's delivery time is the one field of a packet that the kernel keeps as it forwards it. */
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
