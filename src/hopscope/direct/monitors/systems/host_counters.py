"""Bytes sent by each host: Marple's counters, mergeable and non-mergeable."""

from __future__ import annotations

import numpy as np

from ....wire.records import Records
from ...primitives.key_increment import KeyIncrementLayout
from ...primitives.key_increment import query as query_counts
from ...primitives.key_write import KeyWriteLayout
from ...primitives.key_write import query as query_values
from ...stores.store import Layout, Store
from ..groups import Groups, Numbering, grown
from ..monitor import (
    Bytes,
    Monitor,
    MonitorAnswers,
    Numbers,
    Reports,
    added,
    entering,
    packed,
    reports,
    unpacked,
)

ADDRESS_BYTES = 4


class HostCounters(Monitor):
    """Mergeable counters: a switch adds the bytes since its last report; several switches may count one
    host.
    """

    name = "marple-host-counters"
    primitive = "key-increment"
    description = "bytes sent by a host, added up"
    sizes = "4 B key, counter"
    source = "Marple; DTA Table 2, Key-Increment"
    key_bytes = ADDRESS_BYTES
    fields = (("bytes", 8),)

    def __init__(self, copies: int = 2) -> None:
        self.copies = copies

    def layout(self, expected: int) -> Layout:
        """16 counters for each host."""
        return KeyIncrementLayout(slots=16 * expected, copies=self.copies)

    def observe(self, observations: Records) -> Reports:
        """One report per host that sent in the batch."""
        seen = entering(observations)
        hosts = Numbering(ADDRESS_BYTES)
        groups = Groups(hosts.of(seen["flow"][:, :ADDRESS_BYTES]))
        return added(hosts.keys[groups.numbers], groups.totals(seen["size"]), self.copies)

    def query(self, store: Store, addresses: Bytes) -> Numbers:
        """Bytes of hosts (uint8 [hosts, 4]), uint64 [hosts]: exact or too high."""
        return query_counts(store, addresses, copies=self.copies).counter


class HostValues(Monitor):
    """Non-mergeable counters: the host's first switch keeps the counter, modulo 2^32, and writes its
    value.
    """

    name = "marple-host-values"
    primitive = "key-write"
    description = "bytes sent by a host, latest value"
    sizes = "4 B key, 4 B data"
    source = "Marple, non-merging; DTA Table 2, row 2"
    key_bytes = ADDRESS_BYTES
    fields = (("bytes", 4),)

    def __init__(self, copies: int = 2) -> None:
        self.copies = copies
        self._hosts = Numbering(ADDRESS_BYTES)
        self._bytes = np.zeros(0, np.int64)

    def layout(self, expected: int) -> KeyWriteLayout:
        """Load 1/16."""
        return KeyWriteLayout(slots=16 * expected, data_bytes=4, copies=self.copies)

    def observe(self, observations: Records) -> Reports:
        """One report per host that sent in the batch."""
        seen = entering(observations)
        groups = Groups(self._hosts.of(seen["flow"][:, :ADDRESS_BYTES]))
        self._bytes = grown(self._bytes, len(self._hosts))
        self._bytes[groups.numbers] += groups.totals(seen["size"])
        keys, values = self._hosts.keys[groups.numbers], self._bytes[groups.numbers]
        return reports(KeyWriteLayout.opcode, keys, packed((values, 4)), redundancy=self.copies)

    def query(self, store: Store, addresses: Bytes) -> MonitorAnswers:
        """Bytes of hosts (uint8 [hosts, 4]), uint64 [hosts]."""
        answers = query_values(store, addresses, copies=self.copies)
        return MonitorAnswers(answers.status, np.where(answers.found, unpacked(answers.data, 4)[0], 0))
