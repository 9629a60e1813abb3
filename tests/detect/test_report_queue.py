"""Reports of several workers meet in one stream, by receive time; nothing published is lost or torn."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from hopscope.detect.merge import WAIT_NS, Merge
from hopscope.detect.report_queue import CLOSED, MARGIN_NS, QueueReader, QueueWriter, create_queue
from hopscope.memory.region import Region
from hopscope.wire.dialect import Clock
from hopscope.wire.records import ReportBatch
from support.events.detect_make import T0, Hop, Report, batch

CLOCK = Clock(unit_ns=8, bits=32, comparable=True)


def made(times: list[int], worker: int = 0, hops: int = 1) -> ReportBatch:
    """Reports received at these times; sequence and latencies name the time and the worker."""
    return batch(
        [
            Report([Hop(worker, time, occupancy=k) for k in range(hops)], time=time, sequence=time, hw=worker)
            for time in times
        ]
    )


def merged(merge: Merge, now_ns: int = 0, everything: bool = False) -> list[tuple[int, int]]:
    """(time, worker) of the reports that can be taken, whose hops are asserted to be theirs."""
    found: list[tuple[int, int]] = []
    for part, _ in merge.batches(now_ns, everything=everything):
        count = part.reports["hop_count"].astype(np.int64)
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        hops = part.hops[np.repeat(part.reports["first_hop"].astype(np.int64), count) + place]
        assert (hops["node_id"] == np.repeat(part.reports["hw_id"], count)).all()
        assert (hops["hop_latency"] == np.repeat(part.reports["sequence"], count)).all()
        assert (hops["queue_occupancy"] == place).all()
        times = part.reports["time_ns"].astype(np.int64) - T0
        found += zip(times.tolist(), part.reports["hw_id"].tolist(), strict=True)
    return found


def ends(count: int, reports: int = 1024) -> tuple[list[Region], list[QueueWriter], Merge]:
    """Queues of some workers with both ends."""
    regions = [create_queue(None, reports) for _ in range(count)]
    return regions, list(map(QueueWriter, regions)), Merge(list(map(QueueReader, regions)))


def test_reports_wait_until_no_worker_can_have_earlier_ones() -> None:
    """Batches come out by receive time as soon as all horizons have passed them, never before."""
    _, (one, two), merge = ends(2)
    one.put(made([10, 10], 0), CLOCK, 0)
    one.advance(T0 + 30)
    assert merged(merge) == []
    two.put(made([5], 1), CLOCK, 0)
    two.advance(T0 + 7)
    assert merged(merge) == [(5, 1)]
    assert merge.horizon_ns == T0 + 7
    two.put(made([10, 20], 1), CLOCK, 0)
    two.advance(T0 + 25)
    assert merged(merge) == [(10, 0), (10, 0), (10, 1), (20, 1)]
    two.put(made([40], 1), CLOCK, 0)
    two.close()
    assert merged(merge) == []
    one.close()
    assert merged(merge) == [(40, 1)]
    assert merge.horizon_ns == CLOSED


def test_reports_do_not_wait_for_a_worker_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a worker waits for its sockets, its horizon follows the clock, and stops once it wakes."""
    clock = SimpleNamespace(time_ns=lambda: T0 + now)
    monkeypatch.setattr("hopscope.detect.report_queue.time", clock)
    _, (one, two), merge = ends(2)
    now = 10
    two.wake()
    assert merged(merge) == [], "it does not wait yet"
    two.wait()
    one.put(made([10, 20, 30, 40], 0), CLOCK, 0)
    one.advance(T0 + 100)
    assert merged(merge) == [], "it may have woken, with an earlier report"
    now = 20 + MARGIN_NS
    assert merged(merge) == [(10, 0), (20, 0)]
    now = 35
    two.wake()
    assert merged(merge) == [(30, 0)]
    now = 1_000_000_000
    two.put(made([36], 1), CLOCK, 0)
    two.wake()
    assert merged(merge) == []
    two.wait()
    assert merged(merge) == [(36, 1), (40, 0)]


def test_batches_that_overlap_are_interleaved() -> None:
    """Batches of frames from interfaces span some time; a batch is split where its rest is not due yet."""
    _, writers, merge = ends(3)
    times = np.random.default_rng(1).permutation(300)
    expected = []
    for worker, writer in enumerate(writers):
        mine = np.sort(times[worker * 100 : worker * 100 + 100])
        for part in np.array_split(mine, 7):
            writer.put(made(part.tolist(), worker, hops=worker), CLOCK, 0)
        writer.advance(T0 + 137)
        expected += [(time, worker) for time in mine.tolist()]
    expected.sort()
    assert merged(merge) == expected[:138]
    for writer in writers:
        writer.close()
    assert merged(merge) == expected[138:]


