"""INT-MD 2.x into packets: after a UDP packet's own header (NPT 1), or after an inserted one in front of TCP
(NPT 2).
"""

from hopscope.base.kernels.jit import U64, be16, few, kernel, load64
from hopscope.wire.encode.put_int_kernel import put_hop
from hopscope.wire.headers.checksum_kernel import ONES_16, add_up, changed, copy, folded, halves, updated
from hopscope.wire.headers.packet_kernel import ETHERNET, IPV4, IPV6, NONE, ethernet, ipv4, ipv6
from hopscope.wire.headers.put_kernel import fold, put8, put16, put32
from hopscope.wire.rewrite.covered_kernel import protocol_at
from hopscope.wire.rewrite.strip_any_kernel import LEFT
from hopscope.wire.telemetry.metadata_kernel import INT_2_0, WORDS, plan
from hopscope.wire.telemetry.variant_kernel import TCP, UDP

INSERTED, PASSED = U64(0), U64(1)
"""Results of a frame: places in `counts`."""
PORT, INSTRUCTIONS, REMAINING, HOPS = U64(0), U64(1), U64(2), U64(3)
"""Places in `setup`: UDP port of INT, bitmap, remaining hops, hops of a packet."""
SETUP = 4
SHIM_AND_HEADER = U64(16)
RESERVED = U64(0x007E)
"""Bits of the bitmap that INT 2.x does not define."""
FIRST_ENTROPY_PORT = U64(49_152)


@kernel
def put_stack(out, at, npt, original, setup, hops, first, plans, base):
    """Write shim, header and stack."""
    words, count = plans[base + U64(WORDS)], setup[HOPS]
    length = U64(3) + words * count
    put32(out, at, U64(1 << 28) | (npt << U64(26)) | (length << U64(16)) | original)
    put32(out, at + U64(4), U64(2 << 28) | (words << U64(8)) | setup[REMAINING])
    put32(out, at + U64(8), setup[INSTRUCTIONS] << U64(16))
    put32(out, at + U64(12), NONE)
    at += SHIM_AND_HEADER
    for i in range(count):
        hop = hops[first + count - U64(1) - U64(i)]
        put_hop(out, at, words << U64(2), plans, base, RESERVED, True, hop)
        at += words << U64(2)


@kernel
def insert_frame(buf, origin, end, setup, hops, first, plans, base, out, to, room):
    """Length of the packet at `out[to]` with INT; 0 if it does not fit, LEFT if it cannot carry INT."""
    why, ip, type_, _, _ = ethernet(buf, origin, end, end)
    if why or (type_ != IPV4 and type_ != IPV6):
        return LEFT
    four = type_ == IPV4
    if four:
        why, l4, protocol, _, size, part = ipv4(buf, ip, end, end, False)
        field = ip + U64(2)
    else:
        why, l4, protocol, _, size, part = ipv6(buf, ip, end, end)
        field = ip + U64(4)
    limit = ip + size
    if why or part or limit > end or (protocol != UDP and protocol != TCP):
        return LEFT
    added = SHIM_AND_HEADER + ((plans[base + U64(WORDS)] * setup[HOPS]) << U64(2))
    cut, udp_length, check = l4, NONE, NONE
    if protocol == UDP:
        cut = l4 + U64(8)
        if cut > limit:
            return LEFT
        udp_length, check = be16(buf, l4 + U64(4)), be16(buf, l4 + U64(6))
        if check and (udp_length < U64(8) or l4 + udp_length > limit):
            return LEFT
    else:
        added += U64(8)
    total = be16(buf, field)
    if total + added > ONES_16 or udp_length + added > ONES_16:
        return LEFT
    length = end - origin + added
    if length > room:
        return NONE
    shift = to - origin
    copy(out, to, buf, origin, cut)
    copy(out, cut + shift + added, buf, cut, end)
    put16(out, field + shift, total + added)
    if four:
        change = changed(changed(NONE, total, total + added), protocol, UDP)
        value = updated(be16(buf, ip + U64(10)), fold(change), False)
        put16(out, ip + shift + U64(10), value)
    at = cut + shift
    if protocol == UDP:
        dport = be16(buf, l4 + U64(2))
        put_stack(out, at, U64(1), dport, setup, hops, first, plans, base)
        put16(out, l4 + shift + U64(2), setup[PORT])
        if udp_length:
            put16(out, l4 + shift + U64(4), udp_length + added)
        if check:
            change = changed(folded(add_up(out, at, at + added)) + added, dport, setup[PORT])
            change = fold(changed(change, udp_length, udp_length + added))
            put16(out, l4 + shift + U64(6), updated(check, change, True))
        return length
    put8(out, protocol_at(buf, ip) + shift, UDP)
    entropy = halves(load64(buf, ip + U64(12))) + few(buf, l4, min(U64(4), end - l4))
    put16(out, at, FIRST_ENTROPY_PORT | (ONES_16 ^ folded(entropy)))
    put16(out, at + U64(2), setup[PORT])
    put32(out, at + U64(4), added << U64(16))
    put_stack(out, at + U64(8), U64(2), protocol, setup, hops, first, plans, base)
    return length


@kernel
def insert_frames(buf, frames, hops, setup, table, plans, out, offsets, room, lengths, counts):
    """Write each frame with INT to `out` at `offsets`, and its length to `lengths`: 0 if it takes more than
    `room` bytes, or than there are.  `counts` of frames are added to: INSERTED, PASSED.
    """
    space = U64(len(out))
    base = plan(plans, table, U64(INT_2_0), setup[INSTRUCTIONS], NONE)
    for i in range(U64(len(frames))):
        frame = frames[i]
        origin, size, to = U64(frame.offset), U64(frame.length), U64(offsets[i])
        here = min(room, space - to) if to < space else NONE
        what, length = INSERTED, LEFT
        if U64(frame.link) == ETHERNET:
            first = U64(i) * setup[HOPS]
            length = insert_frame(buf, origin, origin + size, setup, hops, first, plans, base, out, to, here)
        if length == LEFT:
            what, length = PASSED, (size if size <= here else NONE)
            copy(out, to, buf, origin, origin + length)
        lengths[i] = length
        if length or size == NONE:
            counts[what] += U64(1)
