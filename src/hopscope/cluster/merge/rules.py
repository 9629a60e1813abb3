"""The table of rules, by path of the API, that merge the members' answers to a query.

Rows that belong to one member get `member`; rows to which several members contribute are joined, and get
`members`. Answers are JSON values; a TypeError, KeyError or ValueError means that one is malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from operator import itemgetter
from typing import Any

from ...present.events import wide
from .overview import overview
from .sources import merged_source
from .summary import summary
from .switches import buffers, ports, queues, switch, switches
from .values import Bodies, Item, Query, added, highest, newest, number, total

MAX_ROWS = 100_000
"""Maximum number of rows that one answer may need from each member."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one query is asked and answered."""

    merge: Callable[[Bodies, Query], Any]
    paged: bool = False
    """Whether its answers have `items`, with offset and limit."""
    every: bool = False
    """Whether all rows of each member are needed, because rows are joined; else `offset + limit` rows."""
    also: tuple[str, ...] = ()
    """Further paths whose answers, with all rows, it needs."""
    absent: bool = False
    """Whether 404 means that a member has no such data."""
    named: bool = False
    """Whether the query's `member` names the only member to ask."""
    past: Callable[[Query, Any], bool] = lambda _, merged: False
    """Whether the history of a member that has left may have more than the merged answer."""


@dataclass(frozen=True, slots=True)
class _Pages:
    """Pages of rows. Rows with one identity are joined, if there is a `join`."""

    identity: Callable[[Item], Any]
    """Identity of a row; identities can be ordered."""
    sorts: Mapping[str, Callable[[Item], Any]]
    """Sort keys by name; None sorts last. The first is the default."""
    join: Callable[[Sequence[Item]], Item] | None = None
    descends: bool = True
    """Whether the default order is descending."""

    def __call__(self, bodies: Bodies, query: Query) -> Any:
        groups: dict[Any, dict[str, Item]] = {}
        for member, (body, *_) in bodies.items():
            for item in body["items"]:
                key = self.identity(item), "" if self.join else member
                groups.setdefault(key, {})[member] = item
        rows = [self._row(groups[key]) for key in sorted(groups)]
        every = sum(body["total"] for body, *_ in bodies.values()) if self.join is None else len(rows)
        first, *_ = next(iter(bodies.values()))
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
        items = self._sorted(rows, query)[offset : offset + limit]
        merged = {**first, "total": every, "offset": offset, "items": items}
        if "truncated" in first:
            merged["truncated"] = any(body["truncated"] for body, *_ in bodies.values())
        if "silenced" in first:
            merged["silenced"] = total([body for body, *_ in bodies.values()], "silenced")
        return merged

    def _row(self, parts: Mapping[str, Item]) -> Item:
        if self.join is None:
            ((member, item),) = parts.items()
            return {**item, "member": member}
        return {**self.join(list(parts.values())), "members": sorted(parts)}

    def _sorted(self, rows: list[Item], query: Query) -> list[Item]:
        """Rows in the order that the query asks for; ties are sorted by identity."""
        value = self.sorts[query.get("sort", next(iter(self.sorts)))]
        descends = query["order"] == "desc" if "order" in query else self.descends
        values = [(value(row), row) for row in rows]
        known = [pair for pair in values if pair[0] is not None]
        known.sort(key=itemgetter(0), reverse=descends)
        return [row for _, row in known] + [row for found, row in values if found is None]


def rule_of(path: str) -> Rule | None:
    """The rule of a path, or of its FastAPI template; None: the path cannot be asked of a cluster."""
    for pattern, rule in _patterns():
        if pattern.fullmatch(path):
            return rule
    return None


def _flow(item: Item) -> object:
    return item["flow"]["id"]


def _tuple(item: Item) -> object:
    return tuple(str(item["flow"][part]) for part in ("src", "dst", "proto", "sport", "dport"))


def _place(item: Item) -> object:
    return int(item["node"]["id"]), int(item["port"]["id"])


def _node(item: Item) -> int:
    return int(item["node"]["id"])


