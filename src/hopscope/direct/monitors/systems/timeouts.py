"""TCP timeouts per flow, as in Marple: a segment is retransmitted after a silence."""

from __future__ import annotations

import numpy as np

from ....wire.observation import FIN, FLOW_BYTES, SYN, TCP
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Values
from ..groups import Groups, Numbering, grown
from ..monitor import Bytes, MonitorAnswers, Reports, entering, packed, written

PROTOCOL = 8
"""Offset of the protocol in a flow."""


class TcpTimeouts(Values):
    """Counts timeouts at the switch where a flow enters: segments whose bytes were sent before, at least
    `silence_ns` after the previous segment.

    Fast retransmits arrive within a round trip of the previous segment. Counts are exact if `silence_ns` is
    longer than round trips and shorter than the senders' minimum timeout.
    """

    name = "marple-tcp-timeouts"
    description = "number of a flow's TCP timeouts"
    sizes = "13 B key, 4 B data"
    source = "Marple; DTA 6.1"
    key_bytes = FLOW_BYTES
    record = np.dtype([("timeouts", "<u4")])

    def __init__(self, silence_ns: int = 5_000_000) -> None:
        self.silence_ns = silence_ns
        self._flows = Numbering(FLOW_BYTES)
        self._last_ns = np.zeros(0, np.int64)
        self._position = np.zeros(0, np.int64)  # of the last segment, in bytes from the flow's first
        self._sequence = np.zeros(0, np.int64)  # of the last segment
        self._end = np.zeros(0, np.int64)  # after the highest byte
        self._count = np.zeros(0, np.int64)

    def observe(self, observations: Records) -> Reports:
        """One report per timeout, with the flow's count so far."""
        seen = entering(observations)
        length = seen["payload"].astype(np.int64) + (seen["flags"] & SYN > 0) + (seen["flags"] & FIN > 0)
        kept = (seen["flow"][:, PROTOCOL] == TCP) & (length > 0)
        seen, length = seen[kept], length[kept]
        known = len(self._flows)
        numbers = self._flows.of(seen["flow"])
        for name in ("_last_ns", "_position", "_sequence", "_end", "_count"):
            setattr(self, name, grown(getattr(self, name), len(self._flows)))
        groups = Groups(numbers)
        mine, last = groups.numbers, groups.last
        sequence, time_ns = seen["sequence"].astype(np.int64), seen["time_ns"].astype(np.int64)
        # sequence numbers wrap at 2^32; a step between segments is less than half of that
        step = (sequence - groups.previous(sequence, self._sequence[mine])).astype(np.int32).astype(np.int64)
        step[groups.first & (numbers >= known)] = 0
        start = self._position[numbers] + groups.sums(step)
        sent_before = groups.highest_before(start + length, self._end[mine])
        gap = time_ns - groups.previous(time_ns, self._last_ns[mine])
        timeout = (start < sent_before) & (gap >= self.silence_ns)
        count = self._count[numbers] + groups.sums(timeout)
        self._last_ns[mine], self._sequence[mine] = time_ns[last], sequence[last]
        self._position[mine], self._count[mine] = start[last], count[last]
        self._end[mine] = np.maximum(sent_before, start + length)[last]
        return written(seen["flow"][timeout], packed((count[timeout], 4)))

    def query(self, store: Store, flows: Bytes) -> MonitorAnswers:
        """Timeouts of flows (uint8 [flows, 13]), uint64 [flows]; EMPTY: none."""
        return self.numbers(store, flows)
