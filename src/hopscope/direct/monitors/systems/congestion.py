"""Congestion events in one list: packets that find a queue deeper than a threshold."""

from __future__ import annotations

import numpy as np

from ....wire.records import Records
from ...stores.store import Store
from ..events import Events, read
from ..monitor import Numbers, Reports, appended, packed

EVENT = np.dtype([("time_ns", "<i8"), ("switch", "<u4"), ("egress_port", "<u2"), ("queue_depth", "<u4")])
"""A congestion event, with its time and location."""
_WIDTHS = (8, 4, 2, 4)


class CongestionDepths(Events):
    """Only the depth, as in DTA's Table 2."""

    name = "int-congestion"
    description = "depth of a queue over the threshold"
    sizes = "4 B"
    source = "INT; DTA Table 2, Append"
    fields = (("queue_depth", 4),)
    data_bytes = 4

    def __init__(self, threshold: int = 10_000) -> None:
        super().__init__()
        self.threshold = threshold

    def observe(self, observations: Records) -> Reports:
        """One report for every packet that found a queue deeper than `threshold` bytes."""
        deep = observations[observations["queue_depth"] > self.threshold]
        return appended(0, packed((deep["queue_depth"], 4)))

    def query(self, store: Store) -> Numbers:
        """Depths in the list, bytes, uint64 [events], in order of time."""
        depths = np.dtype([("queue_depth", "<u8")])
        return np.asarray(read(store, 0, depths, (4,))["queue_depth"])


class CongestionEvents(Events):
    """The depth with switch, port and time."""

    name = "int-congestion-events"
    description = "time, port and depth of a queue over the threshold"
    sizes = "18 B"
    source = "INT; DTA 4"
    fields = tuple(zip(EVENT.names or (), _WIDTHS, strict=True))
    data_bytes = sum(_WIDTHS)

    def __init__(self, threshold: int = 10_000) -> None:
        super().__init__()
        self.threshold = threshold

    def observe(self, observations: Records) -> Reports:
        """One report for every packet that found a queue deeper than `threshold` bytes."""
        deep = observations[observations["queue_depth"] > self.threshold]
        columns = ((deep[name], width) for name, width in zip(EVENT.names or (), _WIDTHS, strict=True))
        return appended(0, packed(*columns))

    def query(self, store: Store) -> Records:
        """EVENT records in the list, in order of time."""
        return read(store, 0, EVENT, _WIDTHS)
