"""Node ids of agents and exporters, which are known by address: from the settings, else from the address."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .records import Records

NODE_OF = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("node_id", "<u4"), ("reserved", "<u4")])
"""An address (IPv4 as ::ffff:a.b.c.d) and its node, 24 bytes."""
NodeIds = Mapping[int, int]
"""Node id by address, a number of 128 bits (IPv4 as ::ffff:a.b.c.d)."""
_LOW = (1 << 64) - 1


def node_of(nodes: NodeIds, hi: int, lo: int) -> int:
    """Node id of an address: from the settings, else its last 32 bits."""
    return nodes.get(hi << 64 | lo, lo & 0xFFFF_FFFF)


def node_table(nodes: NodeIds) -> Records:
    """NODE_OF [nodes], for a kernel."""
    rows = [(address >> 64, address & _LOW, node, 0) for address, node in nodes.items()]
    return np.array(rows, NODE_OF)
