"""The calendar: arrivals in buckets no longer than the shortest way to a next port, each sorted by time.

What is served in a bucket makes arrivals in later buckets only, so a bucket that is sorted once is complete.
Events are sources (their next packet) and packets (their arrival at the port of their node).
"""

from __future__ import annotations

import math
from typing import Any

from ...jit import I64, U64, inlined, kernel, mix64
from .pool_kernel import insert, take_packet
from .port_kernel import serve
from .records import Count, SourceFlag, State, Stop

ROW_BITS = 24
"""Bits of a sort key that hold the packet's row; the others hold its time in the bucket."""
ROW_MASK = (1 << ROW_BITS) - 1
DIGITS = 256
FEW = 32
"""Keys that are sorted by insertion."""
RANDOM = int(SourceFlag.RANDOM)
FOLLOWED = int(SourceFlag.FOLLOWED)
KEPT = int(SourceFlag.PROBE | SourceFlag.ALWAYS | SourceFlag.NEVER)
PROBE = int(SourceFlag.PROBE)
PROBES = int(Count.PROBES)
EMITTED = int(Count.EMITTED)
BUCKET = int(State.BUCKET)
FAR = int(State.FAR)
FREE_PACKETS = int(State.FREE_PACKETS)
DONE = int(Stop.DONE)
FULL_PACKETS = int(Stop.PACKETS)
FULL_KEYS = int(Stop.KEYS)
SALT_ROUTE = 0x2545F4914F6CDD1D
SALT_GAP = 0x5851F42D4C957F2D


@inlined
def emit(source: Any, seed: Any, starts: Any, packet: Any) -> None:
    """Make a source's next packet, and find when the one after it is due."""
    number = (U64(source.serial) << U64(32)) | U64(source.sent)
    packet.time = source.next
    packet.number = number
    route: Any = 0
    if source.routes_count > 1:
        high = mix64(number ^ seed ^ U64(SALT_ROUTE)) >> U64(32)
        route = I64((high * U64(source.routes_count)) >> U64(32))
    packet.node = starts[source.routes_first + route]
    packet.labels = -1
    packet.size = source.size
    packet.count = 0
    packet.hops = 0
    flags = source.flags & KEPT
    if source.followed > 0 and source.sent % source.followed == 0:
        flags |= FOLLOWED
    packet.flags = flags
    gap = source.gap
    if (source.flags & RANDOM) != 0:
        bits = mix64(number ^ seed ^ U64(SALT_GAP)) >> U64(11)
        gap = I64(-math.log((float(bits) + 1.0) / 9007199254740992.0) * gap)
    source.next += max(1, gap)
    source.sent += 1
    source.remaining -= 1


@kernel
def put_back(
    keys: Any, begin: Any, end: Any, shift: Any, state: Any, first: Any, packets: Any, link: Any, heads: Any
) -> None:
    """Return events that have not been served to their bucket."""
    for i in range(begin, end):
        row = I64(keys[i] & U64(ROW_MASK))
        insert(first + row, packets[row].time, shift, state, link, heads)


@kernel
def gather(
    until: Any,
    shift: Any,
    seed: Any,
    state: Any,
    counts: Any,
    sources: Any,
    starts: Any,
    packets: Any,
    link: Any,
    heads: Any,
    keys: Any,
) -> Any:
    """Take what arrives in this bucket before `until`, new packets too, as keys: (how many, Stop)."""
    first = len(sources)
    bucket = state[BUCKET]
    begin = bucket << shift
    limit = min(until, begin + (1 << shift))
    slot = bucket & (len(heads) - 1)
    event = heads[slot]
    heads[slot] = -1
    n = 0
    short = DONE
    while event >= 0:
        following = link[event]
        if event >= first:
            row = event - first
            time = packets[row].time
            if time < limit and n < len(keys):
                keys[n] = (U64(time - begin) << U64(ROW_BITS)) | U64(row)
                n += 1
            else:
                if time < limit:
                    short = FULL_KEYS
                insert(event, time, shift, state, link, heads)
        else:
            source = sources[event]
            while source.remaining > 0 and source.next < limit:
                if n == len(keys):
                    short = FULL_KEYS
                    break
                if state[FREE_PACKETS] == 0:
                    short = FULL_PACKETS
                    break
                row = take_packet(first, state, link)
                keys[n] = (U64(source.next - begin) << U64(ROW_BITS)) | U64(row)
                n += 1
                emit(source, seed, starts, packets[row])
                counts[EMITTED + (PROBES if (source.flags & PROBE) != 0 else 0)] += 1
            if source.remaining > 0:
                insert(event, source.next, shift, state, link, heads)
        event = following
    return n, short


