"""Forwarding of the software switch: frames are labelled, or restored at the last hop, into the transmit
slots of one egress port.

Offsets are array indices; all numbers are uint64 unless noted. `route_kernel` has validated the headers.
"""

from ..base.kernels.jit import I64, U64, be16, inlined, kernel, mix64
from ..labels.records import EVERY, PortCounter
from ..labels.rule_kernel import wants_label
from ..wire.headers.checksum_kernel import ONES_16, copy
from ..wire.headers.packet_kernel import ethernet
from ..wire.headers.put_kernel import put8, put32, put64
from ..wire.label import label_kernel as label
from . import slot_kernel as slot
from .records import SwitchAt
from .route_kernel import FROM_HOST, GOLDEN, INGRESS, MAX_HOP, PROTOCOL, addresses_of, ports_of

SENT, SENT_BYTES, LABELS = int(PortCounter.SENT), int(PortCounter.SENT_BYTES), int(PortCounter.LABELS)
LABEL_BYTES, RESTORED = int(PortCounter.LABEL_BYTES), int(PortCounter.RESTORED)
EXPORTED, TOO_LONG = int(PortCounter.EXPORTED), int(PortCounter.TOO_LONG)
FRAGMENTED, LOST, NO_ROOM = int(PortCounter.FRAGMENTED), int(PortCounter.LOST), int(PortCounter.NO_ROOM)
CHANCE, REST = int(SwitchAt.CHANCE), int(SwitchAt.REST)
SEED, DRAWN = int(SwitchAt.SEED), int(SwitchAt.DRAWN)
EGRESS, TO_HOST = int(SwitchAt.EGRESS), int(SwitchAt.TO_HOST)
DATAGRAM, UNSENT = int(SwitchAt.DATAGRAM), int(PortCounter.UNSENT)
DATAGRAM_BYTES, MAX_DATAGRAM = U64(8192), U64(1472)
"""Room for a datagram, enough for the longest block; the length at which the next datagram begins."""
MAX_COUNT = U64(255)
TWO_53 = 9007199254740992.0


@inlined
def drawn(at):
    """A random number, 64 bits."""
    at[DRAWN] += label.ONE
    return mix64(at[SEED] + at[DRAWN] * GOLDEN)


@inlined
def is_tracked(buf, ip, version, tracked):
    """Whether all switches must label this packet; asked at its first switch."""
    if len(tracked) == 0:
        return False
    a, b, c, d = addresses_of(buf, ip, version)
    for i in range(len(tracked)):
        row = tracked[i]
        if row.every and row.source_high == a and row.source_low == b and row.high == c and row.low == d:
            row.seen += 1
            if row.seen >= row.every:
                row.seen = 0
                return True
    return False


@inlined
def put_flow(out, to, buf, ip, version, next_, inside, limit):
    """Write the flow of a packet (LABEL_FLOW) whose payload begins at `inside`."""
    a, b, c, d = addresses_of(buf, ip, version)
    put8(out, to + label.NEXT, label.FLOW_VERSION)
    put8(out, to + label.COUNT, label.ZERO)
    put64(out, to + label.FLOW_SOURCE, a)
    put64(out, to + label.FLOW_SOURCE + label.EIGHT, b)
    put64(out, to + label.FLOW_DESTINATION, c)
    put64(out, to + label.FLOW_DESTINATION + label.EIGHT, d)
    put32(out, to + label.FLOW_PORTS, ports_of(buf, ip, version, next_, inside, limit))


@kernel
def export_block(
    buf, ip, version, payload, limit, option, next_, number, carried, tracked, wants, node, ingress, egress,
    received, at, exports, lengths,
):  # fmt: skip
    """Append a packet's labels to the export: its flow if tracked, the last switch's own label if it `wants`
    one, then the others. Returns the counter of the result.
    """
    total = carried + U64(wants)
    size, index = label.OPTION + total * label.ITEM + tracked * label.FLOW, at[DATAGRAM]
    if U64(lengths[index]) > label.ZERO and U64(lengths[index]) + size > MAX_DATAGRAM:
        index += label.ONE
    if index >= U64(len(lengths)) or U64(lengths[index]) + size > DATAGRAM_BYTES:
        return UNSENT
    at[DATAGRAM] = index
    to = index * DATAGRAM_BYTES + U64(lengths[index])
    lengths[index] = U64(lengths[index]) + size
    if tracked:
        put_flow(exports, to, buf, ip, version, next_, payload + option + carried * label.ITEM, limit)
        to += label.FLOW
    put8(exports, to + label.NEXT, next_)
    put8(exports, to + label.COUNT, number + U64(wants))
    to += label.OPTION
    if wants:
        slot.put_item(exports, to, node, ingress, egress, received, at)
        to += label.ITEM
    if carried:
        copy(exports, to, buf, payload + label.OPTION, payload + label.OPTION + carried * label.ITEM)
    return EXPORTED


@inlined
def is_lost(loss, at):
    """Whether the port's link loses this frame."""
    return loss != label.ZERO and drawn(at) >> U64(32) < loss


