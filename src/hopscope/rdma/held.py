"""Packets behind a gap, held until what is missing has come: a loss costs one packet and not a window.

On the wire nothing differs from a NIC that drops them (InfiniBand 9.7.5.1): a gap is answered with a NAK, and
requests are executed in their order. But when the missing packet comes again, all that was held is executed
and acknowledged at once, and the requester need not wait for the rest of what it sends again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire.reasons import RoceReason
from ..wire.records import ROCE, Records
from .queue_pair import PSN_MASK, ROWS, QueuePairs
from .records import Service

MOST_PACKETS = 8192
MOST_BYTES = 16 * 1024 * 1024
"""What all queue pairs together hold; beyond it packets are dropped, as if they had been lost."""
_AGAIN = 4
"""Once a quarter of what comes behind a gap is held already, the requester has gone back, and the first
packet was lost again: that is told by another NAK.
"""
Bytes = npt.NDArray[np.uint8]


def compact(rows: Records, arena: Bytes) -> tuple[Records, Bytes]:
    """A copy of packets, with a copy of their payload alone."""
    rows = rows.copy()
    lengths = rows["payload_bytes"].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    index = np.repeat(rows["payload_at"].astype(np.int64) - begins, lengths) + np.arange(lengths.sum())
    rows["payload_at"] = begins
    return rows, arena[index]


class Held:
    """What waits, of all queue pairs of an endpoint."""

    def __init__(self, pairs: QueuePairs, counts: npt.NDArray[np.uint64]) -> None:
        """`counts`: of the responder, by RoceReason; what is executed later is not counted as a gap."""
        self._pairs = pairs
        self._counts = counts
        self._rows: Records = np.zeros(0, ROCE)
        self._payload: Bytes = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._rows)

    def join(self, rows: Records, arena: Bytes) -> tuple[Records, Bytes]:
        """A batch and what it sets free, in order of their numbers; where that is nothing, the batch."""
        if not len(self._rows):
            return rows, arena
        expected = self._pairs.rows["expected_psn"][rows["queue_pair"] % ROWS]
        freed = np.unique(rows["queue_pair"][(rows["psn"] == expected) & (rows["reason"] == 0)])
        mine = np.isin(self._rows["queue_pair"], freed)
        if not mine.any():
            return rows, arena
        rows, arena = compact(rows, arena)
        held = self._rows[mine]
        held["payload_at"] += len(arena)
        joined = np.concatenate([rows, held])
        arena = np.concatenate([arena, self._payload])
        self._rows, self._payload = compact(self._rows[~mine], self._payload)
        self._counts[RoceReason.PSN_GAP] -= np.uint64(len(held))
        return self._pairs.in_order(joined), arena

    def keep(self, rows: Records, arena: Bytes) -> None:
        """Hold what a batch left behind gaps."""
        behind = np.flatnonzero(rows["reason"] == RoceReason.PSN_GAP)
        if not len(behind):
            return
        behind = behind[rows["opcode"][behind] >> 5 == Service.RC]
        more, payload = compact(rows[behind], arena)
        more["reason"] = 0
        self._tell_again(more)
        more["payload_at"] += len(self._payload)
        every = np.concatenate([self._rows, more])
        _, first = np.unique(_keys(every), return_index=True)
        first = first[:MOST_PACKETS]
        first = first[np.cumsum(every["payload_bytes"][first], dtype=np.int64) <= MOST_BYTES]
        self._rows, self._payload = compact(every[first], np.concatenate([self._payload, payload]))

    def forget(self, number: int) -> None:
        """A queue pair is closed: what it waited for comes no more."""
        others = self._rows["queue_pair"] != number
        if not others.all():
            self._rows, self._payload = compact(self._rows[others], self._payload)

    def _tell_again(self, more: Records) -> None:
        """Let the next packet behind a gap be answered, where the requester has sent again what is held."""
        known = np.isin(_keys(more), _keys(self._rows))
        for number in np.unique(more["queue_pair"][known]):
            of = more["queue_pair"] == number
            if _AGAIN * int(known[of].sum()) >= int(of.sum()):
                self._pairs.rows["behind"][number % ROWS] = 0


def _keys(rows: Records) -> npt.NDArray[np.uint64]:
    """Queue pair and number in one."""
    psn = (rows["psn"] & PSN_MASK).astype(np.uint64)
    return np.asarray(rows["queue_pair"].astype(np.uint64) << np.uint64(24) | psn, np.uint64)
