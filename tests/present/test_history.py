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
    flows["latency_latest"] = [90, 0, 360]
    state: Any = SimpleNamespace(flows=lambda: flows)
    rows: list[dict[str, Any]] = [
        {"flow_id": 2**63 + 1, "packets": 20, "mean_latency": 500.0, "highest_latency": 350},
        {"flow_id": 5, "packets": None, "mean_latency": None, "highest_latency": None},
        {"flow_id": 6, "packets": 3, "mean_latency": 4.0, "highest_latency": 6},
    ]
    found = [
        (row["packets"], row["mean_latency"], row["highest_latency"])
        for row in with_live(rows, state, EventFilter())
    ]
    assert found == [(50, 350.0, 360), (7, None, None), (3, 4.0, 6)]
    assert list(with_live(rows, state, EventFilter(end_ns=9))) == rows


def test_no_flow_has_a_mean_above_its_highest_latency() -> None:
    """Values within T of the stored one are no events, but are in the mean."""
    flows = np.zeros(1, FLOW)
    flows["flow_id"], flows["packets"], flows["latency_latest"] = 5, 2, 400
    flows["latency_samples"], flows["latency_sum"] = 2, 9401
    state: Any = SimpleNamespace(flows=lambda: flows)
    rows = [{"flow_id": 5, "packets": None, "mean_latency": None, "highest_latency": 300}]
    (row,) = with_live(rows, state, EventFilter())
    assert (row["mean_latency"], row["highest_latency"]) == (4700.5, 4701)
