"""The software switch's frames: labelled, or at the last hop restored, into the transmit slots of one egress
port. Offsets are indices into arrays, all numbers uint64 unless said otherwise.

`route_kernel` has checked what is read here.
"""

from __future__ import annotations

from typing import Any

from ..fabric.labelling.label_kernel import wants_label
from ..fabric.labelling.records import EVERY
from ..jit import I64, U64, be16, inlined, kernel, mix64
from ..wire.checksum_kernel import ONES_16, copy
from ..wire.label_kernel import (
    COUNT,
    ITEM,
    NEXT,
    ONE,
    OPTION,
    PAPER,
    SIX,
    STATE_DEVICE,
    STATE_EGRESS,
    STATE_INGRESS,
    STATE_LATENCY,
    STATE_OCCUPANCY,
    STATE_TIME,
    ZERO,
    find_ip,
    labels_at,
)
from ..wire.layout import IPV4
from ..wire.packet_kernel import SIZE_IPV4, byte, ethernet, get, word
from ..wire.put_kernel import put8, put16, put32, put64
from .records import PortCounter, SwitchAt
from .route_kernel import FROM_HOST, GOLDEN, INGRESS, MAX_HOP, PROTOCOL, addresses_of

SENT, SENT_BYTES, LABELS = int(PortCounter.SENT), int(PortCounter.SENT_BYTES), int(PortCounter.LABELS)
LABEL_BYTES, RESTORED = int(PortCounter.LABEL_BYTES), int(PortCounter.RESTORED)
EXPORTED, TOO_LONG = int(PortCounter.EXPORTED), int(PortCounter.TOO_LONG)
FRAGMENTED, LOST, NO_ROOM = int(PortCounter.FRAGMENTED), int(PortCounter.LOST), int(PortCounter.NO_ROOM)
CHANCE, REST, FRAGMENT = int(SwitchAt.CHANCE), int(SwitchAt.REST), int(SwitchAt.FRAGMENT)
SEED, DRAWN = int(SwitchAt.SEED), int(SwitchAt.DRAWN)
EGRESS, TO_HOST, NOW = int(SwitchAt.EGRESS), int(SwitchAt.TO_HOST), int(SwitchAt.NOW)
QUEUED, MTU, ROOM = int(SwitchAt.QUEUED), int(SwitchAt.MTU), int(SwitchAt.ROOM)
DATAGRAM, UNSENT = int(SwitchAt.DATAGRAM), int(PortCounter.UNSENT)
DATAGRAM_BYTES, DATAGRAM_MOST = U64(8192), U64(1472)
"""Room for a datagram, which the longest block fits into; a next one is begun where it would grow beyond."""
IPV4_TOTAL, IPV4_FLAGS = byte(IPV4, "total_length"), U64(6)
IPV4_TTL, IPV4_CHECK = byte(IPV4, "ttl"), byte(IPV4, "checksum")
IPV6_PAYLOAD, IPV6_NEXT_AT = U64(4), U64(6)
IPV4_WHOLE = word(IPV4, "dont_fragment")
MORE_BIT = U64(0x2000)
ONES_32, MOST_COUNT = U64(0xFFFFFFFF), U64(255)
TWO_53 = 9007199254740992.0


@inlined
def replace16(out: Any, ip: Any, place: Any, value: Any) -> None:
    """Write 16 bits of an IPv4 header; its checksum follows by the difference (RFC 1624)."""
    old, check = be16(out, ip + place), be16(out, ip + IPV4_CHECK)
    put16(out, ip + place, value)
    put16(out, ip + IPV4_CHECK, (check + old + (ONES_16 - value)) % ONES_16)


@inlined
def amend(out: Any, ip: Any, version: Any, protocol: Any, length: Any) -> None:
    """Write what an IP header carries, and the bytes of its packet."""
    if version == SIX:
        put16(out, ip + IPV6_PAYLOAD, length - U64(40))
        put8(out, ip + IPV6_NEXT_AT, protocol)
        return
    replace16(out, ip, IPV4_TOTAL, length)
    replace16(out, ip, IPV4_TTL, (U64(out[ip + IPV4_TTL]) << U64(8)) | protocol)


