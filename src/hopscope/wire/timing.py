"""Clocks: a dialect's `Clock`, applied to raw times between decoding and detection.

Decoders leave times as they were sent. `apply` makes latencies and timestamps ns, in place, unless they
are; nothing is done for a clock that counts ns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .dialect import Clock
from .records import Have, Records, ReportBatch
from .versions import IFA, IOAM

_PLAIN = Clock()
_FORMS = {"ptp": 0, "ntp": 1, "posix": 2}
_SECOND = 1_000_000_000
_ERA = _SECOND << 32
"""ns after which the seconds of IOAM wrap."""
_IFA_ERA = _SECOND << 20
"""ns after which the seconds of IFA wrap: 12 days."""


def changes(clock: Clock) -> bool:
    """Whether `apply` does anything for this clock."""
    return clock != _PLAIN


def apply(batch: ReportBatch, clock: Clock) -> None:
    """Write ns over the raw times of a batch: once, and before detection.

    `hop_latency` saturates at 2^32-2 ns. With `latency = "timestamps"` it is egress minus ingress time,
    modulo the clock's bits (0: 64 in INT 2.x and Report 2.0 or if more than 32 are used, else 32); without
    the timestamps it is unavailable. `ingress_time` and `egress_time` become ns since the clock's epoch;
    those of IOAM, seconds and a fraction (RFC 9197 5), ns since the epoch of their format, and its transit
    delay is ns already (RFC 9197 4.4.2.5). Times of IFA, sFlow and IPFIX are ns when decoded. Rejected
    reports stay as they are, and all ones in a report's header, which is no time.
    """
    if clock == _PLAIN:
        return
    from . import timing_kernel

    timing_kernel.apply_clock(
        batch.reports,
        batch.hops,
        np.uint64(clock.unit_ns),
        np.uint64(clock.bits),
        clock.latency == "timestamps",
        np.uint64(_FORMS[clock.ioam]),
    )


def link_latency_ns(
    hops: Records, report: npt.NDArray[Any], layout: npt.NDArray[Any], clock: Clock
) -> np.ma.MaskedArray[Any, Any]:
    """From a hop's egress to the ingress of the next one of its path, int64 [hops], ns.

    `hops` are raw, in path order; `report` is the row of each one's report, `layout` its INT version (20 has
    timestamps of 64 bits). Masked if it cannot be computed: clocks are not comparable, a time is missing,
    or the path ends. A hop without egress time, but with its latency, left that much after its ingress.
    Negative if clocks differ by more than the link takes.
    """
    links, known = np.zeros(len(hops), np.int64), np.zeros(len(hops), bool)
    if not clock.comparable or len(hops) < 2:
        return np.ma.MaskedArray(links, ~known)
    have = hops["present"] & ~hops["null"]
    ingress, egress = hops["ingress_time"].copy(), hops["egress_time"].copy()
    ioam = layout == IOAM
    for times in (ingress, egress):
        times[ioam] = _ioam_ns(times[ioam], clock.ioam)
    timed = have & Have.INGRESS_TIME != 0
    delayed = timed & (have & Have.HOP_LATENCY != 0) & (have & Have.EGRESS_TIME == 0)
    egress[delayed] = ingress[delayed] + hops["hop_latency"][delayed]
    left = delayed | (have & Have.EGRESS_TIME != 0)
    gap = ingress[1:] - egress[:-1]
    ns = ioam | (layout == IFA)
    era = np.where(ioam, _ERA, _IFA_ERA)[:-1]
    wide = ns | (layout == 20) | (ingress > 0xFFFFFFFF) | (egress > 0xFFFFFFFF)
    bits = np.where(ns, 64, clock.bits or np.where(wide, 64, 32))
    shift = (64 - np.minimum(bits, 64)[:-1]).astype(np.uint64)
    signed = (gap << shift).view(np.int64) >> shift.view(np.int64)
    signed = np.where(ns[:-1], (signed + era // 2) % era - era // 2, signed)
    unit = np.where(ns[:-1], 1, clock.unit_ns)
    known[:-1] = (report[1:] == report[:-1]) & left[:-1] & timed[1:]
    known[:-1] &= np.abs(signed // 2) < (1 << 62) // unit
    links[:-1] = signed * np.where(known[:-1], unit, 0)
    return np.ma.MaskedArray(links, ~known)


def _ioam_ns(times: npt.NDArray[np.uint64], form: str) -> npt.NDArray[np.uint64]:
    """Seconds << 32 | fraction as ns."""
    fraction = times & np.uint64(0xFFFFFFFF)
    if form == "ntp":
        fraction = fraction * np.uint64(_SECOND) >> np.uint64(32)
    elif form == "posix":
        fraction = fraction * np.uint64(1000)
    return (times >> np.uint64(32)) * np.uint64(_SECOND) + fraction
