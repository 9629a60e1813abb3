"""Slots of a receive ring (TPACKET_V2) to frames, in place, compiled."""

from hopscope.base.kernels.jit import U64, kernel, order, order_reads, prefetch_read, store64
from hopscope.capture.pcap.pcap_kernel import le32
from hopscope.capture.ring.ring_kernel import le16

NEXT, HELD = U64(0), U64(1)
_USER, _LENGTH, _MAC, _SECONDS, _NANOSECONDS = U64(1), U64(8), U64(12), U64(16), U64(20)
_SECOND, _AHEAD = U64(1_000_000_000), U64(12)


@kernel
def walk_slots(ring, frames, state, slot, link):
    """Hand back what the last batch held, then describe frames in `frames`; returns how many.

    struct tpacket2_hdr (linux/if_packet.h).
    """
    size = U64(len(ring))
    at = state[NEXT]
    held = (at + size - state[HELD] * slot) % size
    while state[HELD]:
        order()
        store64(ring, held, U64(0))
        held = (held + slot) % size
        state[HELD] -= U64(1)
    count, most = 0, min(len(frames), int(size // slot))
    while count < most:
        if not le32(ring, at) & _USER:
            break
        order_reads()
        prefetch_read(ring, (at + slot * _AHEAD) % size, U64(0))
        frame = frames[count]
        frame.offset = at + le16(ring, at + _MAC)
        frame.time_ns = le32(ring, at + _SECONDS) * _SECOND + le32(ring, at + _NANOSECONDS)
        frame.length = le32(ring, at + _LENGTH)
        frame.wire_length = frame.length
        frame.link = link
        count += 1
        at = (at + slot) % size
    state[NEXT], state[HELD] = at, U64(count)
    return count