@inlined
def put_item(out: Any, to: Any, node: Any, ingress: Any, egress: Any, received: Any, at: Any) -> None:
    """Write the port's own item (LABEL_STATE)."""
    waited = at[NOW] - received if received < at[NOW] else ZERO
    put32(out, to + STATE_DEVICE, node)
    put16(out, to + STATE_INGRESS, ingress)
    put16(out, to + STATE_EGRESS, egress)
    put64(out, to + STATE_TIME, at[NOW])
    put32(out, to + STATE_LATENCY, min(waited, ONES_32))
    put32(out, to + STATE_OCCUPANCY, min(at[QUEUED], ONES_32))
    put64(out, to + ITEM - U64(8), ZERO)


@inlined
def drawn(at: Any) -> Any:
    """A random number, 64 bits."""
    at[DRAWN] += ONE
    return mix64(at[SEED] + at[DRAWN] * GOLDEN)


@inlined
def is_followed(buf: Any, ip: Any, version: Any, followed: Any) -> Any:
    """Whether this packet, the first switch's, is one that all switches shall label."""
    if len(followed) == 0:
        return False
    a, b, c, d = addresses_of(buf, ip, version)
    for i in range(len(followed)):
        row = followed[i]
        if row.source_high == a and row.source_low == b and row.high == c and row.low == d:
            row.seen += 1
            if row.seen >= row.every:
                row.seen = 0
                return True
    return False


@kernel
def export_block(
    buf: Any, behind: Any, next_: Any, number: Any, carried: Any, wants: Any, node: Any, ingress: Any,
    egress: Any, received: Any, at: Any, exports: Any, lengths: Any,
) -> Any:  # fmt: skip
    """Append a packet's labels, its last switch's own in front where it `wants` one; the counter of what
    became of them.
    """
    total = carried + U64(wants)
    size, index = OPTION + total * ITEM, at[DATAGRAM]
    if U64(lengths[index]) > ZERO and U64(lengths[index]) + size > DATAGRAM_MOST:
        index += ONE
    if index >= U64(len(lengths)) or U64(lengths[index]) + size > DATAGRAM_BYTES:
        return UNSENT
    at[DATAGRAM] = index
    to = index * DATAGRAM_BYTES + U64(lengths[index])
    lengths[index] = U64(lengths[index]) + size
    put8(exports, to + NEXT, next_)
    put8(exports, to + COUNT, number + U64(wants))
    to += OPTION
    if wants:
        put_item(exports, to, node, ingress, egress, received, at)
        to += ITEM
    if carried:
        copy(exports, to, buf, behind + OPTION, behind + OPTION + carried * ITEM)
    return EXPORTED


@inlined
def is_lost(loss: Any, at: Any) -> Any:
    """Whether the link behind the port loses this frame."""
    return loss != ZERO and drawn(at) >> U64(32) < loss


