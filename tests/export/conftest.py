"""Short pauses between attempts, and regions as workers make them, filled by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.flows.tables import arrays_of
from hopscope.detect.records import (
    HOP_STATE,
    INLINE_HOPS,
    NO_VALUE,
    POOL_HOPS,
    STATE_VERSION,
    WAYS,
    FlowState,
)
from hopscope.export import delivery
from hopscope.memory.region import Region
from hopscope.settings.detect import DetectSettings

MAPPED = 0xFFFF << 32


class Tables:
    """The flow table of one worker, written as a detector writes it."""

    def __init__(self, regions: Path, shard: int = 0, rows: int = 64) -> None:
        settings = DetectSettings(flow_rows=rows, hop_pool=64)
        path = regions / f"worker-{shard}.flows"
        self.region = Region.create(path, "flows", STATE_VERSION, arrays_of(settings)["flows"])
        self.rows, self.flows, self.hops = (self.region[name] for name in ("rows", "flows", "hops"))
        self.mask = rows - 1
        self.blocks = 0

    def put(self, flow_id: int, packets: int, last_ns: int, nodes: list[int]) -> None:
        """Make a flow live, or change it; its values follow from its id and packets."""
        row = flow_id & self.mask
        mine = self.flows[row * WAYS : (row + 1) * WAYS]
        used = (self.rows["tag"][row] != 0) & (mine["flow_id"] == flow_id)
        way = int(np.argmax(used)) if used.any() else int(np.argmin(self.rows["tag"][row] != 0))
        at = row * WAYS + way
        self.rows["version"][row] += 1
        flow = self.flows[at]
        block = int(flow["pool_block"]) if used.any() else 0
        if len(nodes) > INLINE_HOPS and not block:
            self.blocks += 1
            block = self.blocks
        flow["pool_block"] = block
        flow["flow_id"], flow["packets"], flow["last_ns"] = flow_id, packets, last_ns
        flow["first_ns"] = 1_000
        flow["src_lo"], flow["dst_lo"] = MAPPED | flow_id & 0xFFFFFFFF, MAPPED | 0x0A000001
        flow["sport"], flow["dport"], flow["proto"], flow["ip_version"] = flow_id & 0xFFFF, 80, 6, 4
        flow["hop_count"], flow["state"] = len(nodes), FlowState.HAS_PATH | FlowState.HAS_LATENCY
        flow["latency_latest"], flow["latency_sum"], flow["latency_samples"] = (
            7 * packets,
            9 * packets,
            packets,
        )
        hops = np.zeros(len(nodes), HOP_STATE)
        hops["node_id"], hops["egress_port"] = nodes, np.arange(len(nodes))
        hops["state"] = np.arange(len(nodes)) % 8
        hops["latency_latest"], hops["queue_latest"], hops["utilization_latest"] = packets, 2, 3
        hops["queue_latest"][hops["node_id"] % 2 == 0] = NO_VALUE
        hops["samples"] = packets
        hops["latency_sum"], hops["queue_sum"] = 5 * packets + 1, 4 * packets
        hops["utilization_sum"] = packets
        self.hops[at * INLINE_HOPS :][: min(len(nodes), INLINE_HOPS)] = hops[:INLINE_HOPS]
        if block:
            pool = self.hops[len(self.flows) * INLINE_HOPS + (block - 1) * POOL_HOPS :]
            pool[: max(0, len(nodes) - INLINE_HOPS)] = hops[INLINE_HOPS:]
        self.rows["tag"][row, way] = 1
        self.rows["version"][row] += 1

    def drop(self, flow_id: int) -> None:
        """Make a flow leave the table."""
        row = flow_id & self.mask
        for way in range(WAYS):
            if self.flows["flow_id"][row * WAYS + way] == flow_id:
                self.rows["tag"][row, way] = 0


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MIN_PAUSE", 0.01)
    monkeypatch.setattr(delivery, "MAX_PAUSE", 0.1)


@pytest.fixture
def regions(tmp_path: Path) -> Path:
    """Folder of the regions of a data folder."""
    folder = tmp_path / "regions"
    folder.mkdir()
    return folder


@pytest.fixture
def tables(regions: Path) -> Callable[..., Tables]:
    """Makes flow tables below `regions`."""
    return lambda shard=0, rows=64: Tables(regions, shard, rows)
