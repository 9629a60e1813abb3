"""The event calendar: arrivals in buckets no longer than the shortest time between two ports, each sorted.

Serving a bucket creates arrivals in later buckets only, so a sorted bucket is complete. Events are sources
(their next packet) and packets (their arrival at the port of their node).
"""

from __future__ import annotations

import math
from typing import Any

from ....base.kernels.jit import I64, U64, inlined, kernel, mix64, prefetch, prefetch_read
from .pool_kernel import insert, take_packet
from .port_kernel import serve
from .records import Count, EngineSlot, SourceFlag, StopReason

ROW_BITS = 24
"""Bits of a sort key that hold the packet's row; the others hold its time in the bucket."""
ROW_MASK = (1 << ROW_BITS) - 1
DIGITS = 256
PREFETCH_AHEAD = 8
"""Packets between the prefetch of a port and its use. Prefetching raised the speed from 9.0 to 11.4
million packet-hops per second for k = 32, and from 18 to 21 million for k = 16.
"""
INSERTION_SORT_MAX = 32
"""Maximum keys sorted by insertion."""
RANDOM = int(SourceFlag.RANDOM)
TRACKED = int(SourceFlag.TRACKED)
PACKET_FLAGS = int(SourceFlag.PROBE | SourceFlag.LABEL_ALWAYS | SourceFlag.LABEL_NEVER)
PROBE = int(SourceFlag.PROBE)
PROBES = int(Count.PROBES)
EMITTED = int(Count.EMITTED)
BUCKET = int(EngineSlot.BUCKET)
OVERFLOW = int(EngineSlot.OVERFLOW)
FREE_PACKETS = int(EngineSlot.FREE_PACKETS)
DONE = int(StopReason.DONE)
FULL_PACKETS = int(StopReason.PACKETS)
FULL_KEYS = int(StopReason.KEYS)
SALT_ROUTE = 0x2545F4914F6CDD1D
SALT_GAP = 0x5851F42D4C957F2D


@inlined
def emit(source, packet, net):
    """Create a source's next packet, and set the time of the one after it."""
    seed = net.setup[0].seed
    number = (U64(source.serial) << U64(32)) | U64(source.sent)
    packet.time = source.next
    packet.number = number
    route: Any = 0
    if source.routes_count > 1:
        high = mix64(number ^ seed ^ U64(SALT_ROUTE)) >> U64(32)
        route = I64((high * U64(source.routes_count)) >> U64(32))
    packet.node = net.starts[source.routes_first + route]
    packet.labels = -1
    packet.size = source.size
    packet.count = 0
    packet.hops = 0
    flags = source.flags & PACKET_FLAGS
    if source.tracked > 0 and source.sent % source.tracked == 0:
        flags |= TRACKED
    packet.flags = flags
    gap = source.gap
    if (source.flags & RANDOM) != 0:
        bits = mix64(number ^ seed ^ U64(SALT_GAP)) >> U64(11)
        gap = I64(-math.log((float(bits) + 1.0) / 9007199254740992.0) * gap)
    source.next += max(1, gap)
    source.sent += 1
    source.remaining -= 1


@kernel
def return_events(keys, begin, end, net):
    """Return events that have not been served to their bucket."""
    for i in range(begin, end):
        row = I64(keys[i] & U64(ROW_MASK))
        insert(len(net.sources) + row, net.packets[row].time, net)


@kernel
def collect_due(until, keys, net):
    """Take the arrivals in this bucket before `until`, including new packets, as keys; returns their number
    and a StopReason.
    """
    first = len(net.sources)
    shift = net.setup[0].bucket_shift
    bucket = net.state[BUCKET]
    begin = bucket << shift
    limit = min(until, begin + (1 << shift))
    slot = bucket & (len(net.heads) - 1)
    event = net.heads[slot]
    net.heads[slot] = -1
    n = 0
    reason = DONE
    while event >= 0:
        following = net.link[event]
        if event >= first:
            row = event - first
            time = net.packets[row].time
            if time < limit and n < len(keys):
                keys[n] = (U64(time - begin) << U64(ROW_BITS)) | U64(row)
                prefetch_read(net.routes, U64(net.packets[row].node), U64(0))
                n += 1
            else:
                if time < limit:
                    reason = FULL_KEYS
                insert(event, time, net)
        else:
            source = net.sources[event]
            while source.remaining > 0 and source.next < limit:
                if n == len(keys):
                    reason = FULL_KEYS
                    break
                if net.state[FREE_PACKETS] == 0:
                    reason = FULL_PACKETS
                    break
                row = take_packet(net)
                keys[n] = (U64(source.next - begin) << U64(ROW_BITS)) | U64(row)
                n += 1
                emit(source, net.packets[row], net)
                net.counts[EMITTED + (PROBES if (source.flags & PROBE) != 0 else 0)] += 1
            if source.remaining > 0:
                insert(event, source.next, net)
        event = following
    return n, reason


