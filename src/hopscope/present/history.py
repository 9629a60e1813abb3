"""History for the API: it is opened when first needed, and its rows become the API's JSON."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..base.names import Names
from ..settings.serve import ServeSettings
from .collector_state import CollectorState
from .events import all_wide, event_object, flow_key, node_object, port_object
from .select import EventFilter

if TYPE_CHECKING:
    from ..history.history_like import HistoryLike
    from ..history.query import History
    from ..history.reading.table import Table
    from ..history.sandbox.query import ParquetFile


class SharedHistory:
    """A history that is shared by the requests of this process. Its methods may raise HistoryError."""

    def __init__(self, folder: Path, names: Names, make: Callable[[], HistoryLike] | None = None) -> None:
        """`make` opens another history instead of the data folder's, which already includes live flows."""
        self._folder, self._names, self._make = folder, names, make
        self._lock = threading.Lock()
        self._history: HistoryLike | None = None

    def history(self) -> HistoryLike:
        """The history of the data folder, or the one that `make` opens; it is opened once."""
        with self._lock:
            if self._history is None and self._make is not None:
                self._history = self._make()
            elif self._history is None:
                from ..history.query import History  # imports DuckDB, which is not needed earlier

                self._history = History(self._folder, memory_bytes=256 * 1024**2, threads=1)
            return self._history

    def own(self) -> History:
        """The history of the data folder."""
        assert self._make is None
        return cast("History", self.history())

    def close(self) -> None:
        """Close the history, if it was opened."""
        with self._lock:
            if self._history is not None:
                self._history.close()
                self._history = None

    def events(
        self, chosen: EventFilter, limit: int, oldest_first: bool, after: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Events as JSON, and the argument `after` for the next page."""
        table = self.history().events(
            limit=limit,
            order="oldest" if oldest_first else "newest",
            after=after,
            **chosen.of_history(),
        )
        return [event_object(row, self._names) for row in table.rows()], table.after

    def counts(self, chosen: EventFilter, bucket_seconds: float) -> dict[tuple[str, str], int]:
        """Number of events by bucket of time and kind."""
        found: dict[tuple[str, str], int] = {}
        for row in self.history().summary(bucket_seconds=bucket_seconds, **chosen.of_history()).rows():
            key = row["bucket"], row["kind"]
            found[key] = found.get(key, 0) + row["events"]
        return found

    def flows(
        self, chosen: EventFilter, limit: int, state: CollectorState
    ) -> tuple[list[dict[str, Any]], bool]:
        """Flows as JSON, and whether there are more."""
        table = self.history().flows(limit=limit, **chosen.of_history())
        rows: Iterable[dict[str, Any]] = table.rows()
        if self._make is None:
            rows = with_live(rows, state, chosen)
        return [past_flow_object(row, self._names) for row in rows], table.truncated

    def sql(self, text: str, limit: int, settings: ServeSettings, stop: threading.Event) -> Table:
        """Answer a read-only query within the limits of the configuration, unless `stop` is set meanwhile."""
        return self.history().sql(text, **_limits(limit, settings), stop=stop)

    def parquet(self, text: str, limit: int, settings: ServeSettings, stop: threading.Event) -> ParquetFile:
        """As `sql`, but the answer is a Parquet file; only for this collector's own history."""
        return self.own().parquet(text, **_limits(limit, settings), stop=stop)


def _limits(limit: int, settings: ServeSettings) -> dict[str, Any]:
    return {"limit": limit, "seconds": settings.sql_seconds, "memory_bytes": settings.sql_memory_bytes}


def with_live(
    rows: Iterable[dict[str, Any]], state: CollectorState, chosen: EventFilter
) -> Iterator[dict[str, Any]]:
    """Rows of `History.flows`, with packets and latencies of live flows added, unless the filter has an end
    time. The highest latency is raised to the latest one and to the mean, which may be higher than any event.
    """
    live = state.flows() if chosen.end_ns is None else state.flows()[:0]
    order = np.argsort(live["flow_id"])
    ids = live["flow_id"][order]
    for row in rows:
        flow_id = np.uint64(row["flow_id"])
        more = live[order[np.searchsorted(ids, flow_id) : np.searchsorted(ids, flow_id, side="right")]]
        if len(more):
            before, packets = row["packets"] or 0, int(more["packets"].sum())
            samples, total = int(more["latency_samples"].sum()), float(more["latency_sum"].sum())
            if row["mean_latency"] is not None:
                samples, total = samples + before, total + row["mean_latency"] * before
            mean = total / samples if samples else None
            known = [row["highest_latency"], *more["latency_latest"][more["latency_samples"] > 0].tolist()]
            if mean is not None:
                known.append(ceil(mean))
            highest = max((value for value in known if value is not None), default=None)
            row = row | {"packets": before + packets, "mean_latency": mean, "highest_latency": highest}
        yield row


def past_flow_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row of `History.flows` as JSON; values that only flow records and live flows have may be null."""
    node_id, port_id, worst = row["worst_node_id"], row["worst_port"], None
    if node_id is not None:
        port = port_object(names, node_id, port_id)
        worst = {"node": node_object(names, node_id), "port": port, "latency": row["worst_latency"]}
    parts = {"members": row["members"]} if row.get("members") else {}
    shown = ("first", "last", "packets", "events", "path_changes", "drops", "highest_latency", "mean_latency")
    return {"flow": flow_key(row), **{key: all_wide(row[key]) for key in shown}, "worst_hop": worst, **parts}
