"""An event, given as a record or a row of history, as JSON and as texts for a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ..detect.records import NO_NODE, NO_PORT, OF_SOURCE, PATH_PART, ClearReason, Kind, Metric
from ..wire.address import address
from ..wire.records import Records
from .units import amount, flow_text

Number = TypeVar("Number", int, float)
SAFE_INTEGER = 2**53 - 1
"""Largest integer that every JSON reader represents exactly (RFC 8259 §6)."""
_KINDS = {kind.value: kind.label for kind in Kind}
_REASONS = {reason.value: reason.label for reason in ClearReason}
_METRICS = {metric.value: metric.label for metric in Metric}
_OF_SOURCE = {kind.label for kind in OF_SOURCE}
_MOVED = {Kind.MOVED.label, Kind.SOURCE_MOVED.label}
_OF_QUEUES = (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION, Metric.BUFFER_OCCUPANCY)
_OF_PACKETS = (Kind.DROP, Kind.QUEUE_REPORT)
_QUEUE_METRICS, _PACKET_KINDS = {metric.label for metric in _OF_QUEUES}, {kind.label for kind in _OF_PACKETS}
_IN_NS = (Metric.FLOW_LATENCY, Metric.HOP_LATENCY, Metric.LABEL_LATENCY, Metric.LABEL_AGE)
_UNITS = {
    **{metric.label: "ns" for metric in _IN_NS},
    Metric.LABEL_OCCUPANCY.label: "bytes",
    Metric.LABEL_COVERAGE.label: "ppm",
}
_TUPLE = ("src", "dst", "proto", "sport", "dport")
Fields = dict[str, Any]
LongPaths = dict[tuple[int, int], list[int]]
"""Node ids of a path, by shard and sequence of its event."""
NO_PATHS: Mapping[tuple[int, int], list[int]] = MappingProxyType({})


class Naming(Protocol):
    """Names of nodes and ports (`hopscope.base.names.Names`)."""

    def node(self, node_id: int) -> str | None:
        """Name of a node, or None."""
        ...

    def port(self, node_id: int, port: int) -> str | None:
        """Name of a port, or None."""
        ...


@overload
def when(time_ns: int) -> str: ...


@overload
def when(time_ns: int | None) -> str | None: ...


def when(time_ns: int | None) -> str | None:
    """RFC 3339 time with nanoseconds, UTC; just the number if it is outside the calendar's range. None stays
    None.
    """
    if time_ns is None:
        return None
    seconds, rest = divmod(int(time_ns), 10**9)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (ValueError, OverflowError, OSError):
        return str(int(time_ns))


def when_seconds(time_ns: int) -> str:
    """As `when`, without fractions of a second."""
    return when(time_ns - time_ns % 10**9).replace(".000000000", "")


@overload
def wide(value: Number) -> Number | str: ...


@overload
def wide(value: Number | None) -> Number | str | None: ...


def wide(value: Any) -> Any:
    """A 64-bit number for JSON: as text if a reader's double would round it. None stays None."""
    return value if value is None or -SAFE_INTEGER <= value <= SAFE_INTEGER else str(value)


def all_wide(value: Any) -> Any:
    """Any JSON value, with `wide` applied to all integers in it."""
    if isinstance(value, dict):
        return {key: all_wide(item) for key, item in value.items()}
    if isinstance(value, list):
        return [all_wide(item) for item in value]
    return wide(value) if isinstance(value, int) else value


def continues(events: Records) -> npt.NDArray[np.bool_]:
    """bool [events]: the record continues the path of an event whose first record came before it."""
    return (events["metric"] == Metric.FLOW_PATH) & (events["hop"] > 0)


def long_paths(events: Records) -> LongPaths:
    """Paths of more than PATH_PART nodes, from all records of their events."""
    rows = events[(events["metric"] == Metric.FLOW_PATH) & (events["hop_count"] > PATH_PART)]
    found: LongPaths = {}
    for row in rows:
        hop = int(row["hop"])
        key = int(row["shard"]), int(row["sequence"]) - hop // PATH_PART
        if hop == len(found.get(key, ())):
            found.setdefault(key, []).extend(row["path"][: int(row["hop_count"]) - hop].tolist())
    return found


