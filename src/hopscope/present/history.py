"""History as the API asks for it: opened when first needed, its rows as the API shows events."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.names import Names
from ..detect.records import Metric
from ..settings.collector import ServeSettings
from .events import node_object, unit, wide

if TYPE_CHECKING:
    from ..history.query import Filters, History, Table

_METRICS = {metric.label: metric for metric in Metric}
_OF_SOURCE = {"silent", "returned", "gap"}
_QUEUED = {"queue_occupancy", "queue_congestion", "buffer_occupancy"}


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events; None and empty: any. Times are ns since the epoch, `until_ns` is the first too late."""

    since_ns: int | None = None
    until_ns: int | None = None
    kinds: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    node: int | None = None
    flow: int | None = None
    prefix: str | None = None


class Past:
    """One `History`, shared by the requests of this process. Raises HistoryError."""

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder, self._names = folder, names
        self._lock = threading.Lock()
        self._history: History | None = None

    def history(self) -> History:
        """The history of the data folder, opened once."""
        with self._lock:
            if self._history is None:
                from ..history.query import History  # DuckDB is not needed before

                self._history = History(self._folder, memory_bytes=256 * 1024**2, threads=1)
            return self._history

    def close(self) -> None:
        """Close it, if it was opened."""
        with self._lock:
            if self._history is not None:
                self._history.close()
                self._history = None

    def events(
        self, chosen: EventFilter, limit: int, oldest_first: bool, after: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Events as the API shows them, and where the next page begins."""
        from ..history.query import Flow

        filters: Filters = {
            "start": chosen.since_ns,
            "end": chosen.until_ns,
            "kinds": chosen.kinds,
            "metrics": chosen.metrics,
            "nodes": () if chosen.node is None else (chosen.node,),
            "flow": None if chosen.flow is None else Flow(flow_id=chosen.flow),
            "prefix": chosen.prefix,
        }
        order = "oldest" if oldest_first else "newest"
        table = self.history().events(limit=limit, order=order, after=after, **filters)  # type: ignore[arg-type]
        return [event_of_row(row, self._names) for row in table.rows()], table.after

    def sql(self, text: str, limit: int, settings: ServeSettings) -> Table:
        """Answer of a read-only query, within the limits of the configuration."""
        return self.history().sql(
            text, limit=limit, seconds=settings.sql_seconds, memory_bytes=settings.sql_memory_bytes
        )


def event_of_row(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """One row of history with the keys of `detect.as_json.event_object`."""
    kind, metric = row["kind"], row["metric"] or Metric.NONE.label
    of_source = kind in _OF_SOURCE
    node = None if row["node_id"] is None else node_object(names, row["node_id"])
    flow = source = port = None
    if of_source:
        source = {"address": row["src"] or "::", "node": node, "hw_id": row["ident"] or 0}
    elif row["flow_id"] is not None:
        flow = {
            "id": f"{row['flow_id']:016x}",
            **{key: row[key] for key in ("src", "dst", "proto", "sport", "dport")},
        }
    if node is not None and not of_source and row["port"] is not None:
        port = {"id": row["port"], "name": names.port(row["node_id"], row["port"])}
    return {
        "id": f"{row['shard']}-{row['sequence']}",
        "time": row["time"],
        "kind": kind,
        "metric": metric,
        "value": wide(row["value"]),
        "previous": wide(row["previous"]),
        "unit": unit(_METRICS.get(metric, Metric.NONE)),
        "flow": flow,
        "node": None if of_source else node,
        "port": port,
        "queue": row["ident"] if metric in _QUEUED else None,
        "hop": row["hop"] if metric == Metric.HOP_LATENCY.label else None,
        "path": None if row["path"] is None else [node_object(names, each) for each in row["path"]],
        "source": source,
    }


def safe(value: Any) -> Any:
    """A value of a query's answer for JSON: integers that a double would round become text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return wide(value)
    if isinstance(value, list):
        return [safe(each) for each in value]
    if isinstance(value, dict):
        return {key: safe(each) for key, each in value.items()}
    return value
