"""Congestion events in one list: packets that find a queue deeper than a threshold."""

from __future__ import annotations

import numpy as np

from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events
from ..monitor import Numbers, Reports, appended, packed_as

EVENT = np.dtype([("time_ns", "<i8"), ("switch", "<u4"), ("egress_port", "<u2"), ("queue_depth", "<u4")])
"""A congestion event, with its time and location."""


class _Congestion(Events):
    """The fields of `record`, of every packet that finds a queue deeper than `threshold` bytes."""

    def __init__(self, threshold: int = 10_000) -> None:
        super().__init__()
        self.threshold = threshold

    def observe(self, observations: Records) -> Reports:
        """One report for every such packet."""
        deep = observations[observations["queue_depth"] > self.threshold]
        return appended(0, packed_as(self.record, (deep[name] for name in self.record.names or ())))


class CongestionDepths(_Congestion):
    """Only the depth, as in DTA's Table 2."""

    name = "int-congestion"
    description = "depth of a queue over the threshold"
    sizes = "4 B"
    source = "INT; DTA Table 2, Append"
    record = np.dtype([("queue_depth", "<u4")])

    def query(self, store: Store) -> Numbers:
        """Depths in the list, bytes, uint64 [events], in order of time."""
        return self.read(store, 0)["queue_depth"].astype(np.uint64)


class CongestionEvents(_Congestion):
    """The depth with switch, port and time."""

    name = "int-congestion-events"
    description = "time, port and depth of a queue over the threshold"
    sizes = "18 B"
    source = "INT; DTA 4"
    record = EVENT

    def query(self, store: Store) -> Records:
        """EVENT records in the list, in order of time."""
        return self.read(store, 0)
