"""The `int` and `hops` of an object as IFA 2.0."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout
from ..telemetry import ifa
from .keys import CraftError, Keys

MAX_HOPS = 255 * 4 // layout.IFA_HOP.size
"""The metadata header can state the length of so many nodes."""
_SOME_FREE = 1
"""Free cells of the pool of a node whose queue is given: with all of these values 0, a node has no queue."""


@dataclass(frozen=True, slots=True)
class Stack:
    """The fields of both headers, and of the nodes in path order."""

    head: dict[str, int]
    hops: list[dict[str, int]]


def stack_of(head: Keys, hops: list[Keys]) -> Stack:
    """What `push_ifa` writes. Raises CraftError."""
    if len(hops) > MAX_HOPS:
        raise CraftError("hops", f"found {len(hops)}, expected {MAX_HOPS} at most")
    head.word("mode", {"ifa": 0}, "ifa")
    fields = {
        "inband": int(head.flag("inband")), "hop_limit": head.number("hop_limit", 255, 255), "request": 255,
    }  # fmt: skip
    head.close("IFA")
    return Stack(fields, [_node_of(hop) for hop in hops])


def _node_of(hop: Keys) -> dict[str, int]:
    extras = hop.part("extras")
    seconds, nanoseconds = divmod(hop.number("ingress_time", (1 << 20) * ifa.SECOND - 1, 0), ifa.SECOND)
    has_queue = hop.has("queue_id") or hop.has("queue_occupancy")
    node = {
        "namespace": 1, "seconds": seconds, "nanoseconds": nanoseconds,
        "node_id": hop.number("node_id", (1 << 20) - 1, 0),
        "ingress_port": hop.number("ingress_port", 0xFFFF, 0),
        "egress_port": hop.number("egress_port", 0xFFFF, 0),
        "queue_id": hop.number("queue_id", 63, 0),
        "residence_time": hop.number("hop_latency", ifa.SECOND - 1, 0),
        "queue_cells": hop.number("queue_occupancy", 0xFFFF, 0),
        "ttl": extras.number("ttl", 255, 64),
        "queue_bytes": extras.number("queue_bytes", 0xFFFFFFFF, 0),
        "pool_cells": extras.number("pool_cells", 0xFFFFFFFF, _SOME_FREE * has_queue),
    }  # fmt: skip
    extras.close("a hop of IFA")
    hop.close("a hop of IFA")
    return node
