"""Kernels of `switch_ns` in EVENT: the time of the event by the switch's clock, next to the time of receipt.

===================== ==========================================================================
`hops`, `at`          HOP [m], and the index of a hop
`reports`, `i`        REPORT [n], and the index of the current one
`events`              EVENT [n]; those from `begin` to `n` get the time
===================== ==========================================================================
"""

from ...base.kernels.jit import U64, inlined
from ...wire.records import Carried, Have

INGRESS = U64(Have.INGRESS_TIME)
EGRESS = U64(Have.EGRESS_TIME)
CARRIED = U64(Carried.INGRESS_TIME)
NULL = U64(0xFFFFFFFFFFFFFFFF)
NULL_32 = U64(0xFFFFFFFF)
"""All ones in a report's header (2.0, others): the switch has no time."""


@inlined
def hop_time(hops, at):
    """Egress time of a hop, else its ingress time, ns; 0: neither is carried."""
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    if have & EGRESS:
        return U64(hop.egress_time)
    return U64(hop.ingress_time) if have & INGRESS else U64(0)


@inlined
def report_time(reports, i):
    """Time in the header of a report, ns; 0: it has none, or the report is rejected."""
    r = reports[i]
    if (
        r.reason != 0
        or not U64(r.carried) & CARRIED
        or r.ingress_time == (NULL if r.version == 20 else NULL_32)
    ):
        return U64(0)
    return U64(r.ingress_time)


@inlined
def whole_time(reports, i, hops, first, count):
    """Time in the header of a report, else of the last of its `count` hops, ns; 0: neither is carried."""
    time = report_time(reports, i)
    if time == U64(0) and count != U64(0):
        time = hop_time(hops, first + count - U64(1))
    return time


@inlined
def put_time(events, begin, n, time):
    """Write a switch's time into events, except alarms that end because the report evicted their key."""
    for k in range(begin, n):
        if events[U64(k)].reason == 0:
            events[U64(k)].switch_ns = time
