"""Flows of history beside those that are live."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from hopscope.detect.records import FLOW
from hopscope.present.history import with_live
from hopscope.present.select import EventFilter


def test_packets_of_live_flows_are_added() -> None:
    """To those of their records; a flow in two tables counts in both, and none in a time that has ended."""
    flows = np.zeros(3, FLOW)
    flows["flow_id"], flows["packets"] = [2**63 + 1, 5, 2**63 + 1], [10, 7, 20]
    flows["latency_samples"], flows["latency_sum"] = [10, 0, 10], [1000, 0, 3000]
    state: Any = SimpleNamespace(flows=lambda: flows)
    rows: list[dict[str, Any]] = [
        {"flow_id": 2**63 + 1, "packets": 20, "mean_latency": 500.0},
        {"flow_id": 5, "packets": None, "mean_latency": None},
        {"flow_id": 6, "packets": 3, "mean_latency": 4.0},
    ]
    found = [(row["packets"], row["mean_latency"]) for row in with_live(rows, state, EventFilter())]
    assert found == [(50, 350.0), (7, None), (3, 4.0)]
    assert list(with_live(rows, state, EventFilter(end_ns=9))) == rows
