"""Allowed sources and rate limit of a datagram, compiled."""

from ..base.kernels.jit import U64, kernel
from ..base.keyed_kernel import spread, weigh
from .layout import BUCKET_WAYS, Setup

_INTERVAL, _BURST, _MASK = U64(Setup.INTERVAL_NS), U64(Setup.BURST_NS), U64(Setup.BUCKET_MASK)
_NETWORK_HI, _NETWORK_LO = U64(Setup.NETWORK_HI), U64(Setup.NETWORK_LO)
_KEYS = int(Setup.KEYS)
_IPV4 = U64(0xFFFF)


@kernel
def allowed(ranges, hi, lo):
    """Whether an address is in sorted, disjoint `ranges`, uint64 [ranges * 4]; without any, all are."""
    count = U64(len(ranges)) // U64(4)
    if count == U64(0):
        return True
    first, last = U64(0), count
    while first < last:  # the first range that begins above the address
        middle = (first + last) // U64(2)
        at = middle * U64(4)
        if ranges[at] > hi or (ranges[at] == hi and ranges[at + U64(1)] > lo):
            last = middle
        else:
            first = middle + U64(1)
    if first == U64(0):
        return False
    at = (first - U64(1)) * U64(4)
    return ranges[at + U64(2)] > hi or (ranges[at + U64(2)] == hi and ranges[at + U64(3)] >= lo)


@kernel
def take(buckets, setup, hi, lo, now_ns, reports):
    """Take a datagram with `reports` reports out of its source's bucket; False if the bucket is empty.

    A bucket is stored as the time at which it is full again (GCRA). A datagram passes if there is room for
    one of its reports, but all of them count against later datagrams. A source without a row replaces the
    source, of eight candidates, whose bucket has been full longest, which loses the least by that.
    """
    if hi != U64(0) or lo >> U64(32) != _IPV4:
        hi &= setup[_NETWORK_HI]
        lo &= setup[_NETWORK_LO]
    base = (spread(weigh(setup, _KEYS, lo) + weigh(setup, _KEYS + 2, hi)) & setup[_MASK]) * U64(BUCKET_WAYS)
    chosen = base
    for way in range(BUCKET_WAYS):
        at = base + U64(way)
        if buckets[at].source_lo == lo and buckets[at].source_hi == hi:
            chosen = at
            break
        if buckets[at].due_ns < buckets[chosen].due_ns:
            chosen = at
    row = buckets[chosen]
    due_ns = max(row.due_ns, now_ns)
    if row.source_lo != lo or row.source_hi != hi:
        row.source_hi = hi
        row.source_lo = lo
        due_ns = now_ns
    if U64(due_ns - now_ns) > setup[_BURST]:
        return False
    row.due_ns = due_ns + int(setup[_INTERVAL] * reports)
    return True