@inlined
def serve_before(a, b, net):
    """Whether packet `a` (a key) is served before packet `b` that arrives in the same ps."""
    left = net.packets[a & U64(ROW_MASK)]
    right = net.packets[b & U64(ROW_MASK)]
    if left.number != right.number:
        return left.number < right.number
    return left.node < right.node


@kernel
def sort(keys, scratch, n, digits, shift):
    """Sort keys by time, by insertion or radix; returns whether the result is in `scratch`."""
    swapped = False
    if n <= INSERTION_SORT_MAX:
        for i in range(1, n):
            key = keys[i]
            at = i
            while at > 0 and keys[at - 1] > key:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return swapped
    place = ROW_BITS
    while place < ROW_BITS + shift:
        digits[:] = 0
        for i in range(n):
            digits[(keys[i] >> U64(place)) & U64(DIGITS - 1)] += 1
        total = 0
        for d in range(DIGITS):
            here = digits[d]
            digits[d] = total
            total += here
        for i in range(n):
            d = (keys[i] >> U64(place)) & U64(DIGITS - 1)
            scratch[digits[d]] = keys[i]
            digits[d] += 1
        keys, scratch = scratch, keys
        swapped = not swapped
        place += 8
    return swapped


@kernel
def sift(keys, begin, at, n, net):
    """Sift a key down in the heap of `n` keys from `begin` on, with the last packet on top."""
    key = keys[begin + at]
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and serve_before(keys[begin + child], keys[begin + child + 1], net):
            child += 1
        if serve_before(keys[begin + child], key, net):
            break
        keys[begin + at] = keys[begin + child]
        at = child
    keys[begin + at] = key


@kernel
def sort_tie(keys, begin, n, net):
    """Heap-sort `n` keys of the same ps by packet, since a flood makes thousands of copies at once."""
    for at in range(n // 2 - 1, -1, -1):
        sift(keys, begin, at, n, net)
    for end in range(n - 1, 0, -1):
        key = keys[begin]
        keys[begin] = keys[begin + end]
        keys[begin + end] = key
        sift(keys, begin, 0, end, net)


@inlined
def sort_ties(keys, n, net):
    """Order packets of the same ps by number in sorted keys, whatever their rows in the pool."""
    begin = 0
    for i in range(1, n + 1):
        if i < n and (keys[i] >> U64(ROW_BITS)) == (keys[begin] >> U64(ROW_BITS)):
            continue
        if i - begin > 1:
            sort_tie(keys, begin, i - begin, net)
        begin = i


@inlined
def prefetch_port(key, net):
    """Prefetch the port of a packet that is served a few packets later."""
    node = net.packets[key & U64(ROW_MASK)].node
    prefetch(net.ports, U64(net.routes[node].port), U64(0))


@kernel
def pull_overflow(net):
    """Move events into the ring that are no longer beyond it."""
    first = len(net.sources)
    event = net.state[OVERFLOW]
    net.state[OVERFLOW] = -1
    while event >= 0:
        following = net.link[event]
        time = net.sources[event].next if event < first else net.packets[event - first].time
        insert(event, time, net)
        event = following


@kernel
def advance(until, keys, scratch, digits, net, custom):
    """Serve all arrivals before `until`, ps; returns a StopReason. A further call continues.

    `net` is a Net, `custom` a kernel for Chance.CUSTOM, or None; `keys` and `scratch` have room for one
    bucket.
    """
    shift = net.setup[0].bucket_shift
    mask = len(net.heads) - 1
    while (net.state[BUCKET] << shift) < until:
        bucket = net.state[BUCKET]
        if bucket & mask == 0 and net.state[OVERFLOW] >= 0:
            pull_overflow(net)
        if net.heads[bucket & mask] >= 0:
            n, reason = collect_due(until, keys, net)
            if reason != DONE:
                return_events(keys, 0, n, net)
                return reason
            order = scratch if sort(keys, scratch, n, digits, shift) else keys
            sort_ties(order, n, net)
            for i in range(n):
                row = I64(order[i] & U64(ROW_MASK))
                if i + PREFETCH_AHEAD < n:
                    prefetch_port(order[i + PREFETCH_AHEAD], net)
                reason = serve(row, net, custom)
                if reason != DONE:
                    return_events(order, i, n, net)
                    return reason
        if ((bucket + 1) << shift) > until:
            break
        net.state[BUCKET] = bucket + 1
    return DONE
