"""Reports made to measure, and events as plain objects that tests compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


_OF_REPORT = {"hw_id": "hw"} | {
    name: name
    for name in (
        "sequence", "version", "flags", "int_flags", "int_version", "drop_reason", "reason", "place", "index",
    )
}  # fmt: skip
"""Fields of REPORT that any report has, and what they are here."""
_IF_CARRIED = {
    "node_id": ("node", Carried.NODE_ID),
    "queue_id": ("queue_id", Carried.QUEUE_ID),
    "ingress_time": ("switch_time", Carried.INGRESS_TIME),
}
_OF_HOP = {
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


def batch(reports: list[Report]) -> ReportBatch:
    """Reports as a decoder would hand them over."""
    rows = np.zeros(len(reports), REPORT)
    hops: list[Hop] = []
    firsts = []
    for report in reports:
        firsts.append(len(hops))
        hops += report.hops
        if report.own is not None:
            hops.append(report.own)
    _set(rows, "first_hop", firsts)
    _set(rows, "hop_count", [len(report.hops) for report in reports])
    _set(rows, "time_ns", [T0 + report.time for report in reports])
    _set(rows, "source_hi", [report.source >> 64 for report in reports])
    _set(rows, "source_lo", [report.source & (1 << 64) - 1 for report in reports])
    keys = [(0,) * 8 if report.flow is None else flow_key(report.flow) for report in reports]
    names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
    for name, values in zip(names, zip(*keys, strict=True), strict=bool(keys)):
        _set(rows, name, values)
    for name, attribute in _OF_REPORT.items():
        _set(rows, name, [getattr(report, attribute) for report in reports])
    carried = np.array(
        [
            (report.flow is not None and Carried.FLOW) | (report.own is not None and Carried.OWN_HOP)
            for report in reports
        ],
        np.int64,
    )
    for name, (attribute, bit) in _IF_CARRIED.items():
        found = [getattr(report, attribute) for report in reports]
        _set(rows, name, [value or 0 for value in found])
        carried |= np.array([value is not None for value in found], np.int64) * int(bit)
    rows["carried"] = carried
    return ReportBatch(rows, _hop_rows(hops))


def _set(rows: npt.NDArray[np.void], name: str, values: Sequence[int]) -> None:
    rows[name][: len(values)] = np.array(values, rows.dtype[name])


def _hop_rows(hops: list[Hop]) -> npt.NDArray[np.void]:
    rows = np.zeros(len(hops) + 1, HOP)
    for name, attribute in _OF_HOP.items():
        _set(rows, name, [getattr(hop, attribute) for hop in hops])
    return rows


class Event(NamedTuple):
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


_KINDS = {kind.value: kind.label for kind in Kind}
_METRICS = {metric.value: metric.label for metric in Metric}


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
                    _KINDS[kind],
                    _METRICS[metric],
                    time - T0,
                    value,
                    previous,
                    flow,
                    node,
                    ident,
                    port,
                    hop,
                    hop_count,
                    tuple(nodes.tolist()),
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