def with_queue(events: Records) -> npt.NDArray[np.bool_]:
    """bool [events]: whether `ident` is a queue or a buffer."""
    of_packets, of_queues = np.isin(events["kind"], _OF_PACKETS), np.isin(events["metric"], _OF_QUEUES)
    return _has_queue(of_packets, of_queues, events["ident"], events["value"])


def _queue(row: Fields) -> int | None:
    """The queue or buffer of a row of history, or None."""
    of_packets, of_queues = row["kind"] in _PACKET_KINDS, row["metric"] in _QUEUE_METRICS
    return row["ident"] if _has_queue(of_packets, of_queues, row["ident"], row["value"]) else None


def _has_queue(of_packets: Any, of_queues: Any, ident: Any, value: Any) -> Any:
    """Whether `ident` is a queue or a buffer, for one event or an array of them: the one that the metric
    measures, or in which the packet was dropped or met congestion. Queue 0 without a drop reason does not
    count, since a report that states neither looks the same.
    """
    return of_queues | of_packets & ((ident != 0) | (value != 0))


def unit(metric: int) -> str | None:
    """Unit of a metric's values; None: the unit that the source uses."""
    return _UNITS.get(_METRICS.get(metric, ""))


def flow_object(row: np.void) -> dict[str, Any]:
    """5-tuple of a FLOW or EVENT record; the id is 16 hexadecimal digits."""
    return {
        "id": f"{int(row['flow_id']):016x}",
        "src": address(int(row["src_hi"]), int(row["src_lo"])),
        "dst": address(int(row["dst_hi"]), int(row["dst_lo"])),
        **{name: int(row[name]) for name in ("proto", "sport", "dport")},
    }


def flow_key(row: Fields) -> dict[str, Any] | None:
    """The 5-tuple of a row of history as JSON; None if the row has no flow."""
    if row["flow_id"] is None:
        return None
    return {"id": f"{row['flow_id']:016x}", **{name: row[name] for name in _TUPLE}}


def node_object(names: Naming, node_id: int) -> dict[str, Any]:
    """A switch and its name, as JSON."""
    return {"id": int(node_id), "name": names.node(node_id)}


def port_object(names: Naming, node_id: int | None, port: int | None) -> dict[str, Any] | None:
    """A port and its name, as JSON; None if the switch or the port is unknown."""
    return None if node_id is None or port is None else {"id": port, "name": names.port(node_id, port)}


def event_fields(row: np.void) -> Fields:
    """An EVENT record as a row of history, with the columns of `history.columns`; None for missing values."""
    kind, metric = int(row["kind"]), int(row["metric"])
    node_id, port, flow_id = int(row["node_id"]), int(row["port"]), int(row["flow_id"])
    path = None
    if metric == Metric.FLOW_PATH or kind == Kind.LOOP:
        path = row["path"][: max(0, min(PATH_PART, int(row["hop_count"]) - int(row["hop"])))].tolist()
    return {
        "time": when(row["time_ns"]),
        "kind": _KINDS.get(kind, str(kind)),
        "metric": _METRICS.get(metric, str(metric)),
        "node_id": None if node_id == NO_NODE else node_id,
        "port": None if port == NO_PORT else port,
        "ident": int(row["ident"]),
        "value": int(row["value"]),
        "previous": int(row["previous"]),
        "reason": _REASONS.get(int(row["reason"]), "unknown") if kind == Kind.CLEARED else None,
        "switch_ns": int(row["switch_ns"]) or None,
        "flow_id": flow_id or None,
        "src": address(int(row["src_hi"]), int(row["src_lo"])),
        "dst": address(int(row["dst_hi"]), int(row["dst_lo"])),
        **{name: int(row[name]) for name in ("proto", "sport", "dport")},
        "path": path,
        "hop": int(row["hop"]),
        "shard": int(row["shard"]),
        "sequence": int(row["sequence"]),
    }


