"""Finds frames in blocks of a receive ring, in place, and closes gaps in a transmit ring (TPACKET_V3);
compiled.
"""

from ...base.kernels.jit import U64, inlined, kernel, load64, move, order, order_reads, prefetch_read, store64
from ..layout import VNET_BYTES, BlockAt, PacketAt, Ring, RingSetup
from ..pcap.pcap_kernel import le32

_BLOCK, _AT, _LEFT = U64(Ring.BLOCK), U64(Ring.AT), U64(Ring.LEFT)
_HELD, _DONE = U64(Ring.HELD), U64(Ring.DONE)
_OVERSIZED, _COMPLETED = U64(Ring.OVERSIZED), U64(Ring.COMPLETED)
_BLOCKS, _BLOCK_BYTES, _MOST = U64(RingSetup.BLOCKS), U64(RingSetup.BLOCK_BYTES), U64(RingSetup.MOST)
_BLOCK_STATUS, _BLOCK_PACKETS = U64(BlockAt.STATUS), U64(BlockAt.PACKETS)
_BLOCK_FIRST, _TAKEN = U64(BlockAt.FIRST), U64(BlockAt.TAKEN)
_NEXT, _SECONDS, _NANOSECONDS = U64(PacketAt.NEXT), U64(PacketAt.SECONDS), U64(PacketAt.NANOSECONDS)
_CAPTURED, _LENGTH, _STATUS = U64(PacketAt.CAPTURED), U64(PacketAt.LENGTH), U64(PacketAt.STATUS)
_FRAME, _TCI, _TPID = U64(PacketAt.FRAME), U64(PacketAt.VLAN_TCI), U64(PacketAt.VLAN_TPID)
_KIND, _END, _VNET = U64(PacketAt.KIND), U64(PacketAt.END), U64(VNET_BYTES)
_USER = U64(1)
_VLAN_VALID, _TPID_VALID = U64(0x10), U64(0x40)
_OUTGOING = U64(4)
_NEEDS_CHECKSUM = U64(1)
_UDP_OFFSET, _SCTP_OFFSET = U64(6), U64(8)
_TAG, _MAC_BYTES = U64(4), U64(12)
_FF, _FFFF, _FFFFFFFF = U64(0xFF), U64(0xFFFF), U64(0xFFFFFFFF)
_SECOND = U64(1_000_000_000)
_LINE, _AHEAD = U64(64), U64(12)
"""How many packets ahead headers are prefetched, as if those were as long as this one: frames of 200 bytes
that another processor wrote take 22 ns each, and 45 ns without; of 1500 bytes 43 and 86.
"""


@kernel
def le16(buf, at):
    """Little-endian 16 bits at index `at` (uint64), as uint64."""
    return U64(buf[at]) | (U64(buf[at + U64(1)]) << U64(8))


@kernel
def hand_back(ring, setup, state):
    """Give the blocks that were read back to the kernel, the oldest first."""
    while state[_DONE]:
        base = state[_HELD] * setup[_BLOCK_BYTES]
        store64(ring, base + _TAKEN, U64(0))
        order()
        # the number of packets stands in the same word; the kernel sets it when it closes a block
        store64(ring, base + _BLOCK_STATUS, U64(0))
        state[_HELD] = (state[_HELD] + U64(1)) % setup[_BLOCKS]
        state[_DONE] -= U64(1)


@kernel
def begin_block(ring, setup, state):
    """Begin the next block if none is; False if it is not ready, or enough are held."""
    if state[_AT]:
        return True
    base = state[_BLOCK] * setup[_BLOCK_BYTES]
    if state[_DONE] >= setup[_MOST] or not (le32(ring, base + _BLOCK_STATUS) & _USER):
        return False
    order_reads()
    store64(ring, base + _TAKEN, U64(1))
    state[_LEFT] = le32(ring, base + _BLOCK_PACKETS)
    state[_AT] = base + le32(ring, base + _BLOCK_FIRST)
    return True


@kernel
def leave_block(setup, state, at, left):
    """Continue at `at` next time; without packets left, with the next block."""
    state[_AT], state[_LEFT] = at, left
    if left == U64(0):
        state[_AT] = U64(0)
        state[_BLOCK] = (state[_BLOCK] + U64(1)) % setup[_BLOCKS]
        state[_DONE] += U64(1)


@kernel
def put_back(ring, start, tag):
    """Move a frame's MAC addresses 4 bytes ahead of `start`, and write the tag (TPID, TCI) after them."""
    for i in range(12):
        ring[start - _TAG + U64(i)] = ring[start + U64(i)]
    for i in range(4):
        ring[start - _TAG + _MAC_BYTES + U64(i)] = (tag >> U64(24 - 8 * i)) & _FF


