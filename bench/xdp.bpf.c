/* The XDP program of Hopscope on a frame whose sequence number goes on by one at each run. */
#include "../src/hopscope/bpf/reports.bpf.c"

SEC("xdp.frags")
int numbered(struct xdp_md *frame)
{
	__u32 *number = (void *)(long)frame->data + 42; /* Report 2.0 after Ethernet, IPv4 without options and UDP */
	if ((void *)(number + 1) > (void *)(long)frame->data_end)
		return XDP_ABORTED;
	__u32 word = bpf_ntohl(*number);
	*number = bpf_htonl((word & ~0x3fffff) | ((word + 1) & 0x3fffff));
	return take(frame);
}