def event_object(
    event: np.void | Fields, names: Naming, paths: Mapping[tuple[int, int], list[int]] = NO_PATHS
) -> dict[str, Any]:
    """An EVENT record, or a row of history, as JSON. All keys are present, and null if they do not apply;
    `member` is present only for a row of a cluster's history.

    `paths`: the `long_paths` of the surrounding records.
    """
    row = event if isinstance(event, dict) else event_fields(event)
    path = paths.get((row["shard"], row["sequence"]), row["path"])
    kind, metric, node_id = row["kind"], row["metric"] or Metric.NONE.label, row["node_id"]
    node = None if node_id is None else node_object(names, node_id)
    flow = source = None
    if kind in _OF_SOURCE:
        source = {"address": row["src"] or "::", "node": node, "hw_id": row["ident"] or 0}
        node = None
    else:
        flow = flow_key(row)
    number = row["port"]
    if number is None and metric == Metric.LINK_UTILIZATION.label and row["ident"] != NO_PORT:
        number = row["ident"]  # an ifIndex that `port` has no room for
    return {
        "id": f"{row['shard']}-{row['sequence']}",
        "time": row["time"],
        "kind": kind,
        "metric": metric,
        "value": wide(row["value"]),
        "previous": wide(row["previous"]),
        "unit": _UNITS.get(metric),
        "reason": row["reason"],
        "switch_ns": wide(row["switch_ns"]),
        "flow": flow,
        "node": node,
        "port": port_object(names, None if node is None else node_id, number),
        "queue": _queue(row),
        "hop": row["hop"] if metric == Metric.HOP_LATENCY.label else None,
        "path": None if path is None else [node_object(names, hop_node) for hop_node in path],
        "source": source,
        **({"member": row["member"]} if "member" in row else {}),
    }


EVENT_COLUMNS = (
    *("time", "kind", "metric", "value", "previous", "unit", "reason"),
    *("node", "port", "queue", "flow", "path", "id"),
)
"""Columns of a table of events."""


def event_texts(event: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of an event, or of a path, with one text for each column of a table."""
    source, path, flow = event.get("source"), event.get("path"), event["flow"]
    return {
        **event,
        "flow": f"source {source['address']}" if source else flow and flow_text(flow),
        "node": label(source["node"] if source else event.get("node")),
        "port": label(event.get("port")),
        "path": None if path is None else " → ".join(str(label(node)) for node in path),
        "metric": None if event.get("metric") == Metric.NONE.label else event.get("metric"),
    }


EVENT_TABLE = tuple(column for column in EVENT_COLUMNS if column != "unit")
"""Columns of a table for people, in which values have their units."""
ALARMING = frozenset({Kind.RAISED, Kind.THRESHOLD, Kind.LOOP, Kind.DROP, Kind.SILENT, Kind.GAP})
"""Kinds of events that are shown in red."""
_LIMITED = {Kind.RAISED.label, Kind.THRESHOLD.label}


def event_cells(event: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of an event as cells of EVENT_TABLE: values with units, without the hashes of paths."""
    cells, kind, unit = event_texts(event), event["kind"], event["unit"]
    if event["metric"] == Metric.FLOW_PATH.label and kind != Kind.FLOW_RECORD.label:
        return cells | {"value": None, "previous": None}
    if event["source"] is not None and kind != Kind.GAP.label:
        unit = "ns"  # the duration of the silence
    before = amount(event["previous"], unit)
    cells["value"] = amount(event["value"], "ns" if kind in _MOVED else event["unit"])
    if kind == Kind.NEW_KEY.label or kind in _MOVED:
        cells["previous"] = None
    else:
        cells["previous"] = f"limit {before}" if kind in _LIMITED else before
    return cells


def label(named: Mapping[str, Any] | None) -> str | None:
    """The name in the JSON of a node or port, or its number if it has no name."""
    return None if named is None else str(named["name"] or named["id"])
