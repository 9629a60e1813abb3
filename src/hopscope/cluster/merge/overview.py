"""Merges the overviews of members: adds rates by second, joins places, and combines flows and events.
Members send more rows than are shown, so that the top rows of the cluster are among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...present.events import wide
from .sources import by_source, merged_source
from .summary import summary
from .values import Bodies, Item, Query, added, highest, number, total

HOT_ROWS, SLOW_ROWS, LOSS_ROWS, CONTRIBUTORS, EVENTS = 10, 12, 8, 8, 40
"""Numbers of rows in the tables, as for one member (`serve/overview`)."""
_SOURCES = ("recent", "all", "flows", "none")
"""Sources of shares of latency, best first; only shares from the same source can be added."""


def overview(bodies: Bodies, query: Query) -> Any:
    """One overview. Switches, sources and lost reports count as in `/summary`."""
    parts = {member: body for member, (body, *_) in bodies.items()}
    every = list(parts.values())
    sources = by_source({member: found["items"] for member, (_, _, found) in bodies.items()})
    lost = [_of_source(each) for each in sources.values()]
    slow = sorted(_rows(parts, "slow_flows"), key=lambda row: -(number(row["latency_ns"]) or 0))
    notable = [
        {**each, "event": {**each["event"], "member": member}}
        for member, body in parts.items()
        for each in body["notable"]
    ]
    paths = [{**body["slowest"], "member": member} for member, body in parts.items() if body["slowest"]]
    return {
        "time": max(str(body["time"]) for body in every),
        "unit": "packet" if all(body["unit"] == "packet" for body in every) else "report",
        "takes_labels": any(body["takes_labels"] for body in every),
        "totals": _totals(bodies),
        "points": _points(every),
        "followed_seconds": min(body["followed_seconds"] for body in every),
        **{
            name: _most(_joined(parts, name, _hot), "peak")[:HOT_ROWS]
            for name in ("queues", "buffers", "links")
        },
        "slow_flows": slow[:SLOW_ROWS],
        "slowest": max(paths, key=lambda path: number(path["latency_ns"]) or 0, default=None),
        "slow_hops": _most(_joined(parts, "slow_hops", _slow), "worst_ns")[:SLOW_ROWS],
        **_contributors(parts),
        "drops": _most(_joined(parts, "drops", _drops), "last_minute", "total")[:LOSS_ROWS],
        "lost_sources": _most([each for each in lost if number(each["lost"])], "lost")[:LOSS_ROWS],
        "lost_workers": _most(_rows(parts, "lost_workers"), "reports")[:LOSS_ROWS],
        "notable": sorted(notable, key=lambda each: str(each["event"]["time"]), reverse=True)[:EVENTS],
        "kinds": _kinds(every),
        "missed_events": total(every, "missed_events"),
    }


def _totals(bodies: Bodies) -> Item:
    """Sums of the same values as in `summary`."""
    names = {"received": "reports", "received_per_second": "reports_per_second"}
    back = {of: name for name, of in names.items()}
    parts = {member: body["totals"] for member, (body, *_) in bodies.items()}
    as_summary = {}
    for member, (_, *rest) in bodies.items():
        renamed = {names.get(name, name): value for name, value in parts[member].items()}
        as_summary[member] = [{**renamed, "time": "", "counters": []}, *rest]
    merged = summary(as_summary, {})
    every = list(parts.values())
    known = [each for each in every if each["values_per_event"]]
    stored = sum(number(each["values"]) / each["values_per_event"] for each in known)
    return {
        **{back.get(name, name): value for name, value in merged.items() if name not in ("time", "counters")},
        "packets_dropped": total(every, "packets_dropped"),
        "values_per_event": added(each["values"] for each in every) / stored if stored else None,
    }


def _points(every: Sequence[Item]) -> Item:
    """Sums for the seconds that all members know, newest last."""
    known = min(len(values) for body in every for values in body["points"].values())
    return {
        name: [
            round(added(each), 1)
            for each in zip(*(body["points"][name][-known:] for body in every), strict=True)
        ]
        if known
        else []
        for name in every[0]["points"]
    }


def _rows(parts: Mapping[str, Item], name: str) -> list[Item]:
    """Rows of one member each."""
    return [{**row, "member": member} for member, body in parts.items() for row in body[name]]


def _most(rows: Iterable[Item], *names: str) -> list[Item]:
    """The rows with the highest values first."""
    return sorted(rows, key=lambda row: [-(number(row[name]) or 0) for name in names])


def _place(row: Item) -> tuple[int, int, int]:
    """Switch, port, queue; -1: unknown."""
    node, port = ((row[name] or {}).get("id", -1) for name in ("node", "port"))
    return int(node), int(port), -1 if row.get("queue") is None else int(row["queue"])


def _joined(parts: Mapping[str, Item], name: str, join: Callable[[Sequence[Item]], Item]) -> list[Item]:
    """Rows of places, with each place only once."""
    groups: dict[Any, dict[str, Item]] = {}
    for member, body in parts.items():
        for row in body[name]:
            groups.setdefault(_place(row), {})[member] = row
    return [
        {**rows[0], **join(rows), "members": sorted(group)}
        for _, group in sorted(groups.items())
        for rows in (list(group.values()),)
    ]


def _hot(rows: Sequence[Item]) -> Item:
    """Highest value of each half second, and the lowest limit."""
    limits = [row["limit"] for row in rows if row["limit"] is not None]
    return {
        "values": [max(each) for each in zip(*(row["values"] for row in rows), strict=True)],
        "now": highest(rows, "now"),
        "peak": highest(rows, "peak"),
        "limit": min(limits, default=None),
        "alarm": any(row["alarm"] for row in rows),
    }


def _slow(rows: Sequence[Item]) -> Item:
    flows = added(row["flows"] for row in rows)
    return {
        "worst_ns": highest(rows, "worst_ns"),
        "mean_ns": added(row["mean_ns"] * row["flows"] for row in rows) / max(1, flows),
        "flows": flows,
    }


def _drops(rows: Sequence[Item]) -> Item:
    return {name: added(row[name] for row in rows) for name in ("last_minute", "total")}


def _of_source(parts: Mapping[str, Item]) -> Item:
    """A source, with the reports that no member received."""
    row = merged_source(list(parts.values()))
    return {
        **{name: row[name] for name in ("address", "node", "hw_id", "lost", "lost_at_most", "received")},
        "members": sorted(parts),
    }


def _contributors(parts: Mapping[str, Item]) -> Item:
    """Shares of latency from members that counted in the same way; the note names them if others did not."""
    source = min((str(body["contributors_source"]) for body in parts.values()), key=_SOURCES.index)
    chosen = {member: body for member, body in parts.items() if body["contributors_source"] == source}
    longest = max(chosen.values(), key=lambda body: number(body["contributors_seconds"]))
    note = str(longest["contributors_note"])
    others = [body for member, body in parts.items() if member not in chosen]
    if any(body["totals"]["flows"] for body in others):
        note += f", of {', '.join(sorted(chosen))} alone"
    sums = [  # of all places, including those that a member left out
        number(body["contributors"][0]["latency_sum_ns"]) / body["contributors"][0]["share"]
        for body in chosen.values()
        if body["contributors"] and body["contributors"][0]["share"]
    ]
    rows = _most(_joined(chosen, "contributors", _contribution), "latency_sum_ns")[:CONTRIBUTORS]
    for row in rows:
        row["share"] = min(1.0, number(row["latency_sum_ns"]) / sum(sums)) if any(sums) else 0.0
    return {
        "contributors": rows,
        "contributors_source": source,
        "contributors_seconds": longest["contributors_seconds"],
        "contributors_note": note,
    }


def _contribution(rows: Sequence[Item]) -> Item:
    if len(rows) == 1:
        return {}
    latency, packets = (added(row[name] for row in rows) for name in ("latency_sum_ns", "packets"))
    gauges = {
        name: {
            "latest": highest([row[name] for row in rows], "latest"),
            "mean": None,
            "highest": highest([row[name] for row in rows], "highest"),
        }
        for name in ("occupancy", "utilization")
    }
    slow = [row["slow_flows"] for row in rows]
    return {
        "latency_sum_ns": wide(latency),
        "packets": wide(packets),
        "mean_ns": latency / packets if packets else 0.0,
        "median_ns": None,
        "p99_ns": None,
        "highest_ns": highest(rows, "highest_ns"),
        **gauges,
        "slow_flows": None if all(each is None for each in slow) else added(slow),
    }


def _kinds(every: Sequence[Item]) -> list[Item]:
    groups: dict[str, list[Item]] = {}
    for body in every:
        for row in body["kinds"]:
            groups.setdefault(str(row["kind"]), []).append(row)
    return [
        {"kind": kind, "total": total(rows, "total"), "per_second": added(row["per_second"] for row in rows)}
        for kind, rows in groups.items()
    ]
