"""Paths of a flow over time, from the events in history that store a path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.names import Names
from ...detect.records import Kind, Metric
from ...history.history_like import HistoryLike
from ...history.reading.filters import Flow
from ..events import node_object
from ..text import ns_of

MAX_PATHS = 1000
"""Largest number of events with a path in one answer."""
_CHANGES = tuple(kind.label for kind in Kind if kind != Kind.PUSH)
"""All kinds except pushes, which repeat the path of a flow every few seconds."""


@dataclass(slots=True)
class PathPeriod:
    """A path, and the time during which the flow took it."""

    nodes: tuple[int, ...]
    since: str
    """Time of the event that stored it, RFC 3339."""
    until: str | None
    """When the flow changed to another path, or left; None: it still takes this path."""
    kind: str
    """Kind of the event that stored it."""
    event: str
    """Id of this event."""
    left: bool = False
    """Whether the path ended because the flow left the table."""


def path_periods(
    history: HistoryLike, flow_id: int, start_ns: int | None, end_ns: int | None
) -> tuple[list[PathPeriod], bool]:
    """Paths of a flow, oldest first, and whether there are more than MAX_PATHS. Raises HistoryError."""
    chosen: dict[str, Any] = {"flow": Flow(flow_id=flow_id), "start": start_ns, "end": end_ns}
    table = history.paths(limit=MAX_PATHS, kinds=_CHANGES, **chosen)
    rows = table.rows()
    pushes = history.paths(limit=1, kinds=(Kind.PUSH.label,), **chosen).rows()
    begun_before = pushes and (not rows or ns_of(pushes[0]["time"]) < ns_of(rows[0]["time"]))
    return periods([*pushes, *rows] if begun_before else rows), table.truncated


def path_at(history: HistoryLike, flow_id: int, at_ns: int) -> tuple[int, ...]:
    """Nodes of the last path of a flow at a moment that history has. Raises HistoryError."""
    metrics = (Metric.FLOW_PATH.label,)
    table = history.events(limit=1, metrics=metrics, flow=Flow(flow_id=flow_id), end=at_ns + 1)
    return tuple(node for row in table.rows() for node in row["path"] or ())


def periods(rows: Sequence[dict[str, Any]]) -> list[PathPeriod]:
    """Periods made from rows of `History.paths` of one flow; an event that repeats a path prolongs its
    period.
    """
    found: list[PathPeriod] = []
    for row in rows:
        nodes = tuple(row["path"])
        open_path = found[-1] if found and found[-1].until is None else None
        if row["kind"] == Kind.FLOW_RECORD.label:
            if open_path is not None:
                open_path.until, open_path.left = row["time"], True
            continue
        if open_path is not None:
            if open_path.nodes == nodes:
                continue
            open_path.until = row["time"]
        found.append(PathPeriod(nodes, row["time"], None, row["kind"], f"{row['shard']}-{row['sequence']}"))
    return found


def path_object(period: PathPeriod, names: Names) -> dict[str, Any]:
    """A period as JSON."""
    return {
        "since": period.since,
        "until": period.until,
        "kind": period.kind,
        "event": period.event,
        "left": period.left,
        "path": [node_object(names, node) for node in period.nodes],
    }
