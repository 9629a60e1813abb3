"""Allowed sources and rate limit of one datagram, compiled."""

from __future__ import annotations

from typing import Any

from ..base.jit import U64, kernel, mix64
from .layout import BUCKET_WAYS, Setup

_INTERVAL, _BURST, _MASK = U64(Setup.INTERVAL_NS), U64(Setup.BURST_NS), U64(Setup.BUCKET_MASK)


@kernel
def allowed(ranges: Any, hi: Any, lo: Any) -> Any:
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
def take(buckets: Any, setup: Any, hi: Any, lo: Any, now_ns: Any) -> Any:
    """Take one datagram out of a source's bucket; False if it is empty.

    A bucket is the time at which it is full again (GCRA).  A source without a row takes the one of its eight
    that is full longest, and so loses the least.
    """
    base = (mix64(hi ^ mix64(lo)) & setup[_MASK]) * U64(BUCKET_WAYS)
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
    row.due_ns = due_ns + int(setup[_INTERVAL])
    return True
