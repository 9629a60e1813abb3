"""Reports of a fat tree of 1,280 switches, and of changes in it: what the console is loaded with."""

from __future__ import annotations

import numpy as np

from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, Records, ReportBatch

PODS = 32
HALF = PODS // 2
EDGES = AGGS = PODS * HALF
SWITCHES = EDGES + AGGS + HALF * HALF
"""512 edge, 512 aggregation and 256 core switches."""
HOPS = 5
CHANGED = 500
"""Flows of which one hop is slow now and then: two events each (hop and flow), and two when it is not."""
SLOW_NS = 2_000_000
_INSTRUCTIONS = 0b1111_0001_0000_0000
_MAPPED = 0xFFFF << 32
_SLICE = 10_000


class ConsoleFabric:
    """Datagrams of Telemetry Report 2.0, one report each, with node ids, ports, latency, queue and link."""

    def __init__(self, flows: int, seed: int = 1) -> None:
        reports, hops = _traffic(flows, seed)
        self._steady = _Frames(reports, hops)
        chosen = np.random.default_rng(seed + 1).choice(flows, CHANGED, replace=False)
        slow = hops.reshape(flows, HOPS)[chosen].copy()
        slow["hop_latency"][:, 2] += SLOW_NS
        changed = reports[chosen].copy()
        changed["first_hop"] = HOPS * np.arange(CHANGED)
        self._slow = _Frames(changed, slow.reshape(-1))
        self._next = 0
        self._at = 0
        self._is_slow = False

    def steady(self) -> FrameBatch:
        """The next slice of the flows."""
        batch = self._steady.part(self._at, _SLICE, self._next)
        self._next += len(batch)
        self._at = (self._at + len(batch)) % len(self._steady)
        return batch

    def changes(self) -> FrameBatch:
        """CHANGED flows with a slow hop."""
        batch = self._slow.part(0, CHANGED, self._next)
        self._next += len(batch)
        return batch

    def __len__(self) -> int:
        return len(self._steady)


class _Frames:
    """Datagrams of one length, whose sequence numbers are written again before they are sent."""

    def __init__(self, reports: Records, hops: Records) -> None:
        self._frames = encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD)
        self._starts = self._frames.frames["offset"].astype(np.int64)

    def __len__(self) -> int:
        return len(self._frames)

    def part(self, at: int, count: int, sequence: int) -> FrameBatch:
        """`count` datagrams from `at` on, numbered from `sequence` on (Report 2.0: 4 + 6 + 22 bits)."""
        end = min(len(self), at + count)
        numbers = (sequence + np.arange(end - at)) & 0x3FFFFF
        words = ((2 << 28) | numbers).astype(">u4").view(np.uint8).reshape(-1, 4)
        self._frames.arena[self._starts[at:end, None] + np.arange(4)] = words
        return FrameBatch(self._frames.arena, self._frames.frames[at:end])


def _traffic(flows: int, seed: int) -> tuple[Records, Records]:
    """Reports and hops of flows between random edges, over a random core."""
    random = np.random.default_rng(seed)
    reports = new_reports(flows)
    reports["source_lo"] = _MAPPED | 0x7F000001
    ends = random.integers(0, EDGES, (2, flows))
    hosts = random.integers(0, HALF, (2, flows))
    for side, edge, host in zip(("src", "dst"), ends, hosts, strict=True):
        reports[f"{side}_lo"] = (_MAPPED | 10 << 24) + (edge << 8) + host
    reports["sport"], reports["dport"] = random.integers(1024, 65_535, flows), 443
    reports["proto"], reports["ip_version"], reports["int_version"] = 6, 4, 20
    reports["carried"] = Carried.FLOW | Carried.PORTS | Carried.NODE_ID
    reports["node_id"] = 1
    reports["instructions"], reports["hop_count"] = _INSTRUCTIONS, HOPS
    reports["first_hop"] = HOPS * np.arange(flows)
    up, core = random.integers(0, HALF, (2, flows))
    source, destination = ends[0] // HALF, ends[1] // HALF
    hops = new_hops(flows * HOPS, _INSTRUCTIONS)
    rows = hops.reshape(flows, HOPS)
    nodes = (
        1 + ends[0],
        1 + EDGES + source * HALF + up,
        1 + EDGES + AGGS + up * HALF + core,
        1 + EDGES + destination * HALF + up,
        1 + ends[1],
    )
    ports = (1 + HALF + up, 1 + HALF + core, 1 + destination, 1 + ends[1] % HALF, 1 + hosts[1])
    for at, (node, port) in enumerate(zip(nodes, ports, strict=True)):
        rows["node_id"][:, at], rows["egress_port"][:, at] = node, port
    rows["ingress_port"] = 1
    rows["hop_latency"] = random.integers(600, 9000, rows.shape)
    rows["queue_id"], rows["queue_occupancy"] = 0, 3
    rows["tx_utilization"] = 300
    return reports, hops
