"""The page's feed of events."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.records import NO_PORT, OF_SOURCE, Metric
from ...present.events import continues, event_object, long_paths
from ...present.units import flow_text, measured, place
from ...wire.records import Records

SHOWN = 40
"""Events, joined, that a feed shows."""
_BAD = {"raised", "threshold", "loop", "drop", "silent", "gap"}
_GOOD = {"cleared", "returned"}


Shown = tuple[tuple[dict[str, Any], int], ...]
"""Events as API objects, each with the number of similar ones in its second; newest first."""


class Joined:
    """The newest events; similar ones of a second, of different flows, are joined and counted."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[dict[str, Any], int]] = {}

    def add(self, events: Records, names: Names) -> None:
        """Add EVENT records, oldest first. Only those that can be shown become objects."""
        paths = long_paths(events)
        events = events[~continues(events)]
        keys, last, counts = np.unique(_likeness(events)[::-1], return_index=True, return_counts=True)
        order = np.argsort(last)[:SHOWN][::-1]
        for key, at, count in zip(
            keys[order].tolist(), last[order].tolist(), counts[order].tolist(), strict=True
        ):
            _, before = self._rows.pop(key, ({}, 0))
            self._rows[key] = event_object(events[len(events) - 1 - at], names, paths), before + count
        for key in list(self._rows)[:-SHOWN]:
            del self._rows[key]

    def shown(self) -> Shown:
        """The joined events, newest first."""
        return tuple(reversed(self._rows.values()))


def _likeness(events: Records) -> npt.NDArray[np.uint64]:
    """A number per event, equal for events that one row can represent."""
    mixed = (events["time_ns"] // 10**9).astype(np.uint64)
    source = np.isin(events["kind"], OF_SOURCE)
    for column in (
        events["kind"],
        events["metric"],
        events["node_id"],
        events["port"],
        events["ident"],
        np.where(source, events["src_lo"] ^ events["src_hi"], 0),
    ):
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
    return mixed


def feed(shown: Shown, names: Names, *, what: str = "events") -> str:
    """Events as rows; a click on one with a flow shows the flow's path. Without any: "No WHAT yet."."""
    rows = [_event(event, count, names) for event, count in shown]
    return "".join(rows) or f'<p class="empty">No {what} yet.</p>'


def _event(event: dict[str, Any], count: int, names: Names) -> str:
    kind, flow = str(event["kind"]), event["flow"]
    mood = "bad" if kind in _BAD else "good" if kind in _GOOD else ""
    click = f' data-flow="{flow["id"]}"' if flow else ""
    more = f'<i class="count" title="similar events">×{count}</i>' if count > 1 else ""
    return (
        f'<div class="event {mood}"{click}><time>{str(event["time"])[11:21]}</time>'
        f"<b>{escape(kind.replace('_', ' '))}</b><span>{more}{_text(event, names)}</span></div>"
    )


def _text(event: dict[str, Any], names: Names) -> str:
    kind, unit = event["kind"], event["unit"]
    value, previous = measured(event["value"], unit), measured(event["previous"], unit)
    where = ""
    if event["node"]:
        where = f" at {place(names, event['node']['id'], (event['port'] or {}).get('id', NO_PORT))}"
        if event["queue"] is not None:
            where += f" <em>q{event['queue']}</em>"
    flow = event["flow"]
    endpoints = f"<small>{escape(flow_text(flow))}</small>" if flow else ""
    metric = escape(str(event["metric"]).replace("_", " "))
    if event["source"]:
        source = event["source"]
        name = names.node_label(source["node"]["id"]) if source["node"] else ""
        more = f" · <b>{value}</b> reports lost" if kind == "gap" else ""
        return f"{escape(source['address'])} {escape(name)} <em>hw {source['hw_id']}</em>{more}"
    if kind in ("raised", "threshold", "cleared"):
        if event["reason"] not in (None, "value"):
            return f"{metric} {escape(event['reason'].replace('_', ' '))}{where}{endpoints}"
        is_below = (kind == "cleared") != (event["metric"] == Metric.LABEL_COVERAGE.label)
        sign = "&lt;" if is_below else "&gt;"
        return f"{metric} <b>{value}</b> {sign} {previous}{where}{endpoints}"
    if kind in ("path_change", "loop") or event["path"]:
        nodes = " › ".join(escape(names.node_label(node["id"])) for node in event["path"] or ())
        return f'<span class="nodes">{nodes}</span>{endpoints}'
    if kind == "drop":
        return f"reason {value}{where}{endpoints}"
    if kind == "change":
        return f"{metric} {previous} → <b>{value}</b>{where}{endpoints}"
    return f"{metric} <b>{value}</b>{where}{endpoints}"
