"""Reorder buffer: packets after a gap are kept until the missing one arrives, so a loss costs one packet, not
a window.

On the wire it looks like a NIC that drops them (InfiniBand 9.7.5.1): a gap is answered with a NAK, and
requests are executed in order. But when the missing packet arrives, all buffered ones are executed and
acknowledged at once, and the requester need not wait for the rest of its retransmissions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire.reasons import RoceReason
from ..wire.records import Records
from ..wire.roce.records import ROCE
from .queue_pair import PSN_MASK, ROWS, QueuePairs
from .records import Service

MAX_PACKETS = 8192
MAX_BYTES = 16 * 1024 * 1024
"""Maximum for all queue pairs in total; further packets are dropped, as if lost."""
_AGAIN = 4
"""If a quarter of the packets after a gap are already buffered, the requester has gone back, and the first
packet was lost again: another NAK is due.
"""
Bytes = npt.NDArray[np.uint8]


def compact(rows: Records, arena: Bytes) -> tuple[Records, Bytes]:
    """A copy of packets and of only their payload."""
    rows = rows.copy()
    lengths = rows["payload_bytes"].astype(np.int64)
    begins = np.cumsum(lengths) - lengths
    index = np.repeat(rows["payload_at"].astype(np.int64) - begins, lengths) + np.arange(lengths.sum())
    rows["payload_at"] = begins
    return rows, arena[index]


class ReorderBuffer:
    """Buffered packets of all queue pairs of an endpoint."""

    def __init__(self, pairs: QueuePairs, counts: npt.NDArray[np.uint64]) -> None:
        """`counts`: of the responder, by RoceReason; packets executed later are not counted as gaps."""
        self._pairs = pairs
        self._counts = counts
        self._rows: Records = np.zeros(0, ROCE)
        self._payload: Bytes = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return len(self._rows)

    def join(self, rows: Records, arena: Bytes) -> tuple[Records, Bytes]:
        """A batch and the buffered packets that it releases, in order of their numbers."""
        if not len(self._rows):
            return rows, arena
        expected = self._pairs.rows["expected_psn"][rows["queue_pair"] % ROWS]
        freed = np.unique(rows["queue_pair"][(rows["psn"] == expected) & (rows["reason"] == 0)])
        released = np.isin(self._rows["queue_pair"], freed)
        if not released.any():
            return rows, arena
        rows, arena = compact(rows, arena)
        waiting = self._rows[released]
        waiting["payload_at"] += len(arena)
        joined = np.concatenate([rows, waiting])
        arena = np.concatenate([arena, self._payload])
        self._rows, self._payload = compact(self._rows[~released], self._payload)
        self._counts[RoceReason.PSN_GAP] -= np.uint64(len(waiting))
        return self._pairs.in_order(joined), arena

    def keep(self, rows: Records, arena: Bytes) -> None:
        """Buffer the packets of a batch that are after a gap."""
        after_gap = np.flatnonzero(rows["reason"] == RoceReason.PSN_GAP)
        if not len(after_gap):
            return
        after_gap = after_gap[rows["opcode"][after_gap] >> 5 == Service.RC]
        more, payload = compact(rows[after_gap], arena)
        more["reason"] = 0
        self._repeat_nak(more)
        more["payload_at"] += len(self._payload)
        merged = np.concatenate([self._rows, more])
        _, first = np.unique(_keys(merged), return_index=True)
        first = first[:MAX_PACKETS]
        first = first[np.cumsum(merged["payload_bytes"][first], dtype=np.int64) <= MAX_BYTES]
        self._rows, self._payload = compact(merged[first], np.concatenate([self._payload, payload]))

    def forget(self, number: int) -> None:
        """Drop the packets of a closed queue pair."""
        others = self._rows["queue_pair"] != number
        if not others.all():
            self._rows, self._payload = compact(self._rows[others], self._payload)

    def _repeat_nak(self, more: Records) -> None:
        """Answer the next packet after a gap if the requester has retransmitted buffered packets."""
        known = np.isin(_keys(more), _keys(self._rows))
        for number in np.unique(more["queue_pair"][known]):
            of = more["queue_pair"] == number
            if _AGAIN * int(known[of].sum()) >= int(of.sum()):
                self._pairs.rows["after_gap"][number % ROWS] = 0


def _keys(rows: Records) -> npt.NDArray[np.uint64]:
    """Queue pair and packet number as one integer."""
    psn = (rows["psn"] & PSN_MASK).astype(np.uint64)
    return np.asarray(rows["queue_pair"].astype(np.uint64) << np.uint64(24) | psn, np.uint64)