def _numeric(name: str, absent: int | None = None) -> Callable[[Item], Any]:
    def value(item: Item) -> Any:
        found = number(item[name])
        return absent if found is None else found

    return value


def _of_history(query: Query, merged: Any) -> bool:
    return query.get("state", "live") != "live"


def _not_found(query: Query, merged: Any) -> bool:
    return merged is None or merged.get("source") == "none"


def _text(name: str) -> Callable[[Item], Any]:
    return lambda item: item[name]


def _label(parts: Sequence[Item]) -> Item:
    return {**newest(parts), "labels": total(parts, "labels"), "late": total(parts, "late")}


def _group(parts: Sequence[Item]) -> Item:
    """A group of flows, from those of all members. A flow that two members have counts twice."""
    samples = total(parts, "samples")
    weighted = [(each["latency_mean_ns"], number(each["samples"])) for each in parts]
    sums = added(mean * count for mean, count in weighted if mean is not None)
    return {
        **parts[0],
        **{name: total(parts, name) for name in ("flows", "packets")},
        "samples": samples,
        "latency_highest_ns": wide(highest(parts, "latency_highest_ns")),
        "latency_mean_ns": sums / number(samples) if number(samples) else None,
    }


def _groups(bodies: Bodies, query: Query) -> Any:
    sorts = {
        "packets": _numeric("packets"),
        "flows": _numeric("flows"),
        "latency": _numeric("latency_highest_ns"),
        "mean_latency": _numeric("latency_mean_ns", -1),
    }
    every = [body for body, *_ in bodies.values()]
    sums = {name: total(every, name) for name in ("flows", "packets")}
    return {**_Pages(_text("search"), sorts, _group)(bodies, query), **sums}


def _queues(bodies: Bodies, query: Query) -> Any:
    sorts = {
        "latest": _numeric("occupancy", 0),
        "highest": _numeric("highest_occupancy"),
        "last_seen": _text("last_seen"),
        "node": _node,
    }
    identity = buffers(body["items"] for body, *_ in bodies.values())
    return _Pages(identity, sorts, queues)(bodies, query)


def _link(parts: Sequence[Item]) -> Item:
    """A link that several members know; if they disagree, the first member by name counts."""
    first = parts[0]
    far = [(each["next_node"] or {}).get("id") for each in parts]
    return {
        **first,
        "sources": sorted({each for part in parts for each in part["sources"]}),
        "disputed": any(part["disputed"] for part in parts) or any(each != far[0] for each in far),
    }


def _links(bodies: Bodies, query: Query) -> Any:
    pages = _Pages(_place, {"node": _place}, _link, descends=False)
    return _without_pages(pages(bodies, {"limit": str(MAX_ROWS)}))


def _controlled(bodies: Bodies, query: Query) -> Any:
    pages = _Pages(lambda item: item["name"], {"name": _text("name")}, descends=False)
    found = _without_pages(pages(bodies, {"limit": str(MAX_ROWS)}))
    return {**found, "in_sync": sum(body["in_sync"] for body, *_ in bodies.values())}


def _without_pages(body: dict[str, Any]) -> dict[str, Any]:
    del body["offset"]
    return body


def _one(bodies: Bodies, query: Query) -> Any:
    """The answer of the member that has the object; of several, the one that saw it last."""
    found = {member: body for member, (body, *_) in bodies.items() if body is not None}
    if not found:
        return None
    member = max(found, key=lambda name: (str(found[name].get("last_seen", "")), name))
    return {**found[member], "member": member}


def _first(bodies: Bodies, query: Query) -> Any:
    """The answer of the first member that has the object."""
    found = {member: body for member, (body, *_) in bodies.items() if body is not None}
    member = min(found, default=None)
    return None if member is None else {**found[member], "member": member}


def _event(bodies: Bodies, query: Query) -> Any:
    """The same for an event; the events around it, and its alarm, are from the same member."""
    found = _first(bodies, query)
    if found is None:
        return None
    whose = {"member": found["member"]}
    around = {name: [{**each, **whose} for each in found[name]] for name in ("before", "after")}
    return {**found, **around, "alarm": found["alarm"] and {**found["alarm"], **whose}}


