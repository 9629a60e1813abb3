"""Places as numbers of 64 bits: a switch, its egress port, and a queue or buffer.

The upper half is the node id. The lower half has a port of 16 bits and a queue of 8 bits, each plus 1: 0 is
an unknown one. Numbers ascend by (node, port, queue), unknown ones first. An ifIndex as a port, and a buffer,
may have up to 30 bits: those that are larger stand alone, marked by the highest bit, and come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .records import NO_PORT, Metric

Place = tuple[int, int | None, int | None]
"""(node id, egress port, queue or buffer); None: unknown."""
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
UNKNOWN = -1
"""An unknown port, queue or buffer in arrays."""
_PORT_AT, _MAX_PORT, _MAX_QUEUE = 9, 0xFFFE, 0xFF
_ALONE, _BUFFER, _ID = 1 << 31, 1 << 30, (1 << 30) - 1


def ascending(place: Place) -> tuple[int, ...]:
    """Sort key of a place: unknown ports, queues and buffers come first."""
    return tuple(UNKNOWN if part is None else part for part in place)


def ports_of(port: npt.NDArray[Any]) -> Ints:
    """Ports of records, with UNKNOWN for NO_PORT."""
    return np.where(port == NO_PORT, UNKNOWN, port.astype(np.int64))


def ports_of_events(events: npt.NDArray[Any] | np.void) -> Ints:
    """Egress ports of EVENT records. That of a link's utilisation may be an ifIndex that only `ident`
    has room for.
    """
    in_ident = (events["port"] == NO_PORT) & (events["metric"] == Metric.LINK_UTILIZATION)
    return ports_of(np.where(in_ident, events["ident"], events["port"]))


def keys_of(node: npt.NDArray[Any], port: npt.NDArray[Any], ident: npt.NDArray[Any] | int = UNKNOWN) -> Words:
    """The numbers of places; UNKNOWN stands for unknown parts."""
    port, ident = port.astype(np.int64), np.asarray(ident, np.int64)
    low = port + 1 << _PORT_AT | ident + 1
    for part, most, marks in ((port, _MAX_PORT, _ALONE), (ident, _MAX_QUEUE, _ALONE | _BUFFER)):
        large = part > most
        if large.any():
            low = np.where(large, marks | part & _ID, low)
    return np.asarray(node.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64))


def nodes_of(keys: Words) -> Ints:
    """The nodes of places."""
    return (keys >> np.uint64(32)).astype(np.int64)


def parts_of(keys: Words) -> tuple[Ints, Ints, Ints]:
    """The same backwards: nodes, ports, and queues or buffers."""
    low = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    port, ident = (low >> _PORT_AT) - 1, (low & (1 << _PORT_AT) - 1) - 1
    port_alone, ident_alone = low & (_ALONE | _BUFFER) == _ALONE, low >= _ALONE | _BUFFER
    port = np.where(port_alone, low & _ID, np.where(ident_alone, UNKNOWN, port))
    ident = np.where(ident_alone, low & _ID, np.where(port_alone, UNKNOWN, ident))
    return nodes_of(keys), port, ident


def keys_of_places(places: Sequence[Place]) -> Words:
    """The numbers of some places."""
    return keys_of(*np.array([ascending(place) for place in places], np.int64).reshape(-1, 3).T)


def places_of(keys: Words) -> list[Place]:
    """The places of some numbers."""
    return [
        (node, None if port < 0 else port, None if ident < 0 else ident)
        for node, port, ident in zip(*(part.tolist() for part in parts_of(keys)), strict=True)
    ]
