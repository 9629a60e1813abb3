"""Clocks: raw times become ns as a dialect's clock says, whatever is in them, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.wire import timing
from hopscope.wire.dialect import Clock
from hopscope.wire.records import HOP, REPORT, Carried, Flag, Have, ReportBatch

pytestmark = pytest.mark.kernel

BOTH = int(Have.INGRESS_TIME | Have.EGRESS_TIME)
ALL = BOTH | int(Have.HOP_LATENCY)
MOST = (1 << 64) - 2


def one(
    *,
    ingress: int = 0,
    egress: int = 0,
    latency: int = 0,
    present: int = ALL,
    null: int = 0,
    version: int = 20,
    **row: int,
) -> ReportBatch:
    """A report of one hop."""
    reports, hops = np.zeros(1, REPORT), np.zeros(1, HOP)
    reports["hop_count"], reports["version"], reports["int_version"] = 1, 20, version
    for name, value in row.items():
        reports[name] = value
    hops["ingress_time"], hops["egress_time"], hops["hop_latency"] = ingress, egress, latency
    hops["present"], hops["null"] = present, null
    return ReportBatch(reports, hops)


def after(batch: ReportBatch, clock: Clock) -> tuple[int, int, int]:
    """(ingress time, egress time, latency) of the first hop, once the clock is applied."""
    timing.apply(batch, clock)
    hop = batch.hops[0]
    return int(hop["ingress_time"]), int(hop["egress_time"]), int(hop["hop_latency"])


def test_default_clock_does_nothing() -> None:
    """ns by default: not even what would be impossible is touched."""
    assert after(one(ingress=7, egress=3, latency=9), Clock()) == (7, 3, 9)


def test_units() -> None:
    """A clock in us: times and latency are 1000 times as much; what does not fit is the largest value."""
    us = Clock(unit_ns=1000)
    assert after(one(ingress=7, egress=9, latency=2), us) == (7000, 9000, 2000)
    large = one(ingress=1 << 63, egress=9, latency=1 << 31)
    assert after(large, us) == (MOST, 9000, (1 << 32) - 2)


def test_latency_from_timestamps() -> None:
    """Egress minus ingress, with the wrap of the clock, in ns; it is there then, though it was not sent."""
    clock = Clock(latency="timestamps", bits=32)
    batch = one(ingress=(5 << 32) + 0xFFFFFFF0, egress=(6 << 32) + 0x10, present=BOTH, null=4)
    assert after(batch, clock) == (0xFFFFFFF0, 0x10, 0x20)
    assert (batch.hops["present"][0], batch.hops["null"][0]) == (ALL, 0)
    us = Clock(latency="timestamps", unit_ns=1000)
    assert after(one(ingress=10, egress=8, version=10), us)[2] == (1 << 32) - 2
    assert after(one(ingress=0xFFFFFFFE, egress=2, version=10), us)[2] == 4000


def test_latency_without_timestamps_is_unavailable() -> None:
    """A source that never fills the field in sends zeros there: they are no latency."""
    batch = one(ingress=5, present=int(Have.HOP_LATENCY | Have.INGRESS_TIME))
    timing.apply(batch, Clock(latency="timestamps"))
    assert batch.hops["null"][0] == Have.HOP_LATENCY


@pytest.mark.parametrize(
    ("form", "fraction", "expected"),
    [("ptp", 999_999_999, 999_999_999), ("ntp", 1 << 31, 500_000_000), ("posix", 999_999, 999_999_000)],
)
def test_ioam_formats(form: Any, fraction: int, expected: int) -> None:
    """Seconds and fraction of RFC 9197 5; the transit delay is ns whatever the clock's unit."""
    clock = Clock(ioam=form, comparable=True, unit_ns=1000)
    batch = one(ingress=3 << 32 | fraction, latency=77, version=91, present=ALL & ~int(Have.EGRESS_TIME))
    assert after(batch, clock) == (3_000_000_000 + expected, 0, 77)


def test_own_hop_and_report_have_the_clock_too() -> None:
    """The report's own metadata, and the ingress time in a report's header, by the report's version."""
    batch = one(ingress=1, egress=2, carried=int(Carried.OWN_HOP | Carried.INGRESS_TIME), ingress_time=5)
    batch.reports["version"], batch.reports["hop_count"] = 10, 0
    assert after(batch, Clock(unit_ns=8)) == (8, 16, 0)
    assert batch.reports["ingress_time"][0] == 40


@pytest.mark.parametrize(("version", "null"), [(20, (1 << 64) - 1), (10, (1 << 32) - 1)])
def test_a_report_without_a_time_gets_none(version: int, null: int) -> None:
    """All ones in a report's header is no time, and stays so whatever the clock."""
    for clock in (Clock(unit_ns=8), Clock(bits=32), Clock(bits=48), Clock(latency="timestamps")):
        batch = one(carried=int(Carried.INGRESS_TIME), ingress_time=null)
        batch.reports["version"] = version
        timing.apply(batch, clock)
        assert batch.reports["ingress_time"][0] == null


def test_refused_reports_stay() -> None:
    """What was read of a refused report before its damage is not touched."""
    assert after(one(ingress=7, egress=9, reason=3), Clock(unit_ns=1000)) == (7, 9, 0)