@inlined
def before(packets: Any, a: Any, b: Any) -> Any:
    """Whether of two packets that arrive in the same ps, the first is served first."""
    left = packets[a]
    right = packets[b]
    if left.number != right.number:
        return left.number < right.number
    return left.node < right.node


@kernel
def sort(keys: Any, spare: Any, n: Any, digits: Any, shift: Any) -> Any:
    """Sort keys by time; whether the result is in `spare`. By insertion, or by radix where there are many."""
    swapped = False
    if n <= FEW:
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
            spare[digits[d]] = keys[i]
            digits[d] += 1
        keys, spare = spare, keys
        swapped = not swapped
        place += 8
    return swapped


@inlined
def settle_ties(packets: Any, keys: Any, n: Any) -> None:
    """Order packets of the same ps by number, in sorted keys: their rows in the pool do not matter."""
    for i in range(1, n):
        at = i
        key = keys[i]
        while at > 0 and (keys[at - 1] >> U64(ROW_BITS)) == (key >> U64(ROW_BITS)):
            if before(packets, keys[at - 1] & U64(ROW_MASK), key & U64(ROW_MASK)):
                break
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key


@kernel
def sweep(n_sources: Any, shift: Any, state: Any, sources: Any, packets: Any, link: Any, heads: Any) -> None:
    """Take what is no longer beyond the ring into it."""
    event = state[FAR]
    state[FAR] = -1
    while event >= 0:
        following = link[event]
        time = sources[event].next if event < n_sources else packets[event - n_sources].time
        insert(event, time, shift, state, link, heads)
        event = following


@kernel
def advance(
    until: Any,
    setups: Any,
    state: Any,
    counts: Any,
    histogram: Any,
    active: Any,
    sources: Any,
    starts: Any,
    routes: Any,
    packets: Any,
    link: Any,
    heads: Any,
    keys: Any,
    spare: Any,
    digits: Any,
    ports: Any,
    labels: Any,
    log: Any,
    own: Any,
) -> Any:
    """Serve all arrivals before `until`, ps: a Stop. Called again it goes on, wherever it was."""
    setup = setups[0]
    shift = setup.bucket_shift
    first = len(sources)
    mask = len(heads) - 1
    while (state[BUCKET] << shift) < until:
        bucket = state[BUCKET]
        if bucket & mask == 0 and state[FAR] >= 0:
            sweep(first, shift, state, sources, packets, link, heads)
        if heads[bucket & mask] >= 0:
            n, short = gather(
                until, shift, setup.seed, state, counts, sources, starts, packets, link, heads, keys
            )
            if short != DONE:
                put_back(keys, 0, n, shift, state, first, packets, link, heads)
                return short
            order = spare if sort(keys, spare, n, digits, shift) else keys
            settle_ties(packets, order, n)
            for i in range(n):
                row = I64(order[i] & U64(ROW_MASK))
                short = serve(
                    row, first, setup, state, counts, histogram, active, routes, packets, link, heads, ports,
                    labels, log, own,
                )  # fmt: skip
                if short != DONE:
                    put_back(order, i, n, shift, state, first, packets, link, heads)
                    return short
        if ((bucket + 1) << shift) > until:
            break
        state[BUCKET] = bucket + 1
    return DONE