def _attributed(bodies: Bodies, query: Query) -> Any:
    """The answer of the member where the flow is live, otherwise of one that has values of it."""
    order = ("none", "events", "flows")
    member = max(bodies, key=lambda name: (order.index(bodies[name][0]["source"]), name))
    return {**bodies[member][0], "member": member}


RULES: Mapping[str, Rule] = {
    "/api/v0/flows": Rule(
        _Pages(
            _flow,
            {
                "latency": _numeric("latency_ns"),
                "mean_latency": _numeric("latency_mean_ns"),
                "packets": _numeric("packets"),
                "last_seen": _text("last_seen"),
                "first_seen": _text("first_seen"),
                "hops": _numeric("hop_count"),
            },
        ),
        paged=True,
        past=_of_history,
    ),
    "/api/v0/flows/groups": Rule(_groups, paged=True, every=True, past=_of_history),
    "/api/v0/flows/{flow_id}": Rule(_one, absent=True),
    "/api/v0/flows/{flow_id}/paths": Rule(_one, absent=True, past=_not_found),
    "/api/v0/flows/{flow_id}/hops": Rule(_one, absent=True, past=_not_found),
    "/api/v0/flows/{flow_id}/series": Rule(_one, absent=True, past=_not_found),
    "/api/v0/flows/{flow_id}/bottleneck": Rule(_attributed, past=_not_found),
    "/api/v0/ports": Rule(
        _Pages(
            _place,
            {
                "latest": _numeric("link_utilization", 0),
                "highest": _numeric("highest"),
                "last_seen": _text("last_seen"),
                "node": _node,
            },
            ports,
        ),
        paged=True,
        every=True,
    ),
    "/api/v0/queues": Rule(_queues, paged=True, every=True),
    "/api/v0/switches": Rule(switches, paged=True, every=True, also=("/api/v0/ports", "/api/v0/queues")),
    "/api/v0/switches/{node}": Rule(switch, absent=True),
    "/api/v0/sources": Rule(
        _Pages(
            lambda item: (item["address"], int(item["node"]["id"]), int(item["hw_id"])),
            {
                "lost": _numeric("lost"),
                "received": _numeric("received"),
                "last_seen": _text("last_seen"),
                "address": lambda item: int(ip_address(item["address"])),
            },
            merged_source,
        ),
        paged=True,
        every=True,
    ),
    "/api/v0/overview": Rule(overview, also=("/api/v0/switches", "/api/v0/sources")),
    "/api/v0/summary": Rule(summary, also=("/api/v0/switches", "/api/v0/sources")),
    "/api/v0/labels": Rule(
        _Pages(
            _place,
            {
                "node": _place,
                "age": _numeric("age_ns", 2**63),
                "labels_per_second": _numeric("labels_per_second"),
                "latency": _numeric("latency_ns", 0),
                "occupancy": _numeric("occupancy", 0),
                "s": _numeric("s"),
            },
            _label,
            descends=False,
        ),
        paged=True,
        every=True,
    ),
    "/api/v0/labels/flows": Rule(
        _Pages(
            _tuple,
            {
                "last_seen": _text("last_seen"),
                "latency": _numeric("latency_ns"),
                "packets": _numeric("packets"),
                "changes": _numeric("changes"),
                "changed": lambda item: item["changed"] or "",
            },
        ),
        paged=True,
    ),
    "/api/v0/events/{id}": Rule(_event, absent=True, named=True, past=_not_found),
    "/api/v0/events/{id}/evidence": Rule(_first, absent=True, named=True, past=_not_found),
    "/api/v0/alarms": Rule(
        _Pages(_text("key"), {"since": lambda item: item["since"] or "", "key": _text("key")}), paged=True
    ),
    "/api/v0/control/switches": Rule(_controlled),
    "/api/v0/topology": Rule(_links),
}
"""Rules by path. All other paths ask one member, or history (`cluster.members_history`)."""


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    one = "(?!live$|histogram$)[^/]+"  # under /events/, these are no events
    return tuple((re.compile(re.sub(r"\{\w+\}", one, path)), rule) for path, rule in RULES.items())
