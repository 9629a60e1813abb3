"""Quantiles against NumPy's of the values themselves; regions as other processes read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.detect.distributions.quantiles import LOG_ERROR, Distribution, grouped, merged
from hopscope.detect.distributions.reader import DistributionReader, bounds
from hopscope.detect.distributions.region import Distributions, log_edges, padded
from hopscope.detect.records import BINS, DISTRIBUTED, MAX_LATENCY, NO_PORT
from hopscope.detect.sink.records import Measure
from hopscope.memory.region import Region
from hopscope.settings.sink import DistributionSettings

DRAW = np.random.default_rng(11)


def _of(values: np.ndarray, edges: np.ndarray, **place: int) -> Distribution:
    bins = np.bincount(np.searchsorted(edges, values), minlength=BINS).astype(np.uint64)
    used = np.flatnonzero(bins)
    lower, upper = bounds(edges)
    measure = Measure(place.pop("measure", 0))
    return Distribution(
        measure, lower[used], upper[used], bins[used], int(values.sum()), int(values.max()), **place
    )


@pytest.mark.parametrize("edges", [(), (10, 100, 1000, 5000), (0,)])
def test_quantiles_hold_the_true_ones(edges: tuple[int, ...]) -> None:
    """The true quantile is in the interval, the estimate too; of logarithmic bins both are near it; the mean
    is exact.
    """
    for size in (1, 2, 7, 1000, 30_000):
        values = DRAW.exponential(3000, size).astype(np.uint64)
        one = _of(values, padded(edges))
        assert one.count == size
        assert one.mean == pytest.approx(values.mean(), rel=1e-12)
        for q in (0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1):
            found = one.quantile(q)
            true = int(np.quantile(values, q, method="inverted_cdf"))
            assert found is not None
            assert found.upper is not None
            assert found.lower <= true <= found.upper <= values.max(), (size, q)
            assert found.lower <= found.estimate <= found.upper
            if not edges:
                assert abs(found.estimate - true) <= LOG_ERROR * true


def test_distributions_of_different_bins_join() -> None:
    """After a change of the edges, quantiles over both are intervals that hold the true ones."""
    before, after = (
        DRAW.exponential(2000, 5000).astype(np.uint64),
        DRAW.exponential(900, 3000).astype(np.uint64),
    )
    one = merged([_of(before, padded((50, 700, 9000))), _of(after, log_edges())])
    both = np.concatenate([before, after])
    assert (one.count, one.sum, one.highest) == (8000, int(both.sum()), int(both.max()))
    for q in (0.01, 0.3, 0.5, 0.9, 0.999):
        found = one.quantile(q)
        assert found is not None
        assert found.upper is not None
        assert found.lower <= int(np.quantile(both, q, method="inverted_cdf")) <= found.upper


def test_without_values_or_without_an_end() -> None:
    """Nothing counted has no quantiles; a maximum that could not be kept leaves the last bin open."""
    empty = _of(np.array([5], np.uint64), log_edges())
    empty.counts[:] = 0
    assert (empty.mean, empty.quantile(0.5)) == (None, None)
    long = _of(np.array([1 << 40], np.uint64), log_edges(), measure=Measure.END_TO_END)
    long.highest = MAX_LATENCY
    found = long.quantile(0.5)
    assert found is not None
    assert found.upper is None
    assert found.lower > MAX_LATENCY
    with pytest.raises(ValueError, match="found a quantile of 2, expected 0 to 1"):
        empty.quantile(2)


def test_views_are_sums_of_queues() -> None:
    """By port, switch and network, the values are those of all queues of it, and no more."""
    draws = {
        place: DRAW.exponential(100 * sum(place) + 50, 200).astype(np.uint64)
        for place in [(1, 1, 0), (1, 1, 3), (1, 2, 0), (2, 1, 0)]
    }
    parts = [
        _of(values, log_edges(), node=node, port=port, queue=queue)
        for (node, port, queue), values in draws.items()
    ]
    for by, places in {
        "queue": list(draws),
        "port": [(1, 1), (1, 2), (2, 1)],
        "switch": [(1,), (2,)],
        "network": [()],
    }.items():
        found = grouped(parts, by)  # type: ignore[arg-type]  # the four views
        assert [tuple(n for n in (one.node, one.port, one.queue) if n is not None) for one in found] == places
        for one, place in zip(found, places, strict=True):
            values = np.concatenate([v for at, v in draws.items() if at[: len(place)] == place])
            expected = _of(values, log_edges())
            assert (one.lower.tolist(), one.counts.tolist(), one.sum) == (
                expected.lower.tolist(),
                expected.counts.tolist(),
                expected.sum,
            )


def _count(counts: Distributions, slot: int, node: int, values: list[int], port: int = 1) -> None:
    row = counts.rows[slot]
    row["key"], row["node_id"], row["port"] = 1 << 63 | slot, node, port
    row["sum"][0] += sum(values)
    row["highest"][0] = max(int(row["highest"][0]), *values)
    bins = counts.bins.reshape(-1, DISTRIBUTED, BINS)
    np.add.at(bins[slot, 0], np.searchsorted(log_edges(), values), 1)


def test_shards_are_merged_and_differences_taken(tmp_path: Path) -> None:
    """A queue that two workers saw is one distribution; what was counted between two moments is exact, a
    counter that fell is no continuation, and a region recreated counts from the start.
    """
    settings = DistributionSettings(queues=16)
    workers = [Distributions(settings, tmp_path, shard) for shard in range(2)]
    _count(workers[0], 3, 7, [10, 20])
    _count(workers[1], 5, 7, [30])
    _count(workers[1], 6, 8, [5], port=NO_PORT)
    reader = DistributionReader.attach(tmp_path)
    found = grouped(reader.distributions(), "queue")
    assert [(one.node, one.port, one.count, one.sum) for one in found] == [(7, 1, 3, 60), (8, None, 1, 5)]

    before = reader.counts()[1]
    _count(workers[1], 6, 8, [9, 900], port=NO_PORT)
    now = reader.counts()[1]
    change = now.since(before)
    assert change is not None
    assert [(one.node, one.count, one.sum) for one in change.distributions()] == [(8, 2, 909)]
    assert before.since(now) is None
    other = now.since(reader.counts()[0])
    assert other is not None
    assert sorted((one.node, one.count) for one in other.distributions()) == [(7, 1), (8, 3)]

    workers[1] = Distributions(DistributionSettings(queues=16, hop_latency=(1, 2)), tmp_path, 1)
    assert not reader.is_current()
    assert [one.count for one in DistributionReader.attach(tmp_path).distributions()] == [2]
    assert Distributions(settings, tmp_path, 0).rows["sum"][3, 0] == 30, "the same settings continue a region"


def test_foreign_regions_are_rejected(tmp_path: Path) -> None:
    """A file that is no region, or one with other arrays, is reported in one line; a writer keeps off it."""
    path = tmp_path / "worker-0.distributions"
    Region.create(path, "distributions", 2, {"rows": (np.uint64, 3)}).close()
    with pytest.raises(HopscopeError, match="its arrays are not those of distributions"):
        DistributionReader.attach(tmp_path)
    path.write_bytes(b"something else")
    with pytest.raises(HopscopeError, match="not a Hopscope region"):
        DistributionReader.attach(tmp_path)
    with pytest.raises(HopscopeError, match="not a Hopscope region"):
        Distributions(DistributionSettings(), tmp_path)
