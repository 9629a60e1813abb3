"""Merges switches, ports and queues that several members know: newest values, sums, maxima."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .values import Bodies, Item, Query, alarms, highest, newest, total


def ports(parts: Sequence[Item]) -> Item:
    """One egress port."""
    return {
        **newest(parts),
        "highest": highest(parts, "highest"),
        "samples": total(parts, "samples"),
        "drops": total(parts, "drops"),
        "alarms": alarms(parts),
    }


def queues(parts: Sequence[Item]) -> Item:
    """One queue or buffer."""
    return {
        **newest(parts),
        "highest_occupancy": highest(parts, "highest_occupancy"),
        "highest_congestion": highest(parts, "highest_congestion"),
        "samples": total(parts, "samples"),
        "alarms": alarms(parts),
    }


def buffers(members: Iterable[Sequence[Item]]) -> Callable[[Item], object]:
    """The identity of a row's queue or buffer. It includes the port (`detect.queue_key`) if some member has
    the same queue id at several ports of a switch. Otherwise the port is only that of the last report, which
    may differ between members.
    """
    places = [Counter((_node(row), int(row["id"])) for row in rows if _has_port(row)) for rows in members]
    by_port = any(count > 1 for place in places for count in place.values())

    def identity(row: Item) -> object:
        port = int(row["port"]["id"]) if by_port and _has_port(row) else -1
        return _node(row), str(row["kind"]), port, int(row["id"])

    return identity


def _has_port(row: Item) -> bool:
    return row["kind"] == "queue" and row["port"] is not None


def _node(row: Item) -> int:
    return int(row["node"]["id"])


def switches(bodies: Bodies, query: Query) -> Any:
    """A page of switches; each port and queue counts once, even if several members know it."""
    rows, links, waiting = (_rows(bodies, at) for at in range(3))
    by_node: dict[int, dict[str, Item]] = {}
    for member, items in rows.items():
        for item in items:
            by_node.setdefault(_node(item), {})[member] = item
    ids = sorted(by_node)
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", 100))
    shown = ids[offset : offset + limit]
    all_ports = _by_node(_joined(links, _port, ports))
    all_queues = _by_node(_joined(waiting, buffers(waiting.values()), queues))
    items = [_switch(by_node[node], all_ports[node], all_queues[node]) for node in shown]
    return {"total": len(ids), "offset": offset, "items": items}


def switch(bodies: Bodies, query: Query) -> Any:
    """One switch, merged from the members that know it."""
    known = {member: body for member, (body, *_) in bodies.items() if body is not None}
    if not known:
        return None
    port_states = _joined({m: body["port_states"] for m, body in known.items()}, _port, ports)
    waiting = {member: body["queue_states"] for member, body in known.items()}
    queue_states = _joined(waiting, buffers(waiting.values()), queues)
    return {
        **_switch(known, port_states, queue_states),
        "port_states": port_states,
        "queue_states": queue_states,
    }


def _switch(parts: Mapping[str, Item], links: Sequence[Item], waiting: Sequence[Item]) -> Item:
    every = list(parts.values())
    return {
        "node": newest(every)["node"],
        "ports": len(links),
        "queues": len(waiting),
        "highest_occupancy": highest(waiting, "occupancy"),
        "highest_utilization": highest(links, "link_utilization"),
        "last_seen": newest(every)["last_seen"],
        "alarms": alarms(every),
        "members": sorted(parts),
    }


def _rows(bodies: Bodies, at: int) -> dict[str, list[Item]]:
    return {member: body[at]["items"] for member, body in bodies.items()}


def _by_node(items: Iterable[Item]) -> defaultdict[int, list[Item]]:
    found = defaultdict(list)
    for item in items:
        found[_node(item)].append(item)
    return found


def _port(item: Item) -> object:
    return _node(item), int(item["port"]["id"])


def _joined(
    items: Mapping[str, Sequence[Item]],
    identity: Callable[[Item], Any],
    join: Callable[[Sequence[Item]], Item],
) -> list[Item]:
    groups: dict[Any, dict[str, Item]] = {}
    for member, some in items.items():
        for item in some:
            groups.setdefault(identity(item), {})[member] = item
    return [{**join(list(parts.values())), "members": sorted(parts)} for _, parts in sorted(groups.items())]