@inlined
def filled(lengths, used, length, counters, at):
    """Record a filled slot of the egress port."""
    lengths[used] = length
    counters[at[EGRESS], SENT] += label.ONE
    counters[at[EGRESS], SENT_BYTES] += length
    at[slot.QUEUED] += length


@kernel
def forward_frames(
    buf, frames, rows, at, interval, last, shift, flag, loss, nodes, numbers, counters, tracked_flows, table,
    out, slots, lengths, exports, export_lengths,
):  # fmt: skip
    """Write the frames for egress port `at[EGRESS]` into its slots, in order; returns the number of filled
    slots.

    Frames lost on the link are labelled first. A last hop appends the labels that it removes, and its own, to
    `exports`.
    """
    port, ingress = at[EGRESS], at[INGRESS]
    node, out_number, in_number = U64(nodes[port]), U64(numbers[port]), U64(numbers[ingress])
    protocol, max_hop, room, to_host = at[PROTOCOL], at[MAX_HOP], at[slot.ROOM], at[TO_HOST] != label.ZERO
    every = I64(EVERY) if flag[port] else min(I64(shift[port]), I64(40))
    now, rest, chance = I64(at[slot.NOW]), I64(at[REST]), I64(at[CHANCE])
    used, free = label.ZERO, U64(len(slots))
    for i in range(len(frames)):
        if U64(rows[i]) != port:
            continue
        frame = frames[i]
        origin, size, received = U64(frame.offset), U64(frame.length), U64(frame.time_ns)
        end = origin + size
        _, ip, type_, _, _ = ethernet(buf, origin, end, end)
        version, carried, payload, limit = label.find_ip(buf, ip, end, type_)
        labelled = carried == protocol
        number, items, tracked, option = label.ZERO, label.ZERO, label.ZERO, label.ZERO
        next_ = carried
        if labelled:
            next_, number, option = (
                U64(buf[payload + label.NEXT]),
                U64(buf[payload + label.COUNT]),
                label.OPTION,
            )
            _, items, tracked = label.labels_at(buf, payload, limit, end, label.PAPER, max_hop)
        carries, ip_bytes = option + items * label.ITEM, limit - ip
        left = size - carries if to_host else size
        if used >= free or left > room or slots[used] + room > U64(len(out)):
            counters[port, NO_ROOM] += label.ONE
            continue
        if number == label.ZERO and at[FROM_HOST] and is_tracked(buf, ip, version, tracked_flows):
            number, tracked = max_hop, label.ONE
        random = float(drawn(at) >> U64(11)) / TWO_53
        wants = wants_label(
            I64(number),
            now,
            last[port],
            interval[0],
            every,
            rest,
            chance,
            I64(max_hop),
            random,
            table,
            None,
        )
        full = MAX_COUNT - max_hop if tracked else max_hop
        if items >= full or (version != label.SIX and be16(buf, ip + slot.IPV4_CHECK) == ONES_16):
            wants = False
        kept_bytes, added_bytes = ip_bytes, label.ZERO
        if to_host:
            if items or wants:
                what = export_block(
                    buf, ip, version, payload, limit, option, next_, number, items, tracked, wants, node,
                    in_number, out_number, received, at, exports, export_lengths,
                )  # fmt: skip
                counters[port, what] += items + U64(wants)
            counters[port, RESTORED] += U64(labelled)
        elif wants:
            added_bytes = label.OPTION - option + label.ITEM
            spare = used + label.ONE < free and slots[used + label.ONE] + room <= U64(len(out))
            kept_bytes = slot.fit(
                buf, origin, ip, version, payload, ip_bytes, size, added_bytes, labelled, spare, at
            )
            if kept_bytes == label.ZERO:
                counters[port, TOO_LONG] += label.ONE
                kept_bytes, added_bytes, wants = ip_bytes, label.ZERO, False
        if wants:
            last[port] = now
            counters[port, LABELS] += label.ONE
        if is_lost(U64(loss[port]), at):
            counters[port, LOST] += label.ONE
        else:
            to, length = slots[used], size
            if to_host and labelled:
                length = slot.restore_into(
                    out, to, buf, origin, ip, version, payload, end, carries, next_, ip_bytes
                )  # fmt: skip
            elif wants and not to_host:
                length = slot.label_into(
                    out, to, buf, origin, ip, version, payload, end, option, next_, number + label.ONE,
                    ip_bytes, kept_bytes, node, in_number, out_number, received, at,
                )  # fmt: skip
            else:
                copy(out, to, buf, origin, end)
            if not to_host:
                counters[port, LABEL_BYTES] += carries + added_bytes
            filled(lengths, used, length, counters, at)
            used += label.ONE
        if kept_bytes == ip_bytes:
            continue
        counters[port, FRAGMENTED] += label.ONE
        if is_lost(U64(loss[port]), at):
            counters[port, LOST] += label.ONE
            continue
        length = slot.second_fragment(out, slots[used], buf, origin, ip, payload, ip_bytes, kept_bytes)
        filled(lengths, used, length, counters, at)
        used += label.ONE
    return used
