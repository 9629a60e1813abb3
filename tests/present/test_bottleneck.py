"""Latency of a flow by hop, with what its queues have now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hopscope.detect.bottleneck.shares import Gauge
from hopscope.detect.flows.reading.flow_hops import FlowHops
from hopscope.detect.records import FLOW, HOP_STATE, NO_PORT, NO_VALUE, PORT, PortKind
from hopscope.present.bottleneck.answer import flow


@pytest.mark.parametrize("by_port", [False, True])
def test_a_hop_whose_port_is_unknown_has_the_occupancy_of_its_queue(by_port: bool) -> None:
    """Reports without ports have queues; that of the next switch is another."""
    rows = np.zeros(2, PORT)
    rows["kind"], rows["state"], rows["node_id"], rows["port"], rows["ident"] = (
        PortKind.QUEUE,
        1,
        (2, 3),
        NO_PORT,
        7,
    )
    rows["latest"][:, 0], rows["highest"][:, 0] = (10, 20), (11, 21)
    place = np.uint64(7 | (NO_PORT << 8 if by_port else 0))
    rows["key"] = place << np.uint64(32) | rows["node_id"].astype(np.uint64)
    hops = np.zeros(2, HOP_STATE)
    hops["node_id"], hops["egress_port"], hops["state"] = (2, 3), NO_PORT, 1
    hops["latency_latest"], hops["queue_latest"] = (200, 100), NO_VALUE
    path = FlowHops(np.zeros(1, FLOW), hops, np.zeros(2, np.int64), np.arange(2), np.array([7, 7]))
    state = SimpleNamespace(distributions=list, path_of=lambda row: path, ports=lambda: rows)
    found = flow(cast(Any, state), None, path.flows[0], None)
    assert [(hop.place, hop.occupancy) for hop in found.items] == [
        ((2, None, 7), Gauge(10, None, 11)),
        ((3, None, 7), Gauge(20, None, 21)),
    ]
