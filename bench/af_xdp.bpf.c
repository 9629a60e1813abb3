/* Frames to the AF_XDP socket of their queue; dropped if it has none. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int give(struct xdp_md *frame)
{
	return bpf_redirect_map(&sockets, frame->rx_queue_index, XDP_DROP);
}

char _license[] SEC("license") = "Dual BSD/GPL";
