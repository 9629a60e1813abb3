"""Sonata: results of packet queries per window, and the packet tuples that they count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ....wire.observation import ACK, SYN, TCP, addresses
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events, Values
from ..groups import Groups, Numbering, grown
from ..monitor import (
    MonitorAnswers,
    Reports,
    appended,
    entering,
    packed,
    packed_as,
    unpacked,
    written,
)
from .timeouts import PROTOCOL

KEY_BYTES = 16
TUPLE = np.dtype([("source", "<u4"), ("destination", "<u4"), ("sport", "<u2"), ("dport", "<u2")])
"""The fields of a packet that a query reports."""


@dataclass(frozen=True, slots=True)
class PacketQuery:
    """Counts the packets entering the network that pass a filter, by switch and window."""

    number: int
    """Number of the query: key of its results, list of its tuples."""
    name: str
    passes: Callable[[Records], npt.NDArray[np.bool_]]
    """Filter: OBSERVATION records to bool [observations]."""


def _opens(seen: Records) -> npt.NDArray[np.bool_]:
    is_tcp = seen["flow"][:, PROTOCOL] == TCP
    return np.asarray(is_tcp & (seen["flags"] & (SYN | ACK) == SYN))


NEW_CONNECTIONS = PacketQuery(0, "new TCP connections", _opens)


class SonataResults(Values):
    """Counts by query, switch and window; a window's count is written again as it grows."""

    name = "sonata-results"
    description = "result of a query in a window, such as new TCP connections"
    sizes = "16 B key (query, switch, window), 4 B data"
    source = "Sonata; DTA Table 2, row 5"
    key_bytes = KEY_BYTES
    record = np.dtype([("count", "<u4")])

    def __init__(
        self,
        queries: tuple[PacketQuery, ...] = (NEW_CONNECTIONS,),
        window_ns: int = 10_000_000,
    ) -> None:
        self.queries, self.window_ns = queries, window_ns
        self._keys = Numbering(KEY_BYTES)
        self._counts = np.zeros(0, np.int64)

    def observe(self, observations: Records) -> Reports:
        """One report per changed count."""
        entered = entering(observations)
        parts = []
        for packet_query in self.queries:
            seen = entered[packet_query.passes(entered)]
            window = seen["time_ns"] // self.window_ns
            parts.append(
                packed((np.full(len(seen), packet_query.number), 4), (seen["switch"], 4), (window, 8))
            )
        keys = np.concatenate(parts)
        groups = Groups(self._keys.of(keys))
        self._counts = grown(self._counts, len(self._keys))
        self._counts[groups.numbers] += groups.totals(np.ones(len(keys), np.int64))
        data = packed((self._counts[groups.numbers], 4))
        return written(keys[groups.last], data)

    def query(
        self, store: Store, number: npt.ArrayLike, switches: npt.ArrayLike, times_ns: npt.ArrayLike
    ) -> MonitorAnswers:
        """Counts of a query at switches in the windows of these times, uint64 [rows]; EMPTY: no packet."""
        windows = np.atleast_1d(np.asarray(times_ns, np.int64)) // self.window_ns
        numbers, nodes, windows = np.broadcast_arrays(number, switches, windows)
        return self.numbers(store, packed((numbers, 4), (nodes, 4), (windows, 8)))


class SonataTuples(Events):
    """Addresses and ports of the packets that pass a query's filter, in the query's list."""

    name = "sonata-tuples"
    description = "tuples of the packets that pass a query"
    sizes = "12 B"
    source = "Sonata; DTA Table 2, Append"
    record = TUPLE

    def __init__(self, queries: tuple[PacketQuery, ...] = (NEW_CONNECTIONS,)) -> None:
        super().__init__(lists=1 + max(packet_query.number for packet_query in queries))
        self.queries = queries

    def observe(self, observations: Records) -> Reports:
        """One report per packet and query."""
        entered = entering(observations)
        parts, lists = [], []
        for packet_query in self.queries:
            seen = entered[packet_query.passes(entered)]
            source, destination = addresses(seen)
            sport, dport = unpacked(seen["flow"][:, PROTOCOL + 1 :], 2, 2)
            parts.append(packed_as(TUPLE, (source, destination, sport, dport)))
            lists.append(np.full(len(seen), packet_query.number))
        return appended(np.concatenate(lists), np.concatenate(parts))

    def query(self, store: Store, number: int) -> Records:
        """TUPLE records in a query's list, in order of time."""
        return self.read(store, number)
