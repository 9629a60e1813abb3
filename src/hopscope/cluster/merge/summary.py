"""The summary of a cluster: sums of counters and rates."""

from __future__ import annotations

from typing import Any

from ...present.events import wide
from .sources import by_source, is_at_most, lost
from .values import Bodies, Item, Query, added, total

_SUMS = ("reports", "rejected", "kernel_drops", "events", "values")
_COUNTS = (
    "workers", "flows", "reports_per_second", "lost_per_second", "rejected_per_second", "events_per_second",
)  # fmt: skip


def summary(bodies: Bodies, query: Query) -> Any:
    """Sums over members. Switches and sources that several members know count once; lost reports of a source
    are those that no member received.
    """
    parts = [body for body, *_ in bodies.values()]
    switches = {int(item["node"]["id"]) for _, found, _ in bodies.values() for item in found["items"]}
    sources = by_source({member: found["items"] for member, (_, _, found) in bodies.items()})
    rows = [list(each.values()) for each in sources.values()]
    elsewhere = sum(added(part["lost"] for part in each) - lost(each) for each in rows)
    workers = added(part["workers"] for part in parts)
    busy = [(part["ns_per_report"], part["reports_per_second"]) for part in parts]
    busy = [(ns, rate) for ns, rate in busy if ns is not None and rate]
    rate = sum(rate for _, rate in busy)
    return {
        "time": max(str(part["time"]) for part in parts),
        **{name: added(part[name] for part in parts) for name in _COUNTS},
        "switches": len(switches),
        "sources": len(sources),
        "silent_sources": sum(all(part["silent"] for part in each) for each in rows),
        **{name: total(parts, name) for name in _SUMS},
        "lost": wide(max(0, added(part["lost"] for part in parts) - elsewhere)),
        "lost_at_most": any(map(is_at_most, rows)),
        "moved": wide(added(part.get("moved") for part in parts)),  # members may be older than this value
        "busy_ratio": sum(part["busy_ratio"] * part["workers"] for part in parts) / max(1, workers),
        "ns_per_report": sum(ns * each for ns, each in busy) / rate if rate else None,
        "counters": _counters(parts),
    }


def _counters(parts: list[Item]) -> list[Item]:
    groups: dict[object, list[Item]] = {}
    for part in parts:
        for counter in part["counters"]:
            key = counter["name"], repr(sorted((counter["label"] or {}).items()))
            groups.setdefault(key, []).append(counter)
    return [
        {**some[0], "value": total(some, "value"), "per_second": added(each["per_second"] for each in some)}
        for some in groups.values()
    ]
