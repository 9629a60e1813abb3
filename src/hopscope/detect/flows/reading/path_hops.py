"""Hops of all live paths as columns, so that a map of the network can be drawn from 100,000 flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ....memory.region import Region
from ...places import Words, keys_of, ports_of
from ...records import NO_PORT, FlowState
from .slots import HopBlock, hop_blocks

Ints = npt.NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, slots=True)
class PathHops:
    """Hops of live flows whose node is known; int64 or bool [hops]."""

    place: Words
    """Node and egress port, as numbers of `detect.places`."""
    following: Ints
    """Next node on the path; NONE: this is the last hop, or the next node is unknown."""
    last: npt.NDArray[np.bool_]
    """Whether this is the last hop of a complete path: beyond it are hosts, or another network."""
    first: npt.NDArray[np.bool_]
    """Whether this is the first hop of a complete path."""
    latency: Ints
    """Latest hop latency, ns; NONE: unknown."""
    alarm: npt.NDArray[np.bool_]
    """Whether the latency is above its limit."""
    time_ns: Ints
    """When the flow's last report arrived."""

    def __len__(self) -> int:
        return len(self.place)


NO_HOPS = PathHops(
    *(np.empty(0, dtype) for dtype in (np.uint64, np.int64, bool, bool, np.int64, bool, np.int64))
)


def path_hops(tables: Sequence[Region]) -> PathHops:
    """Hops of the flow tables of all shards."""
    parts = [_columns(block) for table in tables for block in hop_blocks(table)]
    return PathHops(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _columns(block: HopBlock) -> tuple[npt.NDArray[Any], ...]:
    flows, owner, number = block.flows, block.owner, block.number
    node, port = block.node.astype(np.int64), block.port.astype(np.int64)
    has_path = (flows["state"] & FlowState.HAS_PATH > 0) & (flows["hop_count"] <= block.room)
    whole, count = has_path[owner], flows["hop_count"].astype(np.int64)[owner]
    follows = np.zeros(len(node), bool)  # whether the next row is the next hop of the same path
    follows[:-1] = (owner[1:] == owner[:-1]) & (number[1:] == number[:-1] + 1)
    following = np.full(len(node), NONE)
    following[:-1] = node[1:]
    return (
        keys_of(node, ports_of(port)),
        np.where(whole & follows & (port != NO_PORT), following, NONE),
        whole & (number == count - 1),
        whole & (number == 0),
        np.where(block.has_latency, block.latency.astype(np.int64), NONE),
        block.alarm,
        flows["last_ns"][owner],
    )