def test_nobody_waits_long_for_a_worker_that_hangs() -> None:
    """After WAIT_NS, or in a queue that is half full, reports go on; late ones come when they come."""
    _, (one, _), merge = ends(2)
    one.put(made([10], 0), CLOCK, 1000)
    one.advance(T0 + 30)
    assert merged(merge, 1000 + WAIT_NS) == []
    assert merged(merge, 1001 + WAIT_NS) == [(10, 0)]
    _, (one, two), merge = ends(2)
    for time in range(6):
        one.put(made([time] * 100, 0), CLOCK, 0)
    assert merged(merge) == [(time, 0) for time in range(3) for _ in range(100)]
    two.put(made([0], 1), CLOCK, 0)
    rest = [(time, 0) for time in range(3, 6) for _ in range(100)]
    assert merged(merge, everything=True) == [(0, 1), *rest]


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    """Reports from before the jump wait no longer than for a worker that hangs."""
    _, (one, two), merge = ends(2)
    one.put(made([1_000_000], 0), CLOCK, 0)
    for writer in (one, two):
        writer.put(made([50], 1), CLOCK, 0)
        writer.advance(T0 + 60)
    assert merged(merge) == [(50, 1)]
    assert sorted(merged(merge, 1 + WAIT_NS)) == [(50, 1), (1_000_000, 0)]


@pytest.mark.parametrize("hops", [0, 1, 3, 9])
def test_a_full_queue_loses_whole_batches_and_counts_them(hops: int) -> None:
    """The writer neither waits nor overwrites; with room again it goes on. Taken + lost = put."""
    _, (writer,), merge = ends(1)
    rng = np.random.default_rng(hops)
    time = lost = 0
    taken: list[tuple[int, int]] = []
    for _ in range(200):
        size = int(rng.integers(1, 250))
        lost += writer.put(made(list(range(time, time + size)), 7, hops), CLOCK, 0)
        time += size
        if rng.random() < 0.2:
            taken += merged(merge, everything=True)
    taken += merged(merge, everything=True)
    assert len(taken) + lost == time
    assert lost > 0
    assert taken == sorted(taken)
    assert writer.waiting == 0


def test_a_batch_larger_than_the_queue_is_split() -> None:
    """It comes out whole and in order if its parts fit one after the other; the rest is lost and counted."""
    _, (writer,), merge = ends(1)
    assert writer.put(made(list(range(700)), 3, hops=5), CLOCK, 0) == 0
    assert merged(merge, everything=True) == [(time, 3) for time in range(700)]
    lost = writer.put(made(list(range(5000)), 3), CLOCK, 0)
    assert len(merged(merge, everything=True)) == 5000 - lost > 0


def test_both_ends_continue_after_they_were_killed() -> None:
    """A new writer appends to what is published; a new reader begins with what was not processed."""
    (region,), (writer,), merge = ends(1)
    writer.put(made([1, 2], 0), CLOCK, 0)
    writer.put(made([3, 4, 5], 0), Clock(), 0)  # of another clock: a batch of its own
    writer.advance(T0 + 4)
    batches = merge.batches(0)
    assert len(next(batches)[0]) == 2  # killed while it processes the first batch
    merge = Merge([QueueReader(region)])
    assert merged(merge) == [(1, 0), (2, 0), (3, 0), (4, 0)]
    merge = Merge([QueueReader(region)])
    writer = QueueWriter(region)
    assert merged(merge) == [], "the horizon of a killed worker holds no longer"
    writer.put(made([6], 0), CLOCK, 0)
    writer.close()
    assert merged(merge) == [(5, 0), (6, 0)]


def test_the_clock_of_a_dialect_comes_with_its_reports() -> None:
    """What joins postcards needs it; batches of different clocks are not mixed."""
    _, (one, two), merge = ends(2)
    other = Clock(unit_ns=1000, bits=48)
    one.put(made([1, 3], 0), CLOCK, 0)
    two.put(made([2, 4], 1), other, 0)
    assert [clock for _, clock in merge.batches(0, everything=True)] == [CLOCK, other]


def test_small_batches_become_one() -> None:
    """A batch costs more than its reports if it has few; up to 2,048 reports are joined, in order."""
    _, (one, two), merge = ends(2, 16_384)
    for time in range(0, 6000, 20):
        one.put(made(list(range(time, time + 10)), 0, hops=2), CLOCK, 0)
        two.put(made(list(range(time + 10, time + 20)), 1), CLOCK, 0)
    sizes = []
    for part, _ in merge.batches(0, everything=True):
        assert (np.diff(part.reports["time_ns"]) == 1).all()
        sizes.append(len(part))
    assert sizes == [2040, 2040, 1920]
    assert len(merged(merge, everything=True)) == 0


def test_postcards_keep_their_batches() -> None:
    """A path that is due comes after the batch of its last postcard, so that stays a batch of its own."""
    _, (one, two), merge = ends(2)
    for writer, time in ((one, 1), (two, 2), (one, 3), (two, 4)):
        card = batch([Report([], own=Hop(time), int_version=0, time=time, sequence=time)])
        card.reports["packet_id"] = 7
        writer.put(card, CLOCK, 0)
    assert [len(part) for part, _ in merge.batches(0, everything=True)] == [1, 1, 1, 1]
