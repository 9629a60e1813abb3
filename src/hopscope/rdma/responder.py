"""The receiving side of a software NIC: checks, executes and answers requests (InfiniBand 9.6, 9.7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..memory.region import Region
from ..memory.ring import RingWriter
from ..wire.reasons import RoceReason
from ..wire.records import Records
from ..wire.roce.records import ROCE
from .memory_table import MemoryTable
from .queue_pair import ROWS, QueuePairs
from .records import NOTICE, VERB

VERBS, ANSWERS, NOTICES, RECEIVED = 0, 1, 2, 3
"""Indices into `fill`, as in the kernel."""

_SEND_FIRST, _SEND_MIDDLE, _SEND_LAST, _SEND_LAST_IMMEDIATE = range(4)
_CONTINUED = (_SEND_MIDDLE, _SEND_LAST, _SEND_LAST_IMMEDIATE)
_UNFINISHED = (_SEND_FIRST, _SEND_MIDDLE)


class Responder:
    """Executes requests of known queue pairs on the memories of a table.

    RC: a gap is answered with one NAK (and another every 1024 packets), duplicates are acknowledged again,
    duplicates of atomics get the stored result (of the last 256), and a request that is rejected for any
    other reason is answered with a NAK and puts the queue pair into the error state, as the specification
    requires (9.9.3.1): the requester must reconnect with RDMA-CM. UC: a rejected packet only drops its
    message.
    """

    def __init__(self, table: MemoryTable, pairs: QueuePairs, notices: Region | None = None) -> None:
        self.table = table
        self.pairs = pairs
        self.counts = np.zeros(len(RoceReason), np.uint64)
        """Packets by `RoceReason`; executed requests at NONE."""
        self.verbs_executed = 0
        self.verbs_by_target: npt.NDArray[np.uint64] = np.zeros(256, np.uint64)
        """Executed verbs by target, uint64 [256]."""
        self.notices_written = 0
        self._ring = None if notices is None else RingWriter(notices)
        self._fill = np.zeros(5, np.uint64)
        self._dirty = np.zeros(ROWS, np.uint32)
        self._allocate(4096)

    def _allocate(self, rows: int) -> None:
        self._rows = rows
        self._verbs: Records = np.zeros(rows, VERB)
        self._answers: Records = np.zeros(rows + ROWS, ROCE)
        self._notices: Records = np.zeros(rows, NOTICE)
        self._received = np.zeros((rows, 2), np.uint32)

    def execute(self, records: Records, arena: npt.NDArray[np.uint8], now_ns: int) -> Records:
        """Process a batch of parsed packets, in order.

        Returns the answers to send, ROCE, valid until the next call. Sets `reason` of rejected records.
        `now_ns`: time of notices, since the Unix epoch.
        """
        from ..base.kernels.jit import readonly
        from .apply_kernel import apply
        from .responder_kernel import check, finish

        if len(records) > self._rows:
            self._allocate(len(records))
        fill = self._fill
        fill[:] = 0
        check(
            records, self.pairs.rows, self.table.rows, self.pairs.replay, self._verbs, self._answers,
            self._notices, self._received, self._dirty, fill, self.counts, np.int64(now_ns),
        )  # fmt: skip
        verbs = fill[VERBS]
        if verbs:
            payload = readonly(arena)
            by_target = np.bincount(self._verbs["target"][:verbs], minlength=1)
            for target in np.flatnonzero(by_target):
                memory = self.table.memories[target]
                apply(self._verbs, np.uint64(0), verbs, payload, memory, np.uint64(target))
            self.verbs_by_target[: len(by_target)] += by_target.astype(np.uint64)
            self.verbs_executed += int(verbs)
        finish(self._answers, fill, self._verbs, self.pairs.replay)
        if fill[NOTICES]:
            self.notices_written += int(fill[NOTICES])
            if self._ring is not None:
                notices = self._notices[: fill[NOTICES]]
                notices["target"] = self.table.numbers[notices["target"]]
                self._ring.write(notices)
        for row, pair in self._received[: fill[RECEIVED]]:
            record = records[row]
            at, operation = int(record["payload_at"]), int(record["opcode"]) & 31
            part = arena[at : at + int(record["payload_bytes"])].tobytes()
            number = int(self.pairs.rows[pair]["number"])
            self.pairs.deliver(number, part, operation not in _CONTINUED, operation not in _UNFINISHED)
        return self._answers[: fill[ANSWERS]]
