"""Labels summed up by port and period against sums over lists."""

from __future__ import annotations

import numpy as np

from hopscope.labels.periods import Periods
from hopscope.wire.label.records import LABEL


def test_periods_have_means_and_highest_values() -> None:
    """Of every port that had labels, each period by itself; what was forgotten is not in it."""
    rng = np.random.default_rng(5)
    periods = Periods(16)
    for period in range(3):
        plain: dict[int, list[tuple[int, int]]] = {}
        for _ in range(50):
            labels = np.zeros(int(rng.integers(1, 30)), LABEL)
            labels["latency_ns"] = rng.integers(0, 2**32, len(labels))
            labels["occupancy"] = rng.integers(0, 2**32, len(labels))
            rows = rng.integers(0, 12 - period, len(labels))
            periods.take(rows, labels)
            for row, latency, occupancy in zip(
                rows.tolist(), labels["latency_ns"].tolist(), labels["occupancy"].tolist(), strict=True
            ):
                plain.setdefault(row, []).append((latency, occupancy))
        periods.forget(np.array([3]))
        del plain[3]
        found = periods.close()
        assert found["row"].tolist() == sorted(plain)
        for one in found:
            latencies, occupancies = zip(*plain[int(one["row"])], strict=True)
            assert one["labels"] == len(latencies)
            assert one["latency"] == sum(latencies) // len(latencies)
            assert one["occupancy"] == sum(occupancies) // len(occupancies)
            assert (one["highest_latency"], one["highest_occupancy"]) == (max(latencies), max(occupancies))
    assert len(periods.close()) == 0
