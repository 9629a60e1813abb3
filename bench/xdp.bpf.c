/* Runs another XDP program on a frame with the next sequence number, about another flow. It is a tail call, so the other
 * program may come from any object. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PLACE 1023 /* mask of offsets, for the verifier */

struct plan {
	__u32 number;      /* where the sequence number is, a word */
	__u32 number_mask; /* of its bits */
	__u32 flow;        /* where a word is that differs between flows */
	__u32 first_flow;
	__u32 flows;
};

const volatile struct plan plan; /* set before loading */

static __always_inline __u32 *word_at(struct xdp_md *frame, __u32 at)
{
	__u32 *word = (void *)(long)frame->data + (at & PLACE);
	return (void *)(word + 1) > (void *)(long)frame->data_end ? NULL : word;
}

static __always_inline int prepare(struct xdp_md *frame)
{
	__u32 *number = word_at(frame, plan.number), *flow = word_at(frame, plan.flow);
	if (!number || !flow)
		return 0;
	__u32 mask = plan.number_mask, word = bpf_ntohl(*number), next = (word + 1) & mask;
	*number = bpf_htonl((word & ~mask) | next);
	if (plan.flows > 1)
		*flow = bpf_htonl(plan.first_flow + (next * 2654435761u >> 8) % plan.flows);
	return 1;
}

#define DRIVE(name, section, measured)                                                                                 \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                                                 \
		__uint(max_entries, 1);                                                                                \
		__type(key, __u32);                                                                                    \
		__type(value, __u32);                                                                                  \
	} measured SEC(".maps");                                                                                       \
	SEC(section) int name(struct xdp_md *frame)                                                                    \
	{                                                                                                              \
		if (prepare(frame))                                                                                    \
			bpf_tail_call(frame, &measured, 0);                                                            \
		return XDP_ABORTED;                                                                                    \
	}

/* A program for frames in several parts can only call one that is for these, too. */
DRIVE(whole, "xdp", measured)
DRIVE(parts, "xdp.frags", measured_parts)
SEC("xdp") int nothing(struct xdp_md *frame)
{
	return XDP_DROP;
}