@kernel
def forward_frames(
    buf: Any, frames: Any, rows: Any, at: Any, interval: Any, last: Any, shift: Any, flag: Any, loss: Any,
    nodes: Any, numbers: Any, counters: Any, followed: Any, out: Any, slots: Any, lengths: Any,
    exports: Any, export_lengths: Any,
) -> Any:  # fmt: skip
    """Write the frames for egress port `at[EGRESS]` into its slots, in order; how many slots are filled.

    A frame that is lost behind the port has been labelled.  Labels that a last hop takes off, and its own,
    are appended to `exports`.
    """
    port, ingress = at[EGRESS], at[INGRESS]
    node, out_number, in_number = U64(nodes[port]), U64(numbers[port]), U64(numbers[ingress])
    protocol, max_hop, mtu, room = at[PROTOCOL], at[MAX_HOP], at[MTU], at[ROOM]
    every = I64(EVERY) if flag[port] else min(I64(shift[port]), I64(40))
    now, rest, chance = I64(at[NOW]), I64(at[REST]), I64(at[CHANCE])
    used, free = ZERO, U64(len(slots))
    for i in range(len(frames)):
        if U64(rows[i]) != port:
            continue
        frame = frames[i]
        origin, size, received = U64(frame.offset), U64(frame.length), U64(frame.time_ns)
        end = origin + size
        _, ip, type_, _, _ = ethernet(buf, origin, end, end)
        version, carried, behind, limit = find_ip(buf, ip, end, type_)
        labelled = carried == protocol
        number, items, tracked, option = ZERO, ZERO, ZERO, ZERO
        next_ = carried
        if labelled:
            next_, number, option = U64(buf[behind + NEXT]), U64(buf[behind + COUNT]), OPTION
            _, items, tracked = labels_at(buf, behind, limit, end, PAPER, max_hop)
        left = size - option - items * ITEM if at[TO_HOST] else size
        if used >= free or left > room or slots[used] + room > U64(len(out)):
            counters[port, NO_ROOM] += ONE
            continue
        if number == ZERO and at[FROM_HOST] and is_followed(buf, ip, version, followed):
            number, tracked = max_hop, ONE
        random = float(drawn(at) >> U64(11)) / TWO_53
        wants = wants_label(
            I64(number), now, last[port], interval[0], every, rest, chance, I64(max_hop), random, None
        )
        full = MOST_COUNT - max_hop if tracked else max_hop
        if items >= full or (version != SIX and be16(buf, ip + IPV4_CHECK) == ONES_16):
            wants = False
        whole = limit - ip
        head = behind - origin
        if at[TO_HOST]:
            if items or wants:
                what = export_block(
                    buf, behind, next_, number, items, wants, node, in_number, out_number, received, at,
                    exports, export_lengths,
                )  # fmt: skip
                counters[port, what] += items + U64(wants)
            if wants:
                last[port] = now
                counters[port, LABELS] += ONE
            if labelled:
                counters[port, RESTORED] += ONE
            if is_lost(U64(loss[port]), at):
                counters[port, LOST] += ONE
                continue
            to, gone = slots[used], option + items * ITEM
            copy(out, to, buf, origin, behind)
            copy(out, to + head, buf, behind + gone, end)
            if labelled:
                amend(out, to + ip - origin, version, next_, whole - gone)
            lengths[used] = size - gone
            used += ONE
            counters[port, SENT] += ONE
            counters[port, SENT_BYTES] += size - gone
            at[QUEUED] += size - gone
            continue
        longer = OPTION - option + ITEM
        most = SIZE_IPV4 + (mtu - min(mtu, SIZE_IPV4 + OPTION + max_hop * ITEM)) // U64(8) * U64(8)
        cut: Any = False
        if wants and whole + longer > mtu:
            cut = (
                at[FRAGMENT] != ZERO and not labelled and version != SIX and behind - ip == SIZE_IPV4
                and get(buf, ip, IPV4_WHOLE) == ZERO and most >= SIZE_IPV4 + U64(8) and whole > most
                and used + ONE < free and slots[used + ONE] + room <= U64(len(out))
            )  # fmt: skip
            if not cut:
                counters[port, TOO_LONG] += ONE
                wants = False
        if wants and size + longer > room:
            counters[port, TOO_LONG] += ONE
            wants = False
            cut = False
        if not wants:
            copied, added = end, ZERO
        else:
            copied, added = (ip + most if cut else end), longer
            last[port] = now
            counters[port, LABELS] += ONE
        if is_lost(U64(loss[port]), at):
            counters[port, LOST] += ONE
        else:
            to = slots[used]
            own_ip = to + ip - origin
            copy(out, to, buf, origin, behind)
            if wants:
                put8(out, to + head + NEXT, next_)
                put8(out, to + head + COUNT, number + ONE)
                put_item(out, to + head + OPTION, node, in_number, out_number, received, at)
                copy(out, to + head + OPTION + ITEM, buf, behind + option, copied)
                if cut:
                    replace16(out, own_ip, IPV4_FLAGS, be16(out, own_ip + IPV4_FLAGS) | MORE_BIT)
                amend(out, own_ip, version, protocol, (most if cut else whole) + added)
            else:
                copy(out, to + head, buf, behind, end)
            length = copied - origin + added
            lengths[used] = length
            used += ONE
            counters[port, SENT] += ONE
            counters[port, SENT_BYTES] += length
            counters[port, LABEL_BYTES] += option + items * ITEM + added
            at[QUEUED] += length
        if cut:
            counters[port, FRAGMENTED] += ONE
            if is_lost(U64(loss[port]), at):
                counters[port, LOST] += ONE
                continue
            to = slots[used]
            own_ip = to + ip - origin
            part = be16(buf, ip + IPV4_FLAGS) + ((most - SIZE_IPV4) >> U64(3))
            copy(out, to, buf, origin, behind)
            copy(out, to + head, buf, ip + most, limit)
            replace16(out, own_ip, IPV4_FLAGS, part)
            replace16(out, own_ip, IPV4_TOTAL, whole - most + SIZE_IPV4)
            length = head + limit - ip - most
            lengths[used] = length
            used += ONE
            counters[port, SENT] += ONE
            counters[port, SENT_BYTES] += length
            at[QUEUED] += length
    return used
