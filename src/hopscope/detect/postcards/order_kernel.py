"""Kernels that put the postcards of one packet into path order: by topology, TTL, time or arrival.

===================== ==========================================================================
`packet`              a record of PACKET: `last` is its newest postcard, `count` their number
`cards`, `hops`       REPORT and HOP [cards]: a postcard, and its node's metadata
`links`               uint32 [cards]: the postcard that arrived before
`periods`             uint64 [cards]: ns after which the postcard's ingress time wraps; 0: unusable
`steps`               int64 [cards]: ns since the ingress time of the first postcard
`order_`, `chained`   uint64 [MAX_CARDS]: postcards in path order; the same while they are chained
`nodes`, `nexts`      uint64 [MAX_CARDS], by position: node, and the node that its egress port leads to
`ends`, `after`       uint64 [MAX_CARDS]: kind of that link (UNKNOWN, HOST, LINK), position of the next hop
`topology`            (link_keys, link_nodes, pairs), see `links.topology`
`work`                (order_, chained, nodes, nexts, ends, after, steps)
===================== ==========================================================================
"""

from ...base.kernels.jit import I64, U64, inlined, kernel
from ...wire.records import Have
from ..flows.event_kernel import NO_NODE
from ..flows.slow_path_kernel import own_node

PORTS = U64(Have.PORTS)
NO_WRAP = U64(0xFFFFFFFFFFFFFFFF)
"""Period of a clock of 64 bits."""

# What a hop's egress port leads to, in `ends`.
UNKNOWN = U64(0)
HOST = U64(1)
LINK = U64(2)

# Bits of `after` in addition to the position of the next hop + 1.
POSITION = U64(255)
HAS_PREVIOUS = U64(256)
CHAINED = U64(512)

# Whether the TTLs of postcards distinguish their hops.
NO_TTL = U64(0)
ALL_TTLS = U64(1)
TTL_MISSING = U64(2)

# Whether the topology leads along the hops.
BROKEN = U64(0)
PLAUSIBLE = U64(1)
HOST_TO_HOST = U64(2)


@inlined
def find_number(keys, key):
    """Index of `key` in the sorted `keys`, or their length."""
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
def comes_before(cards, steps, a, b, by_ttl, by_step):
    """Whether postcard a belongs to an earlier hop than b; b arrived before a."""
    if by_ttl and cards[a].ttl != cards[b].ttl:
        return cards[a].ttl > cards[b].ttl
    return by_step and steps[a] < steps[b]


@kernel
def sort_cards(packet, cards, hops, links, periods, steps, order_):
    """Sort a packet's postcards by falling TTL, then by time, into `order_`.

    Returns NO_TTL, ALL_TTLS or TTL_MISSING.
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
    if by_step:  # times relative to the first postcard's, modulo the wrap of the clock
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
        return NO_TTL
    for k in range(U64(1), n):
        if U64(cards[order_[U64(k) - U64(1)]].ttl) > U64(cards[order_[U64(k)]].ttl) + U64(1):
            return TTL_MISSING
    return ALL_TTLS


@inlined
def leads_to(a, b, nodes, nexts, ends, pairs):
    """Whether the topology leads from hop a to hop b."""
    if ends[a] == LINK:
        return nexts[a] == nodes[b]
    return ends[a] == UNKNOWN and find_number(pairs, nodes[a] << U64(32) | nodes[b]) < U64(len(pairs))


@inlined
def may_follow(hop, node, previous, link_keys, link_nodes, unlinked):
    """Whether a packet may have come to a hop from node `previous`: the topology links the hop's ingress port
    to that node, or, if `unlinked`, to no node.
    """
    if not U64(hop.present & ~hop.null) & PORTS:
        return True
    link = find_number(link_keys, node << U64(16) | U64(hop.ingress_port))
    if link < U64(len(link_keys)):
        return U64(link_nodes[link]) == previous
    return unlinked


@kernel
def chain(n, cards, hops, order_, chained, nodes, nexts, ends, after, link_keys, link_nodes, pairs):
    """Put the postcards in `order_` into the order of the topology.

    Returns BROKEN (hops are missing), PLAUSIBLE (none seems to be missing) or HOST_TO_HOST.
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
        after[U64(k)] = U64(0)
    for turn in range(2):
        for k in range(n):
            for j in range(U64(1), n):
                b = (U64(k) + U64(j)) % n
                if after[U64(k)] & POSITION or after[b] & HAS_PREVIOUS:
                    continue
                if leads_to(U64(k), b, nodes, nexts, ends, pairs) and may_follow(
                    hops[order_[b]], nodes[b], nodes[U64(k)], link_keys, link_nodes, turn == 1
                ):
                    after[b] += HAS_PREVIOUS
                    after[U64(k)] += b + U64(1)
    written = U64(0)
    parts = U64(0)
    for turn in range(2):  # start from hops without a previous one, then from loops
        for k in range(n):
            at = U64(k)
            if after[at] & CHAINED or (turn == 0 and after[at] >= HAS_PREVIOUS):
                continue
            parts += U64(1)
            while not after[at] & CHAINED:
                after[at] |= CHAINED
                chained[written] = at
                written += U64(1)
                if after[at] & POSITION == U64(0):
                    break
                at = (after[at] & POSITION) - U64(1)
    first = chained[U64(0)]
    end = ends[chained[n - U64(1)]]
    for k in range(n):
        chained[U64(k)] = order_[chained[U64(k)]]
    for k in range(n):
        order_[U64(k)] = chained[U64(k)]
    if parts != U64(1) or end == LINK or nodes[first] == NO_NODE:
        return BROKEN
    hop = hops[order_[U64(0)]]
    if not U64(hop.present & ~hop.null) & PORTS:
        return PLAUSIBLE
    if find_number(link_keys, nodes[first] << U64(16) | U64(hop.ingress_port)) < U64(len(link_keys)):
        return BROKEN
    return HOST_TO_HOST if end == HOST else PLAUSIBLE


@kernel
def put_in_order(packet, cards, hops, links, periods, work, topology):
    """Put a packet's postcards into path order, in `work[0]`. Returns the results of `sort_cards` and
    `chain`.
    """
    order_, chained, nodes, nexts, ends, after, steps = work
    gaps = sort_cards(packet, cards, hops, links, periods, steps, order_)
    whole = BROKEN
    if len(topology[0]):
        whole = chain(
            U64(packet.count), cards, hops, order_, chained, nodes, nexts, ends, after,
            topology[0], topology[1], topology[2],
        )  # fmt: skip
    return gaps, whole
