"""Kernels that join postcards: held by packet, put in order, given out as one path.

Packets stand in a ring in the order of their first postcards, from HEAD (the oldest remembered) over DUE (the
oldest that may still wait) to TAIL, by numbers that only grow; a packet's place is its number modulo the
ring's length. An index of rows of eight ways finds them. Postcards lie in a pool, linked by packet, the last
that came first.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import I64, U8, U16, U32, U64, inlined, kernel, mix64
from ...wire.records import Carried, Flag, Have
from ..flows.event_kernel import FLOW_CARRIED, NOBODY, hash_flow, pack_l4
from ..flows.path_kernel import NODE_ID, node_of
from ..flows.slow_path_kernel import MX, NODE_CARRIED, OWN_HOP, own_node

DROPPED = U64(Flag.DROPPED)
CONGESTED = U64(Flag.CONGESTED)
TRACKED = U64(Flag.TRACKED)
JOINED = U64(Flag.JOINED)
PARTIAL = U64(Flag.INCOMPLETE)
SETTLED = U64(Flag.JOINED | Flag.INCOMPLETE | Flag.HELD)
OF_THE_PACKET = U64(Carried.FLOW | Carried.PORTS)
PORTS = U64(Have.PORTS)
INGRESS_TIME = U64(Have.INGRESS_TIME)

WAYS = U64(8)
MOST = U64(64)
NONE = U32(0xFFFFFFFF)
WAITING = U8(1)
GIVEN = U8(2)

# Slots of `ring`.
HEAD = U64(0)
DUE = U64(1)
TAIL = U64(2)
FREE = U64(3)
"""Postcards that the pool has room for: `free[:FREE]` are their places."""
RING = 4

# Slots of `clock`, int64 ns.
NOW = U64(0)
WINDOW = U64(1)
PUT_BACK = I64(1_000_000_000)
"""A clock that falls by more was put back: what waits is given out, and what was given out is forgotten."""
FORGET = I64(10_000_000_000)
"""Age at which the longest path of a flow is forgotten."""

# Slots of `tally`, in the order of `postcards._TALLIED`; then what the last call wrote.
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

NO_WRAP = U64(0xFFFFFFFFFFFFFFFF)
"""Period of a clock of 64 bits."""

# What a hop's egress port leads to, in `ends`.
UNKNOWN = U64(0)
HOST = U64(1)
LINK = U64(2)


@inlined
def find_number(keys: Any, key: Any) -> Any:
    """Index of `key` in sorted keys, or their length."""
    low = U64(0)
    high = U64(len(keys))
    while low < high:
        middle = (low + high) >> U64(1)
        if keys[middle] < key:
            low = middle + U64(1)
        else:
            high = middle
    return low if low < U64(len(keys)) and keys[low] == key else U64(len(keys))


@inlined
def comes_before(cards: Any, steps: Any, a: Any, b: Any, by_ttl: Any, by_step: Any) -> Any:
    """Whether postcard a is of an earlier hop than b, which came before it."""
    if by_ttl and cards[a].ttl != cards[b].ttl:
        return cards[a].ttl > cards[b].ttl
    return by_step and steps[a] < steps[b]


@kernel
def sort_cards(packet: Any, cards: Any, hops: Any, links: Any, periods: Any, steps: Any, order_: Any) -> Any:
    """Places of a packet's postcards by falling TTL, then by time, in `order_`. Returns whether TTLs tell
    hops apart: 0 no, 1 yes, 2 yes, and one is missing.
    """
    n = U64(packet.count)
    at = packet.last
    by_ttl = True
    by_step = True
    for k in range(n):
        order_[n - U64(1) - U64(k)] = at
        by_ttl &= cards[at].ttl != 0
        by_step &= (periods[at] != U64(0)) & (periods[at] == periods[packet.last])
        at = links[at]
    if by_step:  # times since that of the postcard that came first, modulo the wrap of the clock
        period = periods[order_[U64(0)]]
        start = U64(hops[order_[U64(0)]].ingress_time)
        for k in range(n):
            at = order_[U64(k)]
            time = U64(hops[at].ingress_time)
            if period == NO_WRAP:
                steps[at] = I64(time - start)
            else:
                ahead = (time % period + period - start % period) % period
                steps[at] = I64(ahead) if ahead <= period >> U64(1) else -I64(period - ahead)
    for k in range(U64(1), n):
        card = order_[U64(k)]
        j = U64(k)
        while j > U64(0) and comes_before(cards, steps, card, order_[j - U64(1)], by_ttl, by_step):
            order_[j] = order_[j - U64(1)]
            j -= U64(1)
        order_[j] = card
    if not by_ttl or cards[order_[U64(0)]].ttl == cards[order_[n - U64(1)]].ttl:
        return U64(0)
    for k in range(U64(1), n):
        if U64(cards[order_[U64(k) - U64(1)]].ttl) > U64(cards[order_[U64(k)]].ttl) + U64(1):
            return U64(2)
    return U64(1)


@inlined
def follows(a: Any, b: Any, nodes: Any, nexts: Any, ends: Any, pairs: Any) -> Any:
    """Whether the topology leads from hop a to hop b."""
    if ends[a] == LINK:
        return nexts[a] == nodes[b]
    return ends[a] == UNKNOWN and find_number(pairs, nodes[a] << U64(32) | nodes[b]) < U64(len(pairs))


@kernel
def chain(
    n: Any, cards: Any, hops: Any, order_: Any, chained: Any,
    nodes: Any, nexts: Any, ends: Any, after: Any, link_keys: Any, link_nodes: Any, pairs: Any,
) -> Any:  # fmt: skip
    """Put the postcards in `order_` into the order of the topology.

    Returns 0 where hops are missing, 1 where none seems to be, 2 where the path leads from host to host.
    """
    for k in range(n):
        at = order_[U64(k)]
        nodes[U64(k)] = own_node(cards, at, hops)
        ends[U64(k)] = UNKNOWN
        if U64(hops[at].present & ~hops[at].null) & PORTS:
            link = find_number(link_keys, nodes[U64(k)] << U64(16) | U64(hops[at].egress_port))
            ends[U64(k)] = HOST
            if link < U64(len(link_keys)):
                ends[U64(k)] = LINK
                nexts[U64(k)] = U64(link_nodes[link])
        after[U64(k)] = U64(0)  # 1 + place of the next hop; + 256 where another leads here; + 512 once taken
    for k in range(n):
        for j in range(U64(1), n):
            b = (U64(k) + U64(j)) % n
            if after[b] < U64(256) and follows(U64(k), b, nodes, nexts, ends, pairs):
                after[b] += U64(256)
                after[U64(k)] += b + U64(1)
                break
    written = U64(0)
    parts = U64(0)
    for turn in range(2):  # first from where nothing leads to, then what goes round
        for k in range(n):
            at = U64(k)
            if after[at] & U64(512) or (turn == 0 and after[at] >= U64(256)):
                continue
            parts += U64(1)
            while not after[at] & U64(512):
                after[at] |= U64(512)
                chained[written] = at
                written += U64(1)
                if after[at] & U64(255) == U64(0):
                    break
                at = (after[at] & U64(255)) - U64(1)
    first = chained[U64(0)]
    end = ends[chained[n - U64(1)]]
    for k in range(n):
        chained[U64(k)] = order_[chained[U64(k)]]
    for k in range(n):
        order_[U64(k)] = chained[U64(k)]
    if parts != U64(1) or end == LINK or nodes[first] == NOBODY:
        return U64(0)
    hop = hops[order_[U64(0)]]
    if not U64(hop.present & ~hop.null) & PORTS:
        return U64(1)
    if find_number(link_keys, nodes[first] << U64(16) | U64(hop.ingress_port)) < U64(len(link_keys)):
        return U64(0)
    return U64(2) if end == HOST else U64(1)


@kernel
def put_in_order(
    packet: Any, cards: Any, hops: Any, links: Any, periods: Any, work: Any, topology: Any
) -> Any:
    """A packet's postcards in path order, in the first row of `work`. Returns (as `sort_cards`, `chain`)."""
    order_, chained, nodes, nexts, ends, after, steps = work
    gaps = sort_cards(packet, cards, hops, links, periods, steps, order_)
    whole = U64(0)
    if len(topology[0]):
        whole = chain(
            U64(packet.count), cards, hops, order_, chained, nodes, nexts, ends, after,
            topology[0], topology[1], topology[2],
        )  # fmt: skip
    return gaps, whole


