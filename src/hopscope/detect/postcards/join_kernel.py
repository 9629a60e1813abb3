"""Kernels that join postcards: held by packet, put in order, emitted as one path.

Packets are in a ring in the order of their first postcards. Their numbers only grow, from HEAD (the oldest
that is remembered) over DUE (the oldest that may still wait) to TAIL; a packet's position is its number
modulo the length of the ring. An index with rows of eight ways finds a packet. Postcards are in a pool;
those of a packet are linked from the newest to the oldest.

===================== ==========================================================================
`reports`             REPORT [n] with their HOPs in `batch_hops`; `taken` uint8 [n]: HELD_BACK or TOO_LATE
`packets`, `packet`   PACKET [power of two], and one of them
`index`               uint64 [rows * WAYS]: number of a packet + 1
`ring`, `clock`       uint64 [RING], int64 [2]: cursors, and the time with its window, see below
`keys`                uint64 [KEYS]: keys of the hash of a packet
`cards`, `hops`       REPORT and HOP [cards]: a postcard, and its node's metadata
`links`, `free`       uint32 [cards]: the postcard that arrived before; unused places
`periods`, `numbers`  uint64 [cards]: wrap of the ingress time, number of the packet in the capture
`longest`             LONGEST_PATH [power of two], rows of eight ways by hash of the flow
`work`, `topology`    see `order_kernel`
`rows`, `row_hops`    REPORT and HOP [n]: joined paths
`row_numbers`         uint64 [n]: as `numbers`, of their last postcards; `hop_numbers`: for each hop
`tally`               uint64 [TALLY]: counts of this call
===================== ==========================================================================
"""

from ...base.kernels.jit import I64, U8, U16, U32, U64, inlined, kernel, mix64
from ...wire.records import Carried, Flag, Have
from ..evidence.datagram_kernel import NOT_HELD
from ..flows.event_kernel import FLOW_CARRIED, NO_NODE, NO_PORT, hash_flow, pack_l4
from ..flows.path_kernel import NODE_ID, node_of
from ..flows.slow_path_kernel import MX, NODE_CARRIED, OWN_HOP, own_node
from .order_kernel import HOST_TO_HOST, NO_TTL, PLAUSIBLE, PORTS, TTL_MISSING, put_in_order

DROPPED = U64(Flag.DROPPED)
CONGESTED = U64(Flag.CONGESTED)
TRACKED = U64(Flag.TRACKED)
JOINED = U64(Flag.JOINED)
PARTIAL = U64(Flag.INCOMPLETE)
PROCESSED = U64(Flag.JOINED | Flag.INCOMPLETE | Flag.HELD)
OF_THE_PACKET = U64(Carried.FLOW | Carried.PORTS)
INGRESS_TIME = U64(Have.INGRESS_TIME)

WAYS = U64(8)
MAX_CARDS = U64(64)
NONE = U32(0xFFFFFFFF)
ELSEWHERE = U64(NOT_HELD)
"""Number of a postcard that another member of the cluster received."""
HELD_BACK, TOO_LATE = U8(1), U8(2)
WAITING = U8(1)
EMITTED = U8(2)

# Slots of `ring`.
HEAD = U64(0)
DUE = U64(1)
TAIL = U64(2)
FREE = U64(3)
"""Unused postcards of the pool: `free[:FREE]` are their places."""
RING = 4

# Slots of `clock`, int64 ns.
NOW = U64(0)
WINDOW = U64(1)
CLOCK_BACK_NS = I64(1_000_000_000)
"""A clock that goes back by more was set: waiting paths are emitted, and emitted ones are forgotten."""
FORGET_NS = I64(10_000_000_000)
"""Age at which the longest path of a flow is forgotten."""

# Slots of `tally`; the last two are the numbers of rows and hops written.
POSTCARDS = U64(0)
IN_PATHS = U64(1)
COMPLETE = U64(2)
INCOMPLETE = U64(3)
EVICTED = U64(4)
LATE = U64(5)
DUPLICATES = U64(6)
ROWS = U64(7)
HOPS = U64(8)
TALLY = 9


