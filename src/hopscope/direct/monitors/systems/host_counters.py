"""Bytes sent by each host: Marple's counters, mergeable and non-mergeable."""

from __future__ import annotations

import numpy as np

from ....wire.records import Records
from ...stores.store import Store
from ..bases import Counters, Values
from ..groups import Groups, Numbering, grown
from ..monitor import Bytes, MonitorAnswers, Reports, added, entering, packed, written

ADDRESS_BYTES = 4


class HostCounters(Counters):
    """Mergeable counters: a switch adds the bytes since its last report; several switches may count one
    host.
    """

    name = "marple-host-counters"
    description = "bytes sent by a host, added up"
    sizes = "4 B key, counter"
    source = "Marple; DTA Table 2, Key-Increment"
    key_bytes = ADDRESS_BYTES
    record = np.dtype([("bytes", "<u8")])

    def observe(self, observations: Records) -> Reports:
        """One report per host that sent in the batch."""
        seen = entering(observations)
        hosts = Numbering(ADDRESS_BYTES)
        groups = Groups(hosts.of(seen["flow"][:, :ADDRESS_BYTES]))
        return added(hosts.keys[groups.numbers], groups.totals(seen["size"]))


class HostValues(Values):
    """Non-mergeable counters: the host's first switch keeps the counter, modulo 2^32, and writes its
    value.
    """

    name = "marple-host-values"
    description = "bytes sent by a host, latest value"
    sizes = "4 B key, 4 B data"
    source = "Marple, non-merging; DTA Table 2, row 2"
    key_bytes = ADDRESS_BYTES
    record = np.dtype([("bytes", "<u4")])

    def __init__(self) -> None:
        self._hosts = Numbering(ADDRESS_BYTES)
        self._bytes = np.zeros(0, np.int64)

    def observe(self, observations: Records) -> Reports:
        """One report per host that sent in the batch."""
        seen = entering(observations)
        groups = Groups(self._hosts.of(seen["flow"][:, :ADDRESS_BYTES]))
        self._bytes = grown(self._bytes, len(self._hosts))
        self._bytes[groups.numbers] += groups.totals(seen["size"])
        keys, values = self._hosts.keys[groups.numbers], self._bytes[groups.numbers]
        return written(keys, packed((values, 4)))

    def query(self, store: Store, addresses: Bytes) -> MonitorAnswers:
        """Bytes of hosts (uint8 [hosts, 4]), uint64 [hosts]."""
        return self.numbers(store, addresses)
