// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Copies of a part of a frame. */
#pragma once

#include "shared.h"

#define PART 64 /* bytes */
#define PARTS 8
#define HALF (PART / 2)

/* `size` is a constant. */
inlined void copy_words(__u64 *to, const __u64 *from, int size)
{
	for (int i = 0; i < size / 8; i++)
		to[i] = from[i];
}

/* Copy `length` bytes at `first` by words; 0 if they are few or many, or not fully in the linear part. It takes 12 ns
 * less than the helper for 156 bytes. */
inlined int copied(struct xdp_md *frame, __u32 first, __u32 length, void *to)
{
	void *from = (void *)(long)frame->data + (first & 0x3fff), *frame_end = (void *)(long)frame->data_end;
	if (length < PART || length > PART * PARTS)
		return 0;
	for (__u32 at = 0; at < PART * PARTS; at += PART) {
		KNOWN(at);
		if (at + PART > length) { /* the remainder is in the last part, some of which is copied again */
			at = length - PART;
			void *last = (void *)(long)frame->data + ((first + at) & 0x3fff);
			if (at >= PART * PARTS || last + PART > frame_end)
				return 0;
			copy_words(to + at, last, PART);
			return 1;
		}
		if (from + PART > frame_end)
			return 0;
		copy_words(to + at, from, PART);
		from += PART;
	}
	return 1;
}
