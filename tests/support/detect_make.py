"""Reports made to measure, and events as plain objects that tests compare."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.detect.records import Kind, Metric
from hopscope.wire.records import HOP, REPORT, Carried, Have, ReportBatch

T0 = 1_700_000_000_000_000_000
ALL = (
    Have.NODE_ID
    | Have.PORTS
    | Have.HOP_LATENCY
    | Have.QUEUE_OCCUPANCY
    | Have.TX_UTILIZATION
    | Have.BUFFER_OCCUPANCY
    | Have.EGRESS_TIME
)


@dataclass
class Hop:
    """One hop; every field that `have` names is there, those in `null` are all ones."""

    node: int = 1
    latency: int = 10
    queue: int = 0
    occupancy: int = 0
    congestion_queue: int = 0
    congestion: int = 0
    utilization: int = 0
    buffer: int = 0
    buffer_occupancy: int = 0
    port: int = 1
    l2_port: int = 0
    ingress_time: int = 0
    egress_time: int = 0
    have: int = ALL
    null: int = 0


@dataclass
class Report:
    """One report; `own` is its own metadata, `flow` a small number that stands for a 5-tuple."""

    hops: list[Hop] = field(default_factory=list)
    flow: int | None = 0
    time: int = 0
    sequence: int = 0
    version: int = 20
    node: int | None = 1
    hw: int = 0
    source: int = 1
    flags: int = 4
    int_flags: int = 0
    int_version: int = 20
    own: Hop | None = None
    drop_reason: int = 0
    queue_id: int | None = None
    switch_time: int | None = None
    reason: int = 0
    place: int = 0
    index: int = 0


def path(*nodes: int, latency: int = 10, **fields: Any) -> list[Hop]:
    """Hops through some nodes."""
    return [Hop(node, latency, **fields) for node in nodes]


def flow_key(flow: int) -> tuple[int, int, int, int, int, int, int, int]:
    """(src_hi, src_lo, dst_hi, dst_lo, sport, dport, proto, ip_version) of a small number."""
    if flow % 3 == 2:
        return (0x20010DB8 << 32, flow, 0x20010DB8 << 32, 99, 1000 + flow, 53, 17, 6)
    return (0, 0xFFFF0A000000 + flow, 0, 0xFFFF0B000000, 1000, 80, 6, 4)


def batch(reports: list[Report]) -> ReportBatch:
    """Reports as a decoder would hand them over."""
    rows = np.zeros(len(reports), REPORT)
    hops: list[Hop] = []
    for row, report in zip(rows, reports, strict=True):
        carried = 0
        row["time_ns"] = T0 + report.time
        row["source_hi"], row["source_lo"] = report.source >> 64, report.source & (1 << 64) - 1
        if report.flow is not None:
            carried |= Carried.FLOW
            names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
            for name, value in zip(names, flow_key(report.flow), strict=True):
                row[name] = value
        if report.node is not None:
            carried |= Carried.NODE_ID
            row["node_id"] = report.node
        if report.queue_id is not None:
            carried |= Carried.QUEUE_ID
            row["queue_id"] = report.queue_id
        if report.switch_time is not None:
            carried |= Carried.INGRESS_TIME
            row["ingress_time"] = report.switch_time
        row["first_hop"], row["hop_count"] = len(hops), len(report.hops)
        hops += report.hops
        if report.own is not None:
            carried |= Carried.OWN_HOP
            hops.append(report.own)
        row["carried"] = carried
        for name in (
            "sequence",
            "version",
            "flags",
            "int_flags",
            "int_version",
            "drop_reason",
            "reason",
            "place",
            "index",
        ):
            row[name] = getattr(report, name)
        row["hw_id"] = report.hw
    return ReportBatch(rows, _hop_rows(hops))


def _hop_rows(hops: list[Hop]) -> npt.NDArray[np.void]:
    rows = np.zeros(len(hops) + 1, HOP)
    fields = {
        "node_id": "node",
        "hop_latency": "latency",
        "queue_id": "queue",
        "queue_occupancy": "occupancy",
        "congestion_queue_id": "congestion_queue",
        "queue_congestion": "congestion",
        "tx_utilization": "utilization",
        "buffer_id": "buffer",
        "buffer_occupancy": "buffer_occupancy",
        "egress_port": "port",
        "l2_egress_port": "l2_port",
        "ingress_time": "ingress_time",
        "egress_time": "egress_time",
        "present": "have",
        "null": "null",
    }
    for row, hop in zip(rows, hops, strict=False):
        for name, attribute in fields.items():
            row[name] = getattr(hop, attribute)
    return rows


@dataclass(frozen=True)
class Event:
    """An event as tests compare it."""

    kind: str
    metric: str
    time: int
    value: int
    previous: int
    flow: tuple[int, ...]
    node: int
    ident: int
    port: int
    hop: int
    hop_count: int
    path: tuple[int, ...]
    reason: int = 0
    switch: int = 0


def events_of(blocks: Iterable[npt.NDArray[np.void]]) -> list[Event]:
    """Events of some blocks, as plain objects."""
    found: list[Event] = []
    for block in blocks:
        for e in block.tolist():
            (
                sequence,
                time,
                switch,
                flow_id,
                value,
                previous,
                src_hi,
                src_lo,
                dst_hi,
                dst_lo,
                node,
                ident,
                nodes,
                sport,
                dport,
                port,
                shard,
                kind,
                metric,
                hop,
                hop_count,
                proto,
                ip_version,
                reason,
                _,
            ) = e
            assert (flow_id != 0) == (ip_version != 0)
            flow = (src_hi, src_lo, dst_hi, dst_lo, sport, dport, proto, ip_version)
            found.append(
                Event(
                    Kind(kind).label,
                    Metric(metric).label,
                    time - T0,
                    value,
                    previous,
                    flow,
                    node,
                    ident,
                    port,
                    hop,
                    hop_count,
                    tuple(int(node) for node in nodes),
                    reason,
                    switch,
                )
            )
            del sequence, shard
    return found


def run(detector: Any, reports: list[Report]) -> list[Event]:
    """Events of a detector for some reports."""
    return events_of(detector.update(batch(reports)))


def brief(events: Iterable[Event]) -> list[tuple[str, str, int]]:
    """Kind, metric and value of events."""
    return [(event.kind, event.metric, event.value) for event in events]
