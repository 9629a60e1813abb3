"""Queue pairs of an endpoint: their numbers, peers and receiving state, and the messages received by SEND."""

from __future__ import annotations

import secrets
from collections import deque

import numpy as np

from ..wire.records import Records
from .memory_table import RdmaError
from .records import QUEUE_PAIR, REPLAY, REPLAYS, PairState, Service

ROWS = 256
"""Maximum queue pairs of an endpoint, a power of two."""
MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs of InfiniBand."""
PSN_MASK = 0xFFFFFF
DEFAULT_PARTITION = 0xFFFF


class QueuePairs:
    """The table of queue pairs; the lower 8 bits of a number are the pair's row.

    The other 16 bits are random for every connection, so that packets of an old connection match none.
    """

    def __init__(self) -> None:
        self.rows: Records = np.zeros(ROWS, QUEUE_PAIR)
        """QUEUE_PAIR [ROWS]."""
        self.replay: Records = np.zeros(ROWS * REPLAYS, REPLAY)
        """Results of the last atomics: REPLAY [ROWS * REPLAYS], grouped by pair."""
        self.inbox: dict[int, deque[bytes]] = {}
        """Messages received by SEND, by queue pair number."""
        self._partial: dict[int, bytearray] = {}

    def create(self, *, service: Service = Service.RC, receives: int = 0) -> int:
        """Create a closed queue pair and return its number; `receives`: buffers for SENDs. Raises RdmaError
        if there is no room.
        """
        free = np.flatnonzero(self.rows["number"] == 0)
        if not len(free):
            raise RdmaError(f"{ROWS} queue pairs exist, the maximum")
        row = int(free[0])
        number = ((1 + secrets.randbelow((1 << 16) - 1)) << 8) | row
        self.rows[row] = np.zeros((), QUEUE_PAIR)
        self.rows[row]["number"] = number
        self.rows[row]["service"] = service
        self.rows[row]["receives"] = receives
        self.replay[row * REPLAYS : (row + 1) * REPLAYS] = np.zeros((), REPLAY)
        self.inbox[number] = deque()
        return number

    def connect(
        self,
        number: int,
        peer: tuple[int, int],
        peer_number: int,
        expected_psn: int,
        *,
        mtu: int = 1024,
        partition: int = DEFAULT_PARTITION,
    ) -> None:
        """Let a queue pair accept packets of `peer` (address as (hi, lo)) from `expected_psn` on.

        Raises RdmaError.
        """
        row = self.of(number)
        if mtu not in MTUS:
            raise RdmaError(f"path MTU: found {mtu}, expected one of {', '.join(map(str, MTUS))}")
        row["peer_hi"], row["peer_lo"] = peer
        row["peer_number"], row["expected_psn"] = peer_number & PSN_MASK, expected_psn & PSN_MASK
        row["mtu"], row["partition"], row["state"] = mtu, partition, PairState.READY

    def of(self, number: int) -> np.void:
        """The row of a queue pair, a view. Raises RdmaError for an unknown number."""
        row: np.void = self.rows[number % ROWS]
        if not number or row["number"] != number:
            raise RdmaError(f"no queue pair has the number {number:#x}")
        return row

    def close(self, number: int) -> None:
        """Delete a queue pair; its packets are rejected from now on. Raises RdmaError for an unknown
        number.
        """
        self.of(number)
        self.rows[number % ROWS] = np.zeros((), QUEUE_PAIR)
        self.inbox.pop(number, None)
        self._partial.pop(number, None)

    def in_order(self, records: Records) -> Records:
        """Sort a batch of packets by queue pair and number if they are out of order."""
        psn, number = records["psn"].astype(np.int64), records["queue_pair"]
        same = number[1:] == number[:-1]
        if not (((np.diff(psn) & PSN_MASK) > 1) & same).any():
            return records
        half = (PSN_MASK + 1) // 2
        expected = self.rows["expected_psn"][number % ROWS].astype(np.int64)
        ahead = ((psn - expected + half) & PSN_MASK) - half
        return records[np.lexsort((ahead, number))]

    def deliver(self, number: int, part: bytes, first: bool, last: bool) -> None:
        """Collect a part of a message received by SEND."""
        message = bytearray() if first else self._partial[number]
        self._partial[number] = message
        message += part
        if last:
            self.inbox[number].append(bytes(message))
            del self._partial[number]
