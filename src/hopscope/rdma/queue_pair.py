"""Queue pairs of one end: their numbers, peers and receiving state, and the messages that came by SEND."""

from __future__ import annotations

import secrets
from collections import deque

import numpy as np

from ..wire.records import Records
from .memory_table import RdmaError
from .records import QUEUE_PAIR, REPLAY, REPLAYS, PairState, Service

ROWS = 256
"""Queue pairs of one end, a power of two."""
MTUS = (256, 512, 1024, 2048, 4096)
"""Path MTUs that InfiniBand has."""
RECEIVE_BYTES = 65_536
"""Longest message that a posted buffer takes."""
PSN_MASK = 0xFFFFFF
DEFAULT_PARTITION = 0xFFFF


class QueuePairs:
    """The table of queue pairs; a pair is in the row that the lower 8 bits of its number say.

    The other 16 bits are drawn anew for every connection, so that packets of an old one find nobody.
    """

    def __init__(self) -> None:
        self.rows: Records = np.zeros(ROWS, QUEUE_PAIR)
        """QUEUE_PAIR [ROWS]."""
        self.replay: Records = np.zeros(ROWS * REPLAYS, REPLAY)
        """Results of the last atomics: REPLAY [ROWS * REPLAYS], those of one pair behind each other."""
        self.inbox: dict[int, deque[bytes]] = {}
        """Messages that came by SEND, by number of the queue pair."""
        self._partial: dict[int, bytearray] = {}

    def create(self, *, service: Service = Service.RC, receives: int = 0) -> int:
        """Number of a new queue pair, closed as yet; `receives`: buffers for SENDs. RdmaError: no room."""
        free = np.flatnonzero(self.rows["number"] == 0)
        if not len(free):
            raise RdmaError(f"{ROWS} queue pairs are there, and there is room for no more")
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
        """Let a queue pair take packets of `peer` (address as (hi, lo)) from `expected_psn` on.

        Raises RdmaError.
        """
        row = self.of(number)
        if mtu not in MTUS:
            raise RdmaError(f"path MTU {mtu}, expected one of {', '.join(map(str, MTUS))}")
        row["peer_hi"], row["peer_lo"] = peer
        row["peer_number"], row["expected_psn"] = peer_number & PSN_MASK, expected_psn & PSN_MASK
        row["mtu"], row["partition"], row["state"] = mtu, partition, PairState.READY

    def of(self, number: int) -> np.void:
        """The row of a queue pair, to read and change. RdmaError: none has this number."""
        row: np.void = self.rows[number % ROWS]
        if not number or row["number"] != number:
            raise RdmaError(f"no queue pair has the number {number:#x}")
        return row

    def close(self, number: int) -> None:
        """Forget a queue pair; its packets find nobody from now on. RdmaError: none has this number."""
        self.of(number)
        self.rows[number % ROWS] = np.zeros((), QUEUE_PAIR)
        self.inbox.pop(number, None)
        self._partial.pop(number, None)

    def in_order(self, records: Records) -> Records:
        """A batch of packets by their numbers, where they come in disorder: what is here is not missing."""
        psn, number = records["psn"].astype(np.int64), records["queue_pair"]
        same = number[1:] == number[:-1]
        if not (((np.diff(psn) & PSN_MASK) > 1) & same).any():
            return records
        half = (PSN_MASK + 1) // 2
        expected = self.rows["expected_psn"][number % ROWS].astype(np.int64)
        ahead = ((psn - expected + half) & PSN_MASK) - half
        return records[np.lexsort((ahead, number))]

    def deliver(self, number: int, part: bytes, first: bool, last: bool) -> None:
        """Take a part of a message that came by SEND."""
        message = bytearray() if first else self._partial[number]
        self._partial[number] = message
        message += part
        if last:
            self.inbox[number].append(bytes(message))
            del self._partial[number]