def twin(hop: dict[str, int], layout: int, clock: Clock) -> dict[str, int]:
    """One hop with the clock applied, in plain Python."""
    out = dict(hop)
    have = hop["present"] & ~hop["null"]
    unit = clock.unit_ns
    times = {bit: hop[name] for bit, name in ((16, "ingress_time"), (32, "egress_time"))}
    wide = layout == 20 or any(have & bit and time >> 32 for bit, time in times.items())
    modulus = 1 << (clock.bits or (64 if wide else 32))
    if layout == 91:
        unit, modulus = 1, 10**9 << 32
        parts = {"ptp": (1, 0), "ntp": (10**9, 32), "posix": (1000, 0)}[clock.ioam]
        times = {
            bit: (time >> 32) * 10**9 + ((time & 0xFFFFFFFF) * parts[0] >> parts[1])
            for bit, time in times.items()
        }
    else:
        times = {bit: time % modulus for bit, time in times.items()}
    largest = (1 << 32) - 2
    if clock.latency == "timestamps" and have & 48 == 48:
        passed = times[32] - times[16] if layout == 91 else (times[32] - times[16]) % modulus
        if passed < 0:
            passed += modulus
        out["hop_latency"] = min(passed * unit, largest)
        out["present"] |= 4
        out["null"] &= ~4
    elif clock.latency == "timestamps" and have & 4 and layout != 91:
        out["null"] |= 4
    elif have & 4 and (unit != 1 or hop["hop_latency"] > largest):
        out["hop_latency"] = min(hop["hop_latency"] * unit, largest)
    for bit, name in ((16, "ingress_time"), (32, "egress_time")):
        if have & bit:
            out[name] = min(times[bit] * unit, MOST)
    return out


times = st.integers(0, (1 << 64) - 1) | st.integers(0, (1 << 32) - 1) | st.integers((1 << 32) - 50, 1 << 32)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    ingress=times,
    egress=times,
    latency=st.integers(0, (1 << 32) - 1),
    present=st.integers(0, 255),
    null=st.integers(0, 255),
    version=st.sampled_from([1, 5, 10, 20, 91]),
    clock=st.builds(
        Clock,
        unit_ns=st.sampled_from([1, 8, 1000, 10**9]),
        bits=st.sampled_from([0, 31, 32, 48, 64]),
        latency=st.sampled_from(["reported", "timestamps"]),
        comparable=st.just(True),
        ioam=st.sampled_from(["ptp", "ntp", "posix"]),
    ),
)
def test_kernel_equals_twin(clock: Clock, version: int, **hop: int) -> None:
    """Any times under any clock are what plain Python makes of them."""
    batch = one(version=version, **hop)
    names = HOP.names or ()
    before = dict(zip(names, batch.hops[0].item(), strict=True))
    timing.apply(batch, clock)
    assert dict(zip(names, batch.hops[0].item(), strict=True)) == twin(before, version, clock)


def links(hops: list[tuple[int, int, int]], clock: Clock, version: int = 20, paths: Any = None) -> list[Any]:
    """Link latencies of hops (ingress time, egress time, present)."""
    rows = np.zeros(len(hops), HOP)
    for row, (ingress, egress, present) in zip(rows, hops, strict=True):
        row["ingress_time"], row["egress_time"], row["present"], row["hop_latency"] = (
            ingress, egress, present, 10,
        )  # fmt: skip
    report = np.zeros(len(hops), np.int64) if paths is None else np.array(paths)
    return timing.link_latency_ns(rows, report, np.full(len(hops), version), clock).tolist()


def test_link_latency() -> None:
    """Next ingress minus egress; null at the end of each path, without a time, and without one clock."""
    clock = Clock(comparable=True)
    path = [(10, 20, BOTH), (25, 40, BOTH), (38, 50, BOTH), (60, 70, BOTH)]
    assert links(path, clock, paths=[0, 0, 0, 1]) == [5, -2, None, None]
    assert links(path, Clock()) == [None] * 4
    assert links([(10, 20, BOTH), (25, 40, 0), (38, 50, BOTH)], clock) == [None] * 3
    assert links([], clock) == []


def test_link_latency_over_a_wrap_and_in_units() -> None:
    """Clocks of 32 bits wrap between two hops; units are ns."""
    path = [(0, (1 << 32) - 3, BOTH), (4, 9, BOTH)]
    assert links(path, Clock(comparable=True, unit_ns=1000), version=10) == [7000, None]
    assert links(path, Clock(comparable=True, bits=32)) == [7, None]


def test_link_latency_of_ioam() -> None:
    """Without egress times: a hop left its transit delay after its ingress."""
    have = int(Have.INGRESS_TIME | Have.HOP_LATENCY)
    path = [(5 << 32 | 100, 0, have), (5 << 32 | 150, 0, have)]
    assert links(path, Clock(comparable=True, ioam="ptp"), version=91) == [40, None]


@pytest.mark.parametrize(
    ("form", "fraction", "expected"),
    [("ptp", 999_999_990, 17), ("ntp", (1 << 32) - (1 << 31), 500_000_001), ("posix", 999_999, 8000)],
)
def test_link_latency_of_ioam_over_the_end_of_its_seconds(form: Any, fraction: int, expected: int) -> None:
    """32 bits of seconds wrap between two hops: in 2036 (NTP), in 2106 (PTP, POSIX)."""
    path = [(0, 0xFFFFFFFF << 32 | fraction, BOTH), (7, 9, BOTH)]
    clock = Clock(comparable=True, ioam=form)
    assert links(path, clock, version=91) == [expected, None]
    assert links([(9, 8, BOTH), (0xFFFFFFFF << 32 | fraction, 9, BOTH)], clock, version=91)[0] < 0


def test_joined_paths_have_the_width_of_their_reports() -> None:
    """Hops of a joined path came as reports' own metadata: 32 bits in Report 1.0, whatever INT was inside."""
    batch = one(ingress=0xFFFFFFFE, egress=2, flags=int(Flag.JOINED))
    batch.reports["version"] = 10
    assert after(batch, Clock(latency="timestamps"))[2] == 4