@kernel
def complete(ring, start, length):
    """Complete an offloaded checksum; 1 if there was one.

    The virtio_net_hdr before the frame says where (csum_start, csum_offset). The field holds the sum
    of the pseudo header; sums of 16 bits may be taken of the words as they stand in memory (RFC 1071).
    """
    if not (U64(ring[start - _VNET]) & _NEEDS_CHECKSUM):
        return U64(0)
    at, offset = le16(ring, start - U64(4)), le16(ring, start - U64(2))
    if at + offset + U64(2) > length or offset == _SCTP_OFFSET:  # SCTP has a CRC, which is not checked here
        return U64(0)
    total, i, end = U64(0), start + at, start + length
    while i + U64(8) <= end:
        word = load64(ring, i)
        total += (word & _FFFFFFFF) + (word >> U64(32))
        i += U64(8)
    shift = U64(0)
    while i < end:
        total += U64(ring[i]) << shift
        shift = (shift + U64(8)) & U64(31)
        i += U64(1)
    while total >> U64(16):
        total = (total & _FFFF) + (total >> U64(16))
    total = ~total & _FFFF
    if total == U64(0) and offset == _UDP_OFFSET:  # where 0 means that there is none
        total = _FFFF
    ring[start + at + offset] = total & _FF
    ring[start + at + offset + U64(1)] = total >> U64(8)
    return U64(1)


@inlined
def packet_at(ring, at, end):
    """(bytes to the next packet, start of the frame, its bytes, whether all of it is there and in its block)
    of the packet at `at`, in a block that ends at `end`; what comes AHEAD is prefetched.
    """
    step = le32(ring, at + _NEXT)
    prefetch_read(ring, at + step * _AHEAD, U64(0))
    prefetch_read(ring, at + step * _AHEAD, _LINE)
    length, start = le32(ring, at + _CAPTURED), at + le16(ring, at + _FRAME)
    inside = start >= at + _END + _VNET and start + length <= end
    return step, start, length, inside and length == le32(ring, at + _LENGTH)


@inlined
def outgoing(ring, at):
    """Whether this machine sent the packet at `at`."""
    return U64(ring[at + _KIND]) == _OUTGOING


@inlined
def time_of(ring, at):
    """When the kernel had the packet at `at`, in ns since 1970."""
    return le32(ring, at + _SECONDS) * _SECOND + le32(ring, at + _NANOSECONDS)


@kernel
def walk(ring, frames, setup, state, link):
    """Hand back what the last batch held, then describe frames in `frames` until they are full, or enough
    blocks are held, or nothing is ready; returns how many.

    A frame that was cut, and a packet that is not inside its block, are counted as oversized.
    """
    hand_back(ring, setup, state)
    count = 0
    while count < len(frames) and begin_block(ring, setup, state):
        end = (state[_BLOCK] + U64(1)) * setup[_BLOCK_BYTES]
        at, left = state[_AT], state[_LEFT]
        while left and count < len(frames):
            if at + _END > end:
                state[_OVERSIZED] += left
                left = U64(0)
                break
            step, start, length, whole = packet_at(ring, at, end)
            if not whole:
                state[_OVERSIZED] += U64(1)
            elif not outgoing(ring, at):
                state[_COMPLETED] += complete(ring, start, length)
                status = le32(ring, at + _STATUS)
                if status & _VLAN_VALID and length >= _MAC_BYTES:
                    protocol = le16(ring, at + _TPID) if status & _TPID_VALID else U64(0x8100)
                    put_back(ring, start, protocol << U64(16) | le16(ring, at + _TCI))
                    start -= _TAG
                    length += _TAG
                frame = frames[count]
                frame.offset = start
                frame.time_ns = time_of(ring, at)
                frame.source_hi = U64(0)
                frame.source_lo = U64(0)
                frame.length = length
                frame.wire_length = length
                frame.port = 0
                frame.link = link
                count += 1
            at += step
            left -= U64(1)
        leave_block(setup, state, at, left)
    return count


@kernel
def close_gaps(ring, places, lengths):
    """Move frames and their lengths ahead over those of length 0, in order; how many are left."""
    kept = 0
    for i in range(len(lengths)):
        if lengths[i] == 0:
            continue
        if kept < i:
            move(ring, places[kept], ring, places[i], U64(lengths[i]))
            lengths[kept] = lengths[i]
        kept += 1
    return kept
