"""State and event records as the models of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.names import Names
from ...detect.records import NO_PORT, Metric, PortKind
from ...present.events import all_wide, flow_object, when, wide
from ...present.flows.hops import known
from ...wire.address import address
from ...wire.records import Records
from ..models import common as m

_METRICS = {metric.value: metric.label for metric in Metric}
_SLOTS = {
    PortKind.EGRESS: ("link_utilization",),
    PortKind.QUEUE: ("queue_occupancy", "queue_congestion"),
    PortKind.BUFFER: ("buffer_occupancy",),
}


def node(names: Names, node_id: int) -> m.Node:
    """A switch with its name."""
    return m.Node(id=int(node_id), name=names.node(node_id))


def port(names: Names, node_id: int, number: int) -> m.Port | None:
    """A port with its name; None where none is known."""
    number = int(number)
    return None if number == NO_PORT else m.Port(id=number, name=names.port(node_id, number))


def alarms(bits: int) -> list[str]:
    """Metrics whose bit is set."""
    return [label for value, label in _METRICS.items() if value and bits >> value & 1]


def _flow_fields(row: np.void) -> dict[str, object]:
    state, samples = int(row["state"]), int(row["latency_samples"])
    return {
        "flow": flow_object(row),
        "first_seen": when(row["first_ns"]),
        "last_seen": when(row["last_ns"]),
        "packets": wide(int(row["packets"])),
        "latency_ns": wide(int(row["latency_latest"])) if state & 2 else None,
        "latency_mean_ns": int(row["latency_sum"]) / samples if samples else None,
        "hop_count": int(row["hop_count"]),
        "has_loop": bool(state & 4),
        "path_incomplete": bool(state & 8),
        "alarms": alarms(int(row["alarm"])),
    }


def flow(row: np.void, past: dict[str, Any] | None = None, *, live: bool = True) -> m.Flow:
    """One FLOW record; `past` is its row of history (`present.flows.rows`)."""
    fields = _flow_fields(row)
    if past is not None:
        fields["history"] = {
            **{name: past[name] for name in ("events", "path_changes", "drops")},
            "highest_latency_ns": all_wide(past["highest_latency"]),
        }
        if not live:
            fields |= {"state": "past", "latency_ns": None, "hop_count": None}
            fields["packets"] = all_wide(past["packets"])
    return m.Flow.model_validate(fields)


def flow_detail(row: np.void, hops: Records, names: Names) -> m.FlowDetail:
    """One FLOW record with its hops."""
    return m.FlowDetail.model_validate({**_flow_fields(row), "path": [hop(each, names) for each in hops]})


def hop(row: np.void, names: Names) -> m.Hop:
    """One HOP_STATE record."""
    samples = int(row["samples"])
    return m.Hop(
        node=node(names, int(row["node_id"])),
        egress_port=port(names, int(row["node_id"]), int(row["egress_port"])),
        latency_ns=int(row["latency_latest"]) if int(row["state"]) & 1 else None,
        latency_mean_ns=int(row["latency_sum"]) / samples if samples else None,
        samples=samples,
        queue_occupancy=known(row["queue_latest"]),
        link_utilization=known(row["utilization_latest"]),
        alarms=[Metric.HOP_LATENCY.label] if row["alarm"] else [],
    )


def _slot_alarms(row: np.void) -> list[str]:
    labels = _SLOTS.get(PortKind(int(row["kind"])), ())
    return [label for slot, label in enumerate(labels) if int(row["alarm"]) >> slot & 1]


def _latest(row: np.void, slot: int) -> int | None:
    return int(row["latest"][slot]) if int(row["state"]) >> slot & 1 else None


def port_state(row: np.void, names: Names) -> m.PortState:
    """One PORT record of kind EGRESS."""
    at = int(row["node_id"])
    return m.PortState(
        node=node(names, at),
        port=m.Port(id=int(row["ident"]), name=names.port(at, int(row["ident"]))),
        link_utilization=_latest(row, 0),
        highest=int(row["highest"][0]),
        last_seen=when(row["last_ns"]),
        samples=wide(int(row["samples"])),
        drops=wide(int(row["drops"])),
        alarms=_slot_alarms(row),
    )


def queue_state(row: np.void, names: Names) -> m.QueueState:
    """One PORT record of kind QUEUE or BUFFER."""
    at = int(row["node_id"])
    return m.QueueState(
        node=node(names, at),
        kind="queue" if row["kind"] == PortKind.QUEUE else "buffer",
        id=int(row["ident"]),
        port=port(names, at, int(row["port"])),
        occupancy=_latest(row, 0),
        highest_occupancy=int(row["highest"][0]),
        congestion=_latest(row, 1),
        highest_congestion=int(row["highest"][1]),
        last_seen=when(row["last_ns"]),
        samples=wide(int(row["samples"])),
        alarms=_slot_alarms(row),
    )


def switch_fields(node_id: int, rows: Records, names: Names) -> dict[str, object]:
    """Fields of a switch, from all of its PORT records."""
    links, queues = rows[rows["kind"] == PortKind.EGRESS], rows[rows["kind"] != PortKind.EGRESS]
    links = links[links["ident"] != NO_PORT]  # drops at an unknown port
    return {
        "node": node(names, node_id),
        "ports": len(links),
        "queues": len(queues),
        "highest_occupancy": int(queues["latest"][:, 0].max()) if len(queues) else None,
        "highest_utilization": int(links["latest"][:, 0].max()) if len(links) else None,
        "last_seen": when(int(rows["last_ns"].max())),
        "alarms": sorted({label for row in rows[rows["alarm"] != 0] for label in _slot_alarms(row)}),
    }


def source(row: np.void, names: Names, clocks: Mapping[int, int], started_ns: int | None = None) -> m.Source:
    """One SOURCE record; `clocks`: offsets of switches' clocks by node id, ns. `started_ns`: start of its
    collector.
    """
    offset = clocks.get(int(row["node_id"]))
    return m.Source(
        address=address(int(row["source_hi"]), int(row["source_lo"])),
        node=node(names, int(row["node_id"])),
        hw_id=int(row["hw_id"]),
        received=wide(int(row["received"])),
        lost=wide(int(row["lost"])),
        moved=wide(int(row["moved"])),
        duplicate=wide(int(row["duplicate"])),
        reordered=wide(int(row["reordered"])),
        highest_sequence=int(row["highest"]),
        sequence_bits=int(row["bits"]),
        clock_offset_ns=wide(offset),
        silent=bool(row["silent"]),
        first_seen=when(row["first_ns"]),
        last_seen=when(row["last_ns"]),
        counted_since=when(started_ns),
    )
