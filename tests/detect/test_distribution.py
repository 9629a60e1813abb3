"""Distributions: the kernels against NumPy, on values that sit on every edge."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.detect.distributions.region import Distributions, log_edges, padded
from hopscope.detect.records import BINS, DISTRIBUTED, NO_PORT
from hopscope.settings.sink import DistributionSettings
from hopscope.wire.records import Flag, Have, IntFlag

pytestmark = pytest.mark.kernel

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