@kernel
def is_longest(longest: Any, packet: Any, first: Any, last: Any, flat: Any) -> Any:
    """Whether a path is no part of a longer one that its flow had of late; remembers it then."""
    hashed = hash_flow(packet.src_hi, packet.src_lo, packet.dst_hi, packet.dst_lo, packet.l4)
    n = U64(packet.count)
    row = longest[hashed & (U64(len(longest)) - U64(1))]
    if row.hash == hashed and packet.opened_ns - row.last_ns < FORGET and n < U64(row.count):
        if flat or U64(row.first) != first or U64(row.end) != last:
            return False
    row.hash = hashed
    row.last_ns = packet.opened_ns
    row.first = U32(first)
    row.end = U32(last)
    row.count = U8(n)
    return True


@kernel
def give_out(
    packet: Any, evicted: Any, cards: Any, hops: Any, links: Any, free: Any, periods: Any, numbers: Any,
    longest: Any, work: Any, topology: Any, ring: Any, clock: Any,
    rows: Any, row_hops: Any, row_numbers: Any, tally: Any,
) -> Any:  # fmt: skip
    """Write the path of a packet, and give its postcards' places back."""
    packet.state = GIVEN
    n = U64(packet.count)
    if n == U64(0):  # only a drop was seen
        return
    gaps, chained = put_in_order(packet, cards, hops, links, periods, work, topology)
    order_ = work[0]
    first = order_[U64(0)]
    last = order_[n - U64(1)]
    whole = packet.cut == 0 and not evicted
    if whole and chained != U64(2):
        seems = chained == U64(1) if len(topology[0]) else gaps != U64(2)
        whole = (
            n > U64(1)
            and seems
            and is_longest(
                longest, packet, own_node(cards, first, hops), own_node(cards, last, hops), gaps == U64(0)
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
            hop = row_hops[at + U64(k)]
            if node != NOBODY:
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
def is_postcard(r: Any) -> Any:
    """Whether a report says what one node did with a packet that can be told from others."""
    flags = U64(r.flags)
    carried = U64(r.carried)
    return (
        (r.reason == 0)
        & (r.version != 0)
        & (r.packet_id != 0)
        & (carried & FLOW_CARRIED != U64(0))
        & (
            ((r.hop_count == 0) & (carried & OWN_HOP != U64(0)))
            | ((r.hop_count == 1) & (U64(r.int_mode) == MX))  # the record is behind the MX header
        )
        & (flags & SETTLED == U64(0))
        & ((flags & TRACKED != U64(0)) | (flags & CONGESTED == U64(0)))  # a queue's report is of the queue
    )


@inlined
def is_packet(packet: Any, r: Any, l4: Any) -> Any:
    """Whether a postcard is of this packet."""
    return (
        (packet.packet_id == r.packet_id)
        & (packet.src_lo == r.src_lo)
        & (packet.dst_lo == r.dst_lo)
        & (packet.l4 == l4)
        & (packet.src_hi == r.src_hi)
        & (packet.dst_hi == r.dst_hi)
    )


@inlined
def is_new(packet: Any, hops: Any, links: Any, cards: Any, node: Any, ttl: Any) -> Any:
    """Whether no postcard of the packet is of this node and this TTL: a loop has another TTL each time."""
    at = packet.last
    for _ in range(packet.count):
        if node != NOBODY and own_node(cards, at, hops) == node and cards[at].ttl == ttl:
            return False
        at = links[at]
    return True


@kernel
def join_kernel(
    reports: Any, batch_hops: Any, first_packet: Any, narrow: Any, wide: Any, taken: Any, until: Any,
    packets: Any, index: Any, ring: Any, clock: Any,
    cards: Any, hops: Any, links: Any, free: Any, periods: Any, numbers: Any,
    longest: Any, work: Any, topology: Any, rows: Any, row_hops: Any, row_numbers: Any, tally: Any,
) -> Any:  # fmt: skip
    """Take reports, mark in `taken` which are held back, then look at the clock at `until`; paths that are
    due go to `rows`, `row_hops` and `row_numbers` (the packet of the frame that each came in).

    `narrow` and `wide`: ns after which ingress times of 32 and of 64 bits wrap; 0: they are not comparable.
    """
    mask = U64(len(packets)) - U64(1)
    total = U64(len(reports))
    for k in range(total + U64(1)):
        i = U64(k)
        if i < total and not is_postcard(reports[i]):
            continue
        now = reports[i].time_ns if i < total else until
        back = i < total and clock[NOW] - now > PUT_BACK
        if now > clock[NOW] or back:
            clock[NOW] = now
        while ring[DUE] < ring[TAIL]:
            packet = packets[ring[DUE] & mask]
            if packet.state == WAITING:
                if not back and clock[NOW] - packet.opened_ns < clock[WINDOW]:
                    break
                give_out(
                    packet, False, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, rows, row_hops, row_numbers, tally,
                )  # fmt: skip
            ring[DUE] += U64(1)
        if back:
            ring[HEAD] = ring[TAIL]  # what was given out by the other clock is forgotten
        if i == total:
            break
        r = reports[i]
        dropped = U64(r.flags) & DROPPED != U64(0)
        tally[POSTCARDS] += U64(1)
        while ring[FREE] == U64(0):
            packet = packets[ring[DUE] & mask]
            if packet.state == WAITING:
                give_out(
                    packet, True, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, rows, row_hops, row_numbers, tally,
                )  # fmt: skip
            ring[DUE] += U64(1)

        l4 = pack_l4(r.sport, r.dport, r.proto, r.ip_version)
        hashed = mix64(
            hash_flow(r.src_hi, r.src_lo, r.dst_hi, r.dst_lo, l4)
            ^ (U64(r.packet_id) * U64(0x9E3779B97F4A7C15))
        )
        row = (hashed & (U64(len(index)) // WAYS - U64(1))) * WAYS
        way = row
        oldest = U64(0xFFFFFFFFFFFFFFFF)
        at = mask + U64(1)
        for w in range(WAYS):
            number = index[row + U64(w)]
            if number <= ring[HEAD]:  # numbers in the index are 1 more; 0 is none
                if oldest:
                    way, oldest = row + U64(w), U64(0)
                continue
            packet = packets[(number - U64(1)) & mask]
            past = packet.state == GIVEN and clock[NOW] - packet.opened_ns >= I64(2) * clock[WINDOW]
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
                    give_out(
                        packet, True, cards, hops, links, free, periods, numbers, longest, work, topology,
                        ring, clock, rows, row_hops, row_numbers, tally,
                    )  # fmt: skip
            if ring[TAIL] - ring[HEAD] == mask + U64(1):
                packet = packets[ring[HEAD] & mask]
                if packet.state == WAITING:
                    give_out(
                        packet, True, cards, hops, links, free, periods, numbers, longest, work, topology,
                        ring, clock, rows, row_hops, row_numbers, tally,
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
            packet.cut = U8(0)
        packet = packets[at]
        if packet.state == WAITING and U64(packet.count) == MOST:
            give_out(
                packet, True, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                clock, rows, row_hops, row_numbers, tally,
            )  # fmt: skip
        if dropped:
            packet.cut = U8(1)
            continue
        if packet.state == GIVEN:
            tally[LATE] += U64(1)
            continue
        taken[i] = U8(1)
        node = node_of(
            batch_hops, U64(r.first_hop), U64(r.node_id) if U64(r.carried) & NODE_CARRIED else NOBODY
        )
        if not is_new(packet, hops, links, cards, node, r.ttl):
            tally[DUPLICATES] += U64(1)
            continue
        ring[FREE] -= U64(1)
        card = free[ring[FREE]]
        cards[card] = reports[i]
        cards[card].first_hop = U32(card)
        cards[card].hop_count = U16(0)
        cards[card].carried |= U8(OWN_HOP)
        hops[card] = batch_hops[U64(r.first_hop)]
        numbers[card] = U64(first_packet) + U64(r.packet)
        period = U64(0)
        if U64(hops[card].present & ~hops[card].null) & INGRESS_TIME:
            period = U64(wide) if r.version == 20 else U64(narrow)
        periods[card] = period
        links[card] = packet.last
        packet.last = card
        packet.count += U16(1)
        if len(topology[0]) and packet.cut == 0:
            _, whole = put_in_order(packet, cards, hops, links, periods, work, topology)
            if whole == U64(2):
                give_out(
                    packet, False, cards, hops, links, free, periods, numbers, longest, work, topology, ring,
                    clock, rows, row_hops, row_numbers, tally,
                )  # fmt: skip
