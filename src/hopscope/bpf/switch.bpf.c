/* INT at tc, on interfaces of a Linux host, router or hypervisor: `ingress` notes when a packet came, `egress` puts
 * INT-MD 2.1 into UDP packets that are watched (source), and adds this hop to those that have it (transit).
 *
 * The UDP header stays where it is and what follows it moves: a checksum that is left to a card is found by its place
 * in the buffer, which no program can change. bpf_l4_csum_replace() knows such checksums, and zero. */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>

#include "switch.h"

#define IPV6_FRAGMENT 44
#define SHIM_BYTES 4
#define MD_BYTES 12
#define HEAD_BYTES (SHIM_BYTES + MD_BYTES)
#define MAX_REST 9216   /* bytes after the place of a hop: a jumbo frame */
#define REST_ROOM 16384 /* a power of two, for the verifier */
#define MAX_HOP_WORDS 32
#define NO_VALUE 0xffffffff

/* The first word of the INT-MD header (INT 2.1, 5.8). */
#define MD_VERSION 0x20000000
#define MD_HOPS_EXCEEDED 0x04000000
#define MD_MTU_EXCEEDED 0x02000000

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_PROCESSORS);
	__type(key, __u32);
	__type(value, struct switch_counters);
} counters SEC(".maps");

/* Bytes of a frame that an interface takes, without a VLAN tag, by its index. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} longest SEC(".maps");

/* Where a processor builds what is inserted, and keeps what moves. */
struct scratch {
	__u32 words; /* of `made` that are in use */
	__u32 reserved;
	__be32 made[2 * MAX_HOP_WORDS];
	__u8 rest[REST_ROOM];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* A UDP packet whose headers have been read. */
struct packet {
	struct udphdr udp;
	__u32 l4; /* offset of the UDP header */
	__u32 version;
	__u32 source[4];
	__u32 destination[4];
	__be16 first; /* two bytes of the IP header, with the DSCP */
	__be16 length; /* of its length field */
};

/* What this hop knows of a packet. */
struct facts {
	__u64 ingress_ns;
	__u64 egress_ns;
	__u32 ingress;
	__u32 egress;
	__u32 latency;
};

inlined int done(enum switch_count what)
{
	__u32 processor = bpf_get_smp_processor_id() & (MAX_PROCESSORS - 1);
	struct switch_counters *mine = bpf_map_lookup_elem(&counters, &processor);
	if (mine)
		mine->packets[what]++;
	return what == SWITCH_FAILED ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

inlined int load(struct __sk_buff *skb, __u32 at, void *to, __u32 size)
{
	return bpf_skb_load_bytes(skb, at, to, size);
}

/* The headers of a packet; SWITCH_SOURCE if it is one that may carry INT, else why not. */
inlined enum switch_count read_packet(struct __sk_buff *skb, struct packet *packet)
{
	__u32 size;
	__be16 type;
	if (load(skb, offsetof(struct ethhdr, h_proto), &type, sizeof(type)))
		return PASS_OTHER;
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;
		if (load(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 4 || ip.protocol != IPPROTO_UDP)
			return PASS_OTHER;
		if (ip.ihl != 5)
			return PASS_OPTIONS;
		if (ip.frag_off & bpf_htons(0x3fff))
			return PASS_FRAGMENT;
		size = bpf_ntohs(ip.tot_len);
		if (size + ETH_HLEN != skb->len || size < sizeof(ip) + sizeof(struct udphdr))
			return PASS_LENGTH;
		size -= sizeof(ip);
		packet->version = 4;
		packet->l4 = ETH_HLEN + sizeof(ip);
		packet->length = ip.tot_len;
		packet->source[0] = packet->source[1] = packet->destination[0] = packet->destination[1] = 0;
		packet->source[2] = packet->destination[2] = bpf_htonl(0xffff);
		packet->source[3] = ip.saddr;
		packet->destination[3] = ip.daddr;
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;
		if (load(skb, ETH_HLEN, &ip, sizeof(ip)) || ip.version != 6)
			return PASS_OTHER;
		if (ip.nexthdr == IPV6_FRAGMENT)
			return PASS_FRAGMENT;
		if (ip.nexthdr == IPPROTO_HOPOPTS || ip.nexthdr == IPPROTO_ROUTING || ip.nexthdr == IPPROTO_DSTOPTS)
			return PASS_OPTIONS;
		if (ip.nexthdr != IPPROTO_UDP)
			return PASS_OTHER;
		size = bpf_ntohs(ip.payload_len);
		if (size + ETH_HLEN + sizeof(ip) != skb->len || size < sizeof(struct udphdr))
			return PASS_LENGTH;
		packet->version = 6;
		packet->l4 = ETH_HLEN + sizeof(ip);
		packet->length = ip.payload_len;
		__builtin_memcpy(packet->source, &ip.saddr, sizeof(packet->source));
		__builtin_memcpy(packet->destination, &ip.daddr, sizeof(packet->destination));
	} else {
		return PASS_OTHER;
	}
	if (load(skb, ETH_HLEN, &packet->first, sizeof(packet->first)) ||
	    load(skb, packet->l4, &packet->udp, sizeof(packet->udp)))
		return PASS_LENGTH;
	if (skb->gso_size)
		return PASS_GSO;
	return bpf_ntohs(packet->udp.len) == size ? SWITCH_SOURCE : PASS_LENGTH;
}

/* Six bits of the IP header's first two bytes. */
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

/* The note of `ingress`, or 0. It is taken away: a queue might read it as a time to send at. */
inlined __u64 take_note(struct __sk_buff *skb)
{
	if (!skb->ingress_ifindex || skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		return 0;
	__u64 noted = skb->tstamp;
	bpf_skb_set_tstamp(skb, 0, BPF_SKB_TSTAMP_UNSPEC);
	return noted;
}

/* Times at the switch, and the interfaces. Clocks are read for packets that change alone: one that is not watched takes
 * 93 ns instead of 136 (bench/switch.py). */
inlined void learn(struct __sk_buff *skb, const struct switch_control *settings, __u64 noted, struct facts *facts)
{
	facts->egress = skb->ifindex;
	facts->ingress = skb->ingress_ifindex;
	facts->egress_ns = bpf_ktime_get_tai_ns() + settings->epoch_ns;
	facts->latency = NO_VALUE;
	facts->ingress_ns = ~0ull;
	__u64 spent = bpf_ktime_get_ns() - noted;
	if (!noted || spent >= NO_VALUE)
		return;
	facts->latency = spent;
	facts->ingress_ns = facts->egress_ns - spent;
}

inlined void put(struct scratch *scratch, __u32 value)
{
	scratch->made[scratch->words & (2 * MAX_HOP_WORDS - 1)] = bpf_htonl(value);
	scratch->words++;
}

inlined void put_wide(struct scratch *scratch, __u64 value)
{
	put(scratch, value >> 32);
	put(scratch, value);
}

/* Words of a hop by the instruction bitmap (INT 2.1, 5.8). */
inlined __u32 words_of(__u32 instructions)
{
	__u32 words = 0;
	for (int bit = 0; bit < 16; bit++)
		words += instructions >> bit & 1;
	return words + (instructions >> 11 & 1) + (instructions >> 10 & 1) + (instructions >> 9 & 1);
}

/* This hop, as the instructions ask; what Linux does not have is all ones. */
inlined void put_hop(struct scratch *scratch, __u32 instructions, const struct switch_control *settings,
		     const struct facts *facts)
{
	if (instructions & 0x8000)
		put(scratch, settings->node_id);
	if (instructions & 0x4000) {
		__u32 in = facts->ingress && facts->ingress < 0xffff ? facts->ingress : 0xffff;
		put(scratch, in << 16 | (facts->egress < 0xffff ? facts->egress : 0xffff));
	}
	if (instructions & 0x2000)
		put(scratch, facts->latency);
	if (instructions & 0x1000)
		put(scratch, NO_VALUE);
	if (instructions & 0x0800)
		put_wide(scratch, facts->ingress_ns);
	if (instructions & 0x0400)
		put_wide(scratch, facts->egress_ns);
	if (instructions & 0x0200) {
		put(scratch, facts->ingress ? facts->ingress : NO_VALUE);
		put(scratch, facts->egress);
	}
	for (int bit = 8; bit >= 0; bit--)
		if (instructions >> bit & 1)
			put(scratch, NO_VALUE);
}

/* Insert all of `made` at an offset. */
inlined enum switch_count insert(struct __sk_buff *skb, struct scratch *scratch, __u32 at, enum switch_count what)
{
	__u32 size = scratch->words * 4 & (sizeof(scratch->made) - 1), length = skb->len;
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

/* The checksum of UDP: `changed` is by how much the sum of what it covers has grown, without lengths. */
inlined int fix_checksum(struct __sk_buff *skb, const struct packet *packet, __s64 changed, __be16 length)
{
	__u32 at = packet->l4 + offsetof(struct udphdr, check);
	if (length != packet->udp.len &&
	    (bpf_l4_csum_replace(skb, at, packet->udp.len, length, 2 | BPF_F_MARK_MANGLED_0) ||
	     bpf_l4_csum_replace(skb, at, packet->udp.len, length, 2 | BPF_F_MARK_MANGLED_0 | BPF_F_PSEUDO_HDR)))
		return -1;
	return bpf_l4_csum_replace(skb, at, 0, changed, BPF_F_MARK_MANGLED_0);
}

/* Lengths, the DSCP and checksums of the headers around INT that has grown by `size` bytes. */
inlined int fix_headers(struct __sk_buff *skb, const struct packet *packet, __u32 size, __be16 first, __s64 changed)
{
	__be16 length = bpf_htons(bpf_ntohs(packet->length) + size);
	__be16 udp_length = bpf_htons(bpf_ntohs(packet->udp.len) + size);
	__u32 length_at = ETH_HLEN + (packet->version == 4 ? offsetof(struct iphdr, tot_len)
							     : offsetof(struct ipv6hdr, payload_len));
	if (packet->version == 4) {
		__u32 at = ETH_HLEN + offsetof(struct iphdr, check);
		if (bpf_l3_csum_replace(skb, at, packet->length, length, 2) ||
		    bpf_l3_csum_replace(skb, at, packet->first, first, 2))
			return -1;
	}
	return bpf_skb_store_bytes(skb, ETH_HLEN, &first, sizeof(first), 0) ||
	       bpf_skb_store_bytes(skb, length_at, &length, sizeof(length), 0) ||
	       bpf_skb_store_bytes(skb, packet->l4 + offsetof(struct udphdr, len), &udp_length, sizeof(udp_length), 0) ||
	       fix_checksum(skb, packet, changed, udp_length);
}

inlined int within(const __u32 *address, const __u32 *prefix, const __u32 *mask)
{
	return !(((address[0] & mask[0]) ^ prefix[0]) | ((address[1] & mask[1]) ^ prefix[1]) |
		 ((address[2] & mask[2]) ^ prefix[2]) | ((address[3] & mask[3]) ^ prefix[3]));
}

inlined int is_watched(const struct switch_control *settings, const struct packet *packet)
{
	__u32 port = bpf_ntohs(packet->udp.dest);
	for (__u32 i = 0; i < MAX_WATCHES && i < settings->watches; i++) {
		const struct switch_watch *watch = &settings->watch[i];
		if (port >= watch->first_port && port <= watch->last_port &&
		    within(packet->source, watch->source, watch->source_mask) &&
		    within(packet->destination, watch->destination, watch->destination_mask))
			return 1;
	}
	return 0;
}

/* Whether a packet that grows by `size` bytes fits into the MTU of its interface, and into its length fields. */
inlined int fits(struct __sk_buff *skb, const struct packet *packet, __u32 size)
{
	__u32 index = skb->ifindex;
	const __u32 *most = bpf_map_lookup_elem(&longest, &index);
	return most && skb->len + size <= *most && bpf_ntohs(packet->length) + size <= 0xffff;
}

/* The INT source. */
inlined enum switch_count start_int(struct __sk_buff *skb, struct scratch *scratch,
				    const struct switch_control *settings, __u64 noted, const struct packet *packet)
{
	struct facts facts;
	if (!is_watched(settings, packet))
		return PASS_UNWATCHED;
	if (settings->sample > 1 && bpf_get_prandom_u32() % settings->sample)
		return PASS_UNSAMPLED;
	__u32 words = words_of(settings->instructions), size = HEAD_BYTES + words * 4;
	if (!fits(skb, packet, size))
		return PASS_LONG;
	__u32 by_port = settings->port != 0;
	__u32 original = by_port ? bpf_ntohs(packet->udp.dest) : dscp_of(packet) << 2;
	put(scratch, 0x10000000 | by_port << 26 | (MD_BYTES / 4 + words) << 16 | original);
	put(scratch, MD_VERSION | words << 8 | ((settings->hop_limit - 1) & 0xff));
	put(scratch, settings->instructions << 16);
	put(scratch, 0);
	learn(skb, settings, noted, &facts);
	put_hop(scratch, settings->instructions, settings, &facts);
	enum switch_count what = insert(skb, scratch, packet->l4 + sizeof(struct udphdr), SWITCH_SOURCE);
	if (what != SWITCH_SOURCE)
		return what;
	__be32 was = packet->udp.dest, becomes = by_port ? bpf_htons(settings->port) : packet->udp.dest;
	__s64 changed = bpf_csum_diff(&was, sizeof(was), &becomes, sizeof(becomes), 0);
	size = scratch->words * 4 & (sizeof(scratch->made) - 1);
	changed = bpf_csum_diff(0, 0, scratch->made, size, changed);
	__be16 port = becomes, first = by_port ? packet->first : with_dscp(packet, settings->dscp & 0x3f);
	if (bpf_skb_store_bytes(skb, packet->l4 + offsetof(struct udphdr, dest), &port, sizeof(port), 0) ||
	    fix_headers(skb, packet, size, first, changed))
		return SWITCH_FAILED;
	return SWITCH_SOURCE;
}

/* The INT transit. */
inlined enum switch_count extend_int(struct __sk_buff *skb, struct scratch *scratch,
				     const struct switch_control *settings, __u64 noted, const struct packet *packet)
{
	struct facts facts;
	__be32 head[4], old[2], new[2];
	__u32 at = packet->l4 + sizeof(struct udphdr), payload = bpf_ntohs(packet->udp.len) - sizeof(struct udphdr);
	if (payload < sizeof(head) || load(skb, at, head, sizeof(head)))
		return PASS_INT;
	__u32 shim = bpf_ntohl(head[0]), md = bpf_ntohl(head[1]), instructions = bpf_ntohl(head[2]) >> 16;
	__u32 length = shim >> 16 & 0xff, words = md >> 8 & 0x1f, by_port = settings->port != 0;
	if ((shim & 0xfc000000) != (0x10000000 | by_port << 26) || (md & 0xf0000000) != MD_VERSION || !instructions ||
	    words != words_of(instructions) || length < MD_BYTES / 4 || payload < SHIM_BYTES + length * 4 ||
	    (length - MD_BYTES / 4) % words)
		return PASS_INT;
	enum switch_count what = SWITCH_TRANSIT;
	__u32 size = words * 4;
	old[0] = head[0];
	old[1] = head[1];
	if (!(md & 0xff)) {
		what = SWITCH_HOP_LIMIT;
		md |= MD_HOPS_EXCEEDED;
	} else if (length + words > 0xff) {
		return PASS_FULL;
	} else if (!fits(skb, packet, size)) {
		what = SWITCH_MTU;
		md |= MD_MTU_EXCEEDED;
	} else {
		learn(skb, settings, noted, &facts);
		put_hop(scratch, instructions, settings, &facts);
		what = insert(skb, scratch, at + HEAD_BYTES, SWITCH_TRANSIT);
		if (what != SWITCH_TRANSIT)
			return what;
		md--;
		shim += words << 16;
	}
	/* what the kernel does not let change its length has a checksum elsewhere that is left to a card */
	if (what != SWITCH_TRANSIT && bpf_skb_change_tail(skb, skb->len, 0))
		return PASS_REFUSED;
	new[0] = bpf_htonl(shim);
	new[1] = bpf_htonl(md);
	__s64 changed = bpf_csum_diff(old, sizeof(old), new, sizeof(new), 0);
	if (bpf_skb_store_bytes(skb, at, new, sizeof(new), 0))
		return what == SWITCH_TRANSIT ? SWITCH_FAILED : PASS_REFUSED;
	if (what != SWITCH_TRANSIT)
		return fix_checksum(skb, packet, changed, packet->udp.len) ? SWITCH_FAILED : what;
	size = scratch->words * 4 & (sizeof(scratch->made) - 1);
	changed = bpf_csum_diff(0, 0, scratch->made, size, changed);
	return fix_headers(skb, packet, size, packet->first, changed) ? SWITCH_FAILED : SWITCH_TRANSIT;
}

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
	if (what != SWITCH_SOURCE)
		return done(what);
	scratch->words = 0;
	__u32 announced = settings->port ? packet.udp.dest == bpf_htons(settings->port) : dscp_of(&packet) == settings->dscp;
	return done(announced ? extend_int(skb, scratch, settings, noted, &packet)
			      : start_int(skb, scratch, settings, noted, &packet));
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
	if (protocol == IPPROTO_UDP && skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		bpf_skb_set_tstamp(skb, bpf_ktime_get_ns(), BPF_SKB_TSTAMP_DELIVERY_MONO);
	return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Apache-2.0";
