"""Distributions: the kernels against NumPy, on values that sit on every edge."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.detect.distributions.reader import copy_region
from hopscope.detect.distributions.region import Distributions, log_edges, padded
from hopscope.detect.records import BINS, DISTRIBUTED, NO_PORT
from hopscope.settings.sink import DistributionSettings
from hopscope.wire.records import Flag, Have, IntFlag

pytestmark = pytest.mark.kernel
SECOND = 1_000_000_000

SMALL = DistributionSettings(queues=64, queue_occupancy=(0, 5, 50, 4_000_000_000), end_to_end=(10, 100, 1000))


def _bins(edges: npt.NDArray[np.uint64], values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    return np.bincount(np.searchsorted(edges, values), minlength=BINS)


def test_logarithmic_bins_are_where_they_are_said_to_be() -> None:
    """Every bin's first and last value falls into it, 0 and the largest ones too, and no bin is wider than
    a quarter of its lowest value.
    """
    from hopscope.detect.distributions.distribution_kernel import log_bin

    upper = [int(edge) for edge in log_edges()]
    lower = [0] + [edge + 1 for edge in upper[:-1]]
    for at, (low, high) in enumerate(zip(lower, upper, strict=True)):
        assert [int(log_bin(np.uint64(value))) for value in (low, high)] == [at, at]
        assert at == BINS - 1 or high - low + 1 <= max(1, low / 4)
    assert lower[:9] == list(range(9))


def test_a_batch_is_counted_exactly(make: ModuleType) -> None:
    """Counts, sums, highest and latest values of every queue, and of the paths, are NumPy's of the same
    values, with logarithmic and with configured bins; postcards, cut paths, nulls and rejected reports count
    as far as they tell something.
    """
    draw = np.random.default_rng(5)
    truth: dict[tuple[int, int, int], list[list[int]]] = {}
    paths: list[int] = []
    reports = []
    for _ in range(3000):
        hops, total = [], 0
        for node in draw.choice(5, draw.integers(1, 5), replace=False) + 1:
            values = [int(x) for x in draw.exponential([3000, 20, 1e8]).clip(0, 2**32 - 2)]
            if draw.random() < 0.02:
                values = [2**32 - 2, 0, 5]
            port, queue = int(draw.integers(0, 2)), int(draw.integers(0, 2))
            hop = make.Hop(node, values[0], queue, values[1], utilization=values[2], port=port)
            hops.append(hop)
            total += values[0]
        odd, how = draw.random(), {}
        counted, whole = hops, True
        if odd < 0.05:
            how, counted, whole = {"reason": 3}, [], False
        elif odd < 0.1:
            how, whole = {"int_flags": int(IntFlag.HOPS_EXCEEDED)}, False
        elif odd < 0.15:
            how, counted, whole = {"flags": int(Flag.HELD)}, [], False
        elif odd < 0.2:
            hops[0].null, whole = int(Have.HOP_LATENCY), False
        elif odd < 0.25:
            hops[0].have, counted = int(make.ALL & ~Have.NODE_ID), hops[1:]
        elif odd < 0.3:
            hops[0].have = int(make.ALL & ~Have.PORTS)
        reports.append(make.Report(hops, **how))
        for hop in counted:
            port = hop.port if hop.have & Have.PORTS else NO_PORT
            found = truth.setdefault((int(hop.node), port, hop.queue), [[], [], []])
            for k, value in enumerate((hop.latency, hop.occupancy, hop.utilization)):
                if k or not hop.null:
                    found[k].append(value)
        if whole:
            paths.append(total)
    counts = Distributions(SMALL)
    assert sum(counts.update(make.batch(reports[at : at + 700])) for at in range(0, 3000, 700)) == 0

    bins = counts.bins.reshape(-1, DISTRIBUTED, BINS)
    edges = [log_edges(), padded(SMALL.queue_occupancy), log_edges()]
    used = np.flatnonzero(counts.rows["key"] > 1)
    assert {tuple(row) for row in counts.rows[used][["node_id", "port", "queue_id"]].tolist()} == set(truth)
    for at in used:
        row = counts.rows[at]
        for k, values in enumerate(truth[int(row["node_id"]), int(row["port"]), int(row["queue_id"])]):
            expected = np.array(values, np.uint64)
            assert np.array_equal(bins[at, k], _bins(edges[k], expected))
            assert int(row["sum"][k]) == sum(values)
            assert (int(row["highest"][k]), int(row["latest"][k])) == (max(values), values[-1])
    assert np.array_equal(bins[0, 0], _bins(padded(SMALL.end_to_end), np.array(paths, np.uint64)))
    assert int(counts.rows["sum"][0, 0]) == sum(paths)


def test_a_full_table_rejects_and_continues(make: ModuleType) -> None:
    """Queues beyond the table's room are counted, those in it stay exact, and row 0 stays the paths'."""
    counts = Distributions(DistributionSettings(queues=16))
    batch = make.batch([make.Report(make.path(*range(1, 31)), int_version=20)])
    assert [counts.update(batch), counts.update(batch)] == [15, 15]
    assert counts.rows["key"][0] == 1
    assert sorted(counts.bins.reshape(-1, DISTRIBUTED, BINS).sum(2)[1:, 0].tolist()) == [2] * 15


def _report(make: ModuleType, source: int, nodes: range, seconds: float = 0.0) -> Any:
    """A report of a source about the latency of these switches."""
    return make.Report(make.path(*nodes), int_version=20, source=source, time=int(seconds * SECOND))


def _nodes(counts: Distributions) -> set[int]:
    """Switches in the table."""
    return set(counts.rows["node_id"][1:][counts.rows["key"][1:] != 0].tolist())


def test_a_source_does_not_take_the_table_of_distributions(make: ModuleType) -> None:
    """A full table of one source's rows makes room for another's, up to an equal share; the one that filled
    it takes none of them back, and what stays is exact. Rows that made room are counted.
    """
    counts = Distributions(DistributionSettings(queues=64), secret=b"secret")
    for first in range(1000, 1400, 40):
        counts.update(make.batch([_report(make, 1, range(first, first + 40))]))
    assert _nodes(counts) <= set(range(1000, 1400))
    assert len(_nodes(counts)) == 63
    assert counts.evictions == 0, "a source does not take its own rows"
    wanted = make.batch([_report(make, 2, range(1, 5))])
    assert counts.update(wanted) == 0
    assert _nodes(counts) >= {1, 2, 3, 4}
    assert counts.evictions == 4
    for first in range(2000, 2400, 40):
        counts.update(make.batch([_report(make, 1, range(first, first + 40))]))
    counts.update(wanted)
    assert counts.evictions == 4
    of_node = dict(zip(counts.rows["node_id"].tolist(), range(64), strict=True))
    bins = counts.bins.reshape(-1, DISTRIBUTED, BINS)
    assert [int(bins[of_node[node], 0].sum()) for node in (1, 2, 3, 4)] == [2] * 4


def test_silent_rows_make_room(make: ModuleType) -> None:
    """A row without values for a minute goes to whoever needs it; one that has some stays."""
    counts = Distributions(DistributionSettings(queues=16), secret=b"secret")
    counts.update(make.batch([_report(make, 1, range(1, 16))]))
    assert counts.update(make.batch([_report(make, 1, range(20, 21), 59)])) == 1
    counts.update(make.batch([_report(make, 1, range(1, 6), 59)]))
    assert counts.update(make.batch([_report(make, 1, range(20, 30), 61)])) == 0
    assert _nodes(counts) == {*range(1, 6), *range(20, 30)}
    assert counts.evictions == 10


def test_many_sources_do_not_displace_one_that_reports_steadily(make: ModuleType) -> None:
    """Sources that send once each take rows from one another, hardly any from a steady one."""
    counts = Distributions(DistributionSettings(queues=64), secret=b"secret")
    for second in (0, 2):
        counts.update(make.batch([_report(make, 1, range(1, 64), second)]))
    for source in range(2, 1000):
        counts.update(make.batch([_report(make, source, range(1000 + source, 1001 + source), 3)]))
    assert len(_nodes(counts) & set(range(1, 64))) >= 48


def test_places_in_the_table_depend_on_the_secret(make: ModuleType) -> None:
    """Nobody who does not know it can choose switches that share a row."""
    batch = make.batch([_report(make, 1, range(1, 31))])
    places = []
    for secret in (b"one", b"one", b"two"):
        counts = Distributions(DistributionSettings(queues=1024), secret=secret)
        counts.update(batch)
        places.append(np.flatnonzero(counts.rows["key"]).tolist())
    assert places[0] == places[1] != places[2]


def test_a_row_that_made_room_begins_again_for_readers(make: ModuleType) -> None:
    """What was counted between two moments has none of the queue that had the row before."""
    counts = Distributions(DistributionSettings(queues=16), secret=b"secret")
    counts.update(make.batch([_report(make, 1, range(1, 16))] * 3))
    before = copy_region(counts.region, 0)
    counts.update(make.batch([_report(make, 1, range(1, 6), 59)]))
    counts.update(make.batch([_report(make, 1, range(20, 30), 61)]))
    change = copy_region(counts.region, 0).since(before)
    assert change is not None
    latency = [each for each in change.distributions() if each.node and each.measure == 0]
    assert sorted((each.node, each.count) for each in latency) == [
        *((node, 1) for node in range(1, 6)), *((node, 1) for node in range(20, 30)),
    ]  # fmt: skip
