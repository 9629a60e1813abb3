"""Event records as the JSON objects of the API, the live feed and the webhooks; text of what they hold."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

import numpy as np

from ..detect.records import NO_NODE, NO_PORT, PATH_PART, Kind, Metric
from ..wire.address import address

Number = TypeVar("Number", int, float)
SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader keeps exact (RFC 8259 §6)."""
_KINDS = {kind.value: kind.label for kind in Kind}
_METRICS = {metric.value: metric.label for metric in Metric}
_OF_SOURCE = {Kind.SILENT, Kind.RETURNED, Kind.GAP}
_QUEUED = {Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION, Metric.BUFFER_OCCUPANCY}
_UNITS = {Metric.FLOW_LATENCY: "ns", Metric.HOP_LATENCY: "ns"}


class Naming(Protocol):
    """What nodes and ports are called (`hopscope.base.names.Names`)."""

    def node(self, node_id: int) -> str | None:
        """Name of a node, or None."""
        ...

    def port(self, node_id: int, port: int) -> str | None:
        """Name of a port, or None."""
        ...


def when(time_ns: int) -> str:
    """RFC 3339 time with nanoseconds, UTC."""
    seconds, rest = divmod(int(time_ns), 10**9)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (ValueError, OverflowError, OSError):
        return "1970-01-01T00:00:00.000000000Z"


def wide(value: Number) -> Number | str:
    """A 64-bit number for JSON: text where a reader's double would round it."""
    return value if -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)


def unit(metric: int) -> str | None:
    """Unit of a metric's values; None: as the source sends them."""
    return _UNITS.get(metric)  # type: ignore[call-overload,no-any-return]


def flow_object(row: np.void) -> dict[str, Any]:
    """5-tuple of a FLOW or EVENT record; the id is 16 hexadecimal digits."""
    return {
        "id": f"{int(row['flow_id']):016x}",
        "src": address(int(row["src_hi"]), int(row["src_lo"])),
        "dst": address(int(row["dst_hi"]), int(row["dst_lo"])),
        "proto": int(row["proto"]),
        "sport": int(row["sport"]),
        "dport": int(row["dport"]),
    }


def node_object(names: Naming, node_id: int) -> dict[str, Any]:
    """A switch with its name."""
    return {"id": int(node_id), "name": names.node(node_id)}


def event_object(row: np.void, names: Naming) -> dict[str, Any]:
    """One EVENT record; every key is there, null where it has no meaning."""
    kind, metric, node_id, port = (int(row[name]) for name in ("kind", "metric", "node_id", "port"))
    node = node_object(names, node_id) if node_id != NO_NODE else None
    of_source = kind in _OF_SOURCE
    path = source = None
    if metric == Metric.FLOW_PATH or kind == Kind.LOOP:
        count = max(0, min(PATH_PART, int(row["hop_count"]) - int(row["hop"])))
        path = [node_object(names, each) for each in row["path"][:count].tolist()]
    if of_source:
        sender = address(int(row["src_hi"]), int(row["src_lo"]))
        source = {"address": sender, "node": node, "hw_id": int(row["ident"])}
    at_port = node is not None and not of_source and port != NO_PORT
    return {
        "id": f"{int(row['shard'])}-{int(row['sequence'])}",
        "time": when(row["time_ns"]),
        "kind": _KINDS.get(kind, str(kind)),
        "metric": _METRICS.get(metric, str(metric)),
        "value": wide(int(row["value"])),
        "previous": wide(int(row["previous"])),
        "unit": unit(metric),
        "flow": flow_object(row) if row["flow_id"] and not of_source else None,
        "node": None if of_source else node,
        "port": {"id": port, "name": names.port(node_id, port)} if at_port else None,
        "queue": int(row["ident"]) if metric in _QUEUED else None,
        "hop": int(row["hop"]) if metric == Metric.HOP_LATENCY else None,
        "path": path,
        "source": source,
    }
