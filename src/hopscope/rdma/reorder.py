"""Reorder buffer: packets after a gap are kept until the missing packet arrives, so that a loss costs one
packet rather than a window.

On the wire it behaves like a NIC that drops these packets (InfiniBand 9.7.5.1): a gap is answered with a NAK,
and requests are executed in order. But when the missing packet arrives, all buffered packets are executed and
acknowledged at once, and the requester need not wait for its other retransmissions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..wire.reasons import RoceReason
from ..wire.records import Records
from .queue_pair import ROWS, QueuePairs
from .records import Service

PAIR_PACKETS = 8192
PAIR_BYTES = 4 * 1024 * 1024
"""Maximum of one queue pair, twice as much as our requester has in flight; packets beyond it are dropped."""
MAX_BYTES = 16 * 1024 * 1024
"""Maximum of all queue pairs in total; above it, the queue pair with the most bytes loses all of them."""
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


@dataclass(slots=True)
class _Waiting:
    """Buffered packets of one queue pair, in the blocks in which they arrived."""

    blocks: list[tuple[Records, Bytes]] = field(default_factory=list)
    packets: int = 0
    size: int = 0
    """Bytes of payload."""

    def psns(self) -> npt.NDArray[np.uint32]:
        """Their packet numbers."""
        numbers = [rows["psn"] for rows, _ in self.blocks]
        return np.concatenate([np.zeros(0, np.uint32), *numbers], dtype=np.uint32)

    def add(self, rows: Records, payload: Bytes) -> None:
        """Buffer packets."""
        self.blocks.append((rows, payload))
        self.packets += len(rows)
        self.size += len(payload)


class ReorderBuffer:
    """Buffered packets of all queue pairs of an endpoint, stored by queue pair: no peer causes copies for
    another.
    """

    def __init__(self, pairs: QueuePairs, counts: npt.NDArray[np.uint64]) -> None:
        """`counts`: counts of the responder by RoceReason; packets executed later are not counted as gaps."""
        self._pairs = pairs
        self._counts = counts
        self._waiting: dict[int, _Waiting] = {}

    def __len__(self) -> int:
        return sum(waiting.packets for waiting in self._waiting.values())

    def join(self, rows: Records, arena: Bytes) -> tuple[Records, Bytes]:
        """A batch together with the buffered packets that it releases, in order of their numbers."""
        if not self._waiting:
            return rows, arena
        expected = self._pairs.rows["expected_psn"][rows["queue_pair"] % ROWS]
        arrived = np.unique(rows["queue_pair"][(rows["psn"] == expected) & (rows["reason"] == 0)])
        freed = [self._waiting.pop(number) for number in arrived.tolist() if number in self._waiting]
        if not freed:
            return rows, arena
        rows, arena = compact(rows, arena)
        packets, payloads, at = [rows], [arena], len(arena)
        for waiting in freed:
            for block, payload in waiting.blocks:
                block["payload_at"] += at
                at += len(payload)
                packets.append(block)
                payloads.append(payload)
            self._counts[RoceReason.PSN_GAP] -= np.uint64(waiting.packets)
        return self._pairs.in_order(np.concatenate(packets)), np.concatenate(payloads)

    def keep(self, rows: Records, arena: Bytes) -> None:
        """Buffer the packets of a batch that follow a gap."""
        after_gap = np.flatnonzero(rows["reason"] == RoceReason.PSN_GAP)
        if not len(after_gap):
            return
        more = rows[after_gap[rows["opcode"][after_gap] >> 5 == Service.RC]]
        for number in np.unique(more["queue_pair"]).tolist():
            self._keep(number, more[more["queue_pair"] == number], arena)
        while sum(waiting.size for waiting in self._waiting.values()) > MAX_BYTES:
            self.forget(max(self._waiting, key=lambda number: self._waiting[number].size))

    def forget(self, number: int) -> None:
        """Drop the packets of a queue pair."""
        self._waiting.pop(number, None)

    def _keep(self, number: int, more: Records, arena: Bytes) -> None:
        """Buffer those packets of one queue pair that are new and fit."""
        waiting = self._waiting.setdefault(number, _Waiting())
        known = np.isin(more["psn"], waiting.psns())
        if known.any() and _AGAIN * int(known.sum()) >= len(more):  # the requester has retransmitted them
            self._pairs.rows["after_gap"][number % ROWS] = 0
        new = more[~known]
        new = new[np.unique(new["psn"], return_index=True)[1]][: PAIR_PACKETS - waiting.packets]
        fits = np.cumsum(new["payload_bytes"], dtype=np.int64) <= PAIR_BYTES - waiting.size
        if fits.any():
            block, payload = compact(new[fits], arena)
            block["reason"] = 0
            waiting.add(block, payload)
        elif not waiting.packets:
            del self._waiting[number]
