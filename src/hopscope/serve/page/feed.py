"""The page's feed of events."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from ...detect.records import NO_PORT
from ...names import Names
from .units import flow_text, measured, place

SHOWN = 40
"""Events, joined, that a feed shows."""
_BAD = {"raised", "threshold", "loop", "drop", "silent", "gap"}
_GOOD = {"cleared", "returned"}


def feed(events: Iterable[dict[str, Any]], names: Names) -> str:
    """Events, newest first, as rows; one that is about a flow shows its path when it is clicked."""
    rows = [_event(event, count, names) for event, count in _joined(events)[:SHOWN]]
    return "".join(rows) or '<p class="empty">Nothing has happened yet.</p>'


def _event(event: dict[str, Any], count: int, names: Names) -> str:
    kind, flow = str(event["kind"]), event["flow"]
    mood = "bad" if kind in _BAD else "good" if kind in _GOOD else ""
    click = f' data-flow="{flow["id"]}"' if flow else ""
    more = f'<i class="count" title="alike, together">×{count}</i>' if count > 1 else ""
    return (
        f'<div class="event {mood}"{click}><time>{str(event["time"])[11:21]}</time>'
        f"<b>{escape(kind.replace('_', ' '))}</b><span>{more}{_told(event, names)}</span></div>"
    )


def _told(event: dict[str, Any], names: Names) -> str:
    kind, unit = event["kind"], event["unit"]
    value, previous = measured(event["value"], unit), measured(event["previous"], unit)
    where = ""
    if event["node"]:
        where = f" at {place(names, event['node']['id'], (event['port'] or {}).get('id', NO_PORT))}"
        if event["queue"] is not None:
            where += f" <em>q{event['queue']}</em>"
    flow = event["flow"]
    whose = f"<small>{escape(flow_text(flow))}</small>" if flow else ""
    metric = escape(str(event["metric"]).replace("_", " "))
    if event["source"]:
        source = event["source"]
        name = names.node_label(source["node"]["id"]) if source["node"] else ""
        more = f" · <b>{value}</b> reports lost" if kind == "gap" else ""
        return f"{escape(source['address'])} {escape(name)} <em>hw {source['hw_id']}</em>{more}"
    if kind in ("raised", "threshold", "cleared"):
        sign = "&lt;" if kind == "cleared" else "&gt;"
        return f"{metric} <b>{value}</b> {sign} {previous}{where}{whose}"
    if kind in ("path_change", "loop") or event["path"]:
        nodes = " › ".join(escape(names.node_label(node["id"])) for node in event["path"] or ())
        return f'<span class="nodes">{nodes}</span>{whose}'
    if kind == "drop":
        return f"reason {value}{where}{whose}"
    if kind == "change":
        return f"{metric} {previous} → <b>{value}</b>{where}{whose}"
    return f"{metric} <b>{value}</b>{where}{whose}"


def _joined(events: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Events, newest first; those of the same second that are alike are one, with their number."""
    joined: list[tuple[dict[str, Any], int]] = []
    last: dict[object, tuple[int, str]] = {}
    for event in events:
        node, port, source = event["node"] or {}, event["port"] or {}, event["source"] or {}
        key = (
            event["kind"],
            event["metric"],
            node.get("id"),
            port.get("id"),
            event["queue"],
            source.get("address"),
        )
        at, second = last.get(key, (-1, ""))
        if at >= 0 and second == str(event["time"])[:19]:
            joined[at] = (joined[at][0], joined[at][1] + 1)
        else:
            last[key] = (len(joined), str(event["time"])[:19])
            joined.append((event, 1))
    return joined