@kernel
def is_longest(longest, packet, first, last, flat, keys):
    """Whether a path is not part of a longer recent path of its flow; such a path is remembered."""
    hashed = hash_flow(packet.src_hi, packet.src_lo, packet.dst_hi, packet.dst_lo, packet.l4, keys)
    n = U64(packet.count)
    at = (hashed & (U64(len(longest)) // WAYS - U64(1))) * WAYS
    oldest = at
    for w in range(WAYS):
        if longest[at + U64(w)].hash == hashed:
            oldest = at + U64(w)
            break
        if longest[at + U64(w)].last_ns < longest[oldest].last_ns:
            oldest = at + U64(w)
    row = longest[oldest]
    if row.hash == hashed and packet.opened_ns - row.last_ns < FORGET_NS and n < U64(row.count):
        if flat or U64(row.first) != first or U64(row.end) != last:
            return False
    row.hash = hashed
    row.last_ns = packet.opened_ns
    row.first = U32(first)
    row.end = U32(last)
    row.count = U8(n)
    return True


@kernel
def emit_joined(
    packet, evicted, cards, hops, links, free, periods, numbers, longest, work, topology, ring, clock, keys,
    rows, row_hops, row_numbers, hop_numbers, tally,
):  # fmt: skip
    """Write the path of a packet, and free its postcards."""
    packet.state = EMITTED
    n = U64(packet.count)
    if n == U64(0):  # only its drop was reported
        return
    gaps, chained = put_in_order(packet, cards, hops, links, periods, work, topology)
    order_ = work[0]
    first = order_[U64(0)]
    last = order_[n - U64(1)]
    whole = packet.dropped == 0 and not evicted
    if whole and chained != HOST_TO_HOST:
        plausible = chained == PLAUSIBLE if len(topology[0]) else gaps != TTL_MISSING
        whole = (
            n > U64(1)
            and plausible
            and is_longest(
                longest, packet, own_node(cards, first, hops), own_node(cards, last, hops), gaps == NO_TTL,
                keys,
            )
        )  # fmt: skip
    tally[COMPLETE if whole else INCOMPLETE] += U64(1)
    tally[EVICTED] += U64(evicted)

    row = rows[tally[ROWS]]
    at = tally[HOPS]
    rows[tally[ROWS]] = cards[packet.last]
    row_numbers[tally[ROWS]] = numbers[packet.last]
    row.first_hop = U32(at)
    row.own_at = U32(0)  # its frame is gone
    row.int_at = U32(0)
    if n == U64(1) and not whole:
        row.flags |= U8(PARTIAL)
        row_hops[at] = hops[first]
        hop_numbers[at] = numbers[first]
    else:
        tally[IN_PATHS] += n
        flags = JOINED if whole else JOINED | PARTIAL
        for k in range(n):
            card = order_[U64(k)]
            flags |= U64(cards[card].flags) & (TRACKED | CONGESTED)
            row.time_ns = max(row.time_ns, cards[card].time_ns)
            row.ttl = max(row.ttl, cards[card].ttl)
            node = own_node(cards, card, hops)
            row_hops[at + U64(k)] = hops[card]
            hop_numbers[at + U64(k)] = numbers[card]
            hop = row_hops[at + U64(k)]
            if node != NO_NODE:
                hop.node_id = U32(node)
                hop.present |= U16(NODE_ID)
                hop.null &= ~U16(NODE_ID)
        row.flags = U8(flags)
        row.hop_count = U16(n)
        row.carried &= U8(OF_THE_PACKET)
        row.ingress_time = U64(0)
        row.node_id = U32(0)
        row.queue_id = U8(0)
        row.drop_reason = U8(0)
    tally[ROWS] += U64(1)
    tally[HOPS] += n
    for k in range(n):
        free[ring[FREE]] = order_[U64(k)]
        ring[FREE] += U64(1)
    packet.count = U16(0)
    packet.last = NONE


@inlined
def is_postcard(r):
    """Whether a report is of one node about an identifiable packet."""
    flags = U64(r.flags)
    carried = U64(r.carried)
    return (
        (r.reason == 0)
        & (r.version != 0)
        & (r.packet_id != 0)
        & (carried & FLOW_CARRIED != U64(0))
        & (
            ((r.hop_count == 0) & (carried & OWN_HOP != U64(0)))
            | ((r.hop_count == 1) & (U64(r.int_mode) == MX))  # the node's metadata follows the MX header
        )
        & (flags & PROCESSED == U64(0))
        & ((flags & TRACKED != U64(0)) | (flags & CONGESTED == U64(0)))  # else it is about the queue
    )


@inlined
def is_packet(packet, r, l4):
    """Whether a postcard is about this packet."""
    return (
        (packet.packet_id == r.packet_id)
        & (packet.src_lo == r.src_lo)
        & (packet.dst_lo == r.dst_lo)
        & (packet.l4 == l4)
        & (packet.src_hi == r.src_hi)
        & (packet.dst_hi == r.dst_hi)
    )


@inlined
def came_in_by(hop):
    """Ingress port of a hop, or NO_PORT."""
    return U64(hop.ingress_port) if U64(hop.present & ~hop.null) & PORTS else NO_PORT


@inlined
def is_new(packet, hops, links, cards, node, ttl, port):
    """Whether the packet has no postcard of this node with this TTL and this ingress port. Ingress ports are
    compared if both postcards have one. In a loop, TTL or port differ.
    """
    at = packet.last
    for _ in range(packet.count):
        other = came_in_by(hops[at])
        same = (port == other) | (port == NO_PORT) | (other == NO_PORT)
        if same and node != NO_NODE and own_node(cards, at, hops) == node and cards[at].ttl == ttl:
            return False
        at = links[at]
    return True


@kernel
def join_kernel(
    reports, batch_hops, first_packet, narrow, wide, taken, until, packets, index, ring, clock, keys, cards,
    hops, links, free, periods, numbers, longest, work, topology, rows, row_hops, row_numbers, hop_numbers,
    tally,
):  # fmt: skip
    """Process reports, mark those that are held back or late, then advance the clock to `until`, ns.

    Paths that are due are written to `rows`, `row_hops` and `row_numbers`. `narrow` and `wide`: time after
    which ingress times of 32 and 64 bits wrap, ns; 0: they are not comparable.
    """
    mask = U64(len(packets)) - U64(1)
    total = U64(len(reports))
    for k in range(total + U64(1)):
        i = U64(k)
        if i < total and not is_postcard(reports[i]):
            continue
        now = reports[i].time_ns if i < total else until
        back = i < total and clock[NOW] - now > CLOCK_BACK_NS
        if now > clock[NOW] or back:
            clock[NOW] = now
        while ring[DUE] < ring[TAIL]:
            packet = packets[ring[DUE] & mask]
            if packet.state == WAITING:
                if not back and clock[NOW] - packet.opened_ns < clock[WINDOW]:
                    break
                emit_joined(
                    packet, False, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
                )  # fmt: skip
            ring[DUE] += U64(1)
        if back:
            ring[HEAD] = ring[TAIL]  # paths emitted by the previous clock are forgotten
        if i == total:
            break
        r = reports[i]
        tally[POSTCARDS] += U64(1)
        while ring[FREE] == U64(0):
            packet = packets[ring[DUE] & mask]
            if packet.state == WAITING:
                emit_joined(
                    packet, True, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
                )  # fmt: skip
            ring[DUE] += U64(1)

        l4 = pack_l4(r.sport, r.dport, r.proto, r.ip_version)
        hashed = mix64(
            hash_flow(r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, l4, keys)
            ^ (U64(r.packet_id) * U64(0x9E3779B97F4A7C15))
        )
        row = (hashed & (U64(len(index)) // WAYS - U64(1))) * WAYS
        way = row
        oldest = U64(0xFFFFFFFFFFFFFFFF)
        at = mask + U64(1)
        for w in range(WAYS):
            number = index[row + U64(w)]
            if number <= ring[HEAD]:  # the index stores number + 1; 0: none
                if oldest:
                    way, oldest = row + U64(w), U64(0)
                continue
            packet = packets[(number - U64(1)) & mask]
            past = packet.state == EMITTED and clock[NOW] - packet.opened_ns >= I64(2) * clock[WINDOW]
            if past:
                if oldest:
                    way, oldest = row + U64(w), U64(0)
            elif is_packet(packet, r, l4):
                at = (number - U64(1)) & mask
                break
            elif number < oldest:
                way, oldest = row + U64(w), number
        if at > mask:
            if oldest:
                packet = packets[(oldest - U64(1)) & mask]
                if packet.state == WAITING:
                    emit_joined(
                        packet, True, cards, hops, links, free, periods, numbers, longest, work, topology,
                        ring, clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
                    )  # fmt: skip
            if ring[TAIL] - ring[HEAD] == mask + U64(1):
                packet = packets[ring[HEAD] & mask]
                if packet.state == WAITING:
                    emit_joined(
                        packet, True, cards, hops, links, free, periods, numbers, longest, work, topology,
                        ring, clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
                    )  # fmt: skip
                ring[HEAD] += U64(1)
                ring[DUE] = max(ring[DUE], ring[HEAD])
            at = ring[TAIL] & mask
            ring[TAIL] += U64(1)
            index[way] = ring[TAIL]
            packet = packets[at]
            packet.src_hi = r.src_hi
            packet.src_lo = r.src_lo
            packet.dst_hi = r.dst_hi
            packet.dst_lo = r.dst_lo
            packet.l4 = l4
            packet.packet_id = r.packet_id
            packet.opened_ns = clock[NOW]
            packet.last = NONE
            packet.count = U16(0)
            packet.state = WAITING
            packet.dropped = U8(0)
        packet = packets[at]
        if packet.state == WAITING and U64(packet.count) == MAX_CARDS:
            emit_joined(
                packet, True, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
            )  # fmt: skip
        if U64(r.flags) & DROPPED != U64(0):
            packet.dropped = U8(1)
            continue
        if packet.state == EMITTED:
            tally[LATE] += U64(1)
            taken[i] = TOO_LATE
            continue
        taken[i] = HELD_BACK
        node = node_of(
            batch_hops, U64(r.first_hop), U64(r.node_id) if U64(r.carried) & NODE_CARRIED else NO_NODE
        )
        if not is_new(packet, hops, links, cards, node, r.ttl, came_in_by(batch_hops[U64(r.first_hop)])):
            tally[DUPLICATES] += U64(1)
            continue
        ring[FREE] -= U64(1)
        card = free[ring[FREE]]
        cards[card] = reports[i]
        cards[card].first_hop = U32(card)
        cards[card].hop_count = U16(0)
        cards[card].carried |= U8(OWN_HOP)
        hops[card] = batch_hops[U64(r.first_hop)]
        numbers[card] = ELSEWHERE if r.spare else U64(first_packet) + U64(r.packet)
        period = U64(0)
        if U64(hops[card].present & ~hops[card].null) & INGRESS_TIME:
            period = U64(wide) if r.version == 20 else U64(narrow)
        periods[card] = period
        links[card] = packet.last
        packet.last = card
        packet.count += U16(1)
        if len(topology[0]) and packet.dropped == 0:
            _, whole = put_in_order(packet, cards, hops, links, periods, work, topology)
            if whole == HOST_TO_HOST:
                emit_joined(
                    packet, False, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, keys, rows, row_hops, row_numbers, hop_numbers, tally,
                )  # fmt: skip
