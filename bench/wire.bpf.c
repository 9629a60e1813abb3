/* What the program of a wire is compared with, and itself on one frame again and again. */
#include "../src/hopscope/bpf/programs/wire/wire.bpf.c"

#define RESTORED 512

struct original {
	__u8 head[RESTORED]; /* of the frame as it was */
	__u32 size;          /* bytes of it that are restored */
	__u32 removed;       /* bytes that the frame lost */
};

TABLE(originals, 1, struct original);

/* A redirect, and nothing else. */
SEC("xdp")
int bare(struct xdp_md *frame)
{
	return bpf_redirect_map(&output, 0, XDP_PASS);
}

inlined int restore(struct xdp_md *frame, struct original *original)
{
	__u32 size = original->size;
	if (size < 1 || size >= RESTORED || bpf_xdp_adjust_head(frame, -(int)(original->removed & 1023)))
		return XDP_ABORTED;
	return bpf_xdp_store_bytes(frame, 0, original->head, size) ? XDP_ABORTED : XDP_REDIRECT;
}

/* Strip a frame and make it as it was. */
SEC("xdp")
int stripped(struct xdp_md *frame)
{
	__u32 zero = 0;
	int verdict = take(frame);
	struct original *original = bpf_map_lookup_elem(&originals, &zero);
	if (verdict != XDP_REDIRECT || !original)
		return verdict;
	return restore(frame, original);
}

/* What that costs without the stripping. */
SEC("xdp")
int restored(struct xdp_md *frame)
{
	__u32 zero = 0;
	struct original *original = bpf_map_lookup_elem(&originals, &zero);
	if (!original || bpf_xdp_adjust_head(frame, original->removed & 1023))
		return XDP_ABORTED;
	return restore(frame, original);
}
