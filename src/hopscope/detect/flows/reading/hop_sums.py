"""Latency of the hops of all live flows as columns, to group 100,000 flows by switch or port."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....memory.region import Region
from .slots import LOW, HopBlock, Words, hop_blocks


@dataclass(frozen=True, slots=True)
class HopSums:
    """Hops whose node is known, uint64 [hops] each."""

    flow_id: Words
    packets: Words
    """Packets of the flow."""
    node: Words
    port: Words
    """Egress port; NO_PORT: unknown."""
    latest: Words
    """Latest hop latency, ns; 0: unknown."""
    latency_sum: Words
    samples: Words


def hop_sums(tables: Sequence[Region]) -> HopSums:
    """Hops in the flow tables of all shards; the hops of a flow in several shards occur several times."""
    parts = [_columns(block) for table in tables for block in hop_blocks(table)]
    return HopSums(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _columns(block: HopBlock) -> tuple[Words, ...]:
    _, _, sums, last = block.words
    return (
        block.flows["flow_id"][block.owner],
        block.flows["packets"][block.owner],
        block.node,
        block.port,
        np.where(block.has_latency, block.latency, np.uint64(0)),
        sums,
        last & LOW,
    )
