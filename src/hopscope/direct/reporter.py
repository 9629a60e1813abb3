"""The reporter of a switch (DTA 5.1), without a socket: makes datagrams, takes acknowledgments."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from ..wire.address import number_of
from ..wire.dta import layout
from ..wire.dta.ack import parse_answers
from ..wire.dta.encode import REPORTER_PORT, encode_dta
from ..wire.dta.forms import COUNTER_BYTES, LIST_BYTES, Form, Opcode
from ..wire.dta.records import DTA, DtaFlag
from ..wire.records import FRAME, FrameBatch, Records
from .records import BUFFERED_REPORT

Bytes = npt.NDArray[np.uint8]
Flags = bool | npt.NDArray[np.bool_]
Numbers = int | npt.NDArray[np.integer]
RETRANSMIT_SLOTS = {Form.TWO: 0, Form.THREE: 32, Form.SIZED: 4096}
"""Retransmission slots: half the window in which a translator can distinguish duplicate from late reports."""
_MAX_BYTES = {Form.THREE: layout.DTA_3.size + layout.DTA_KEY_INCREMENT.size, Form.SIZED: 12 + 2 * 255}


class Reporter:
    """One sequence of reports in one form.

    Every method that reports returns frames (UDP payloads) to be sent in this order; keys, and data, are
    uint8 [reports, bytes]. The last reports with `retransmit` are kept, and retransmitted up to `tries` times
    when a NACK names them. `first` is the first sequence number; None: random, so that a restarted reporter
    is not taken for its predecessor. `source` and `sport` are the sender in the frames. Raises ValueError if
    the form cannot carry a value.
    """

    def __init__(
        self,
        form: Form,
        *,
        tries: int = 3,
        first: int | None = None,
        source: str = "192.0.2.1",
        sport: int = REPORTER_PORT,
    ) -> None:
        from . import reporter_kernel as kernel

        if not 0 <= tries <= 255:
            raise ValueError(f"{tries} tries, expected 0 to 255")
        self.form = form
        self._mask = (1 << form.sequence_bits) - 1
        self._first = (secrets.randbits(32) if first is None else first) & self._mask
        self._source, self._sport = source, sport
        self._tries = np.uint8(tries)
        self._next = 0
        self._kernel = kernel
        slots = RETRANSMIT_SLOTS[form]
        self._kept = np.zeros(slots, BUFFERED_REPORT)
        self._store = np.zeros(slots * _MAX_BYTES.get(form, 0), np.uint8)
        self._tally = np.zeros(kernel.TALLIES, np.uint64)
        self._resent = self._damaged = 0

    def key_write(
        self, keys: Bytes, data: Bytes, *, redundancy: Numbers = 1, immediate: Flags = False,
        retransmit: Flags = False,
    ) -> FrameBatch:  # fmt: skip
        """Key-Write: store data under keys, `redundancy` copies."""
        return self.report(
            Opcode.KEY_WRITE, keys, data, redundancy=redundancy, immediate=immediate, retransmit=retransmit
        )

    def append(
        self, lists: npt.NDArray[np.unsignedinteger], data: Bytes, *, immediate: Flags = False,
        retransmit: Flags = False,
    ) -> FrameBatch:  # fmt: skip
        """Append: data to the ends of lists."""
        keys = _big_endian(lists, LIST_BYTES)
        return self.report(Opcode.APPEND, keys, data, immediate=immediate, retransmit=retransmit)

    def key_increment(
        self, keys: Bytes, counters: npt.NDArray[np.unsignedinteger], *, redundancy: Numbers = 2,
        immediate: Flags = False, retransmit: Flags = False,
    ) -> FrameBatch:  # fmt: skip
        """Key-Increment: add to the counters of keys.

        `redundancy`: as many copies as queries read, otherwise counters are too small; 2 as in a store.
        """
        data = _big_endian(counters, COUNTER_BYTES)
        return self.report(
            Opcode.KEY_INCREMENT, keys, data, redundancy=redundancy, immediate=immediate,
            retransmit=retransmit,
        )  # fmt: skip

    def postcard(
        self, keys: Bytes, hops: Numbers, data: Bytes, *, path_length: Numbers = 0, redundancy: Numbers = 0,
        immediate: Flags = False, retransmit: Flags = False,
    ) -> FrameBatch:  # fmt: skip
        """Postcarding: the value of hop `hops` (1: the first) of a path of `path_length` hops (0:
        unknown).
        """
        return self.report(
            Opcode.POSTCARDING, keys, data, hop=hops, path_length=path_length, redundancy=redundancy,
            immediate=immediate, retransmit=retransmit,
        )  # fmt: skip

    def report(
        self, opcode: int, keys: Bytes, data: Bytes, *, immediate: Flags = False, retransmit: Flags = False,
        **fields: Numbers,
    ) -> FrameBatch:  # fmt: skip
        """Any opcode, extensions included; `fields` are columns of DTA (redundancy, hop, path_length)."""
        if keys.ndim != 2 or data.ndim != 2 or len(keys) != len(data):
            raise ValueError(
                f"keys of shape {keys.shape} and data of shape {data.shape}, expected one row each"
            )
        if opcode == Opcode.APPEND and keys.shape[1] != LIST_BYTES:
            raise ValueError(f"a list of {keys.shape[1]} bytes, expected {LIST_BYTES}")
        if opcode == Opcode.KEY_INCREMENT and data.shape[1] != COUNTER_BYTES:
            raise ValueError(f"a counter of {data.shape[1]} bytes, expected {COUNTER_BYTES}")
        arena = np.concatenate([keys, data], axis=1).astype(np.uint8)
        count, width = arena.shape
        for name, size in (("key", keys.shape[1]), ("data", data.shape[1])):
            if size > 255:
                raise ValueError(f"{name} of {size} bytes, at most 255 can be sent")
        reports = np.zeros(count, DTA)
        reports["opcode"] = opcode
        reports["key_at"] = np.arange(count) * width
        reports["data_at"] = reports["key_at"] + keys.shape[1]
        reports["key_bytes"], reports["data_bytes"] = keys.shape[1], data.shape[1]
        if opcode == Opcode.APPEND:
            reports["list"] = np.ascontiguousarray(keys).view(">u4").reshape(-1)
        if opcode == Opcode.KEY_INCREMENT:
            reports["counter"] = np.ascontiguousarray(data).view(">u8").reshape(-1)
        reports["flags"] = np.where(immediate, DtaFlag.IMMEDIATE, 0) + np.where(
            retransmit, DtaFlag.RETRANSMIT, 0
        )
        for name, value in fields.items():
            if np.any(np.asarray(value) > 255) or np.any(np.asarray(value) < 0):
                raise ValueError(f"{name} is not in 0..255")
            reports[name] = value
        return self.send(reports, arena.reshape(-1))

    def send(self, reports: Records, arena: Bytes) -> FrameBatch:
        """Send DTA records over an arena; sets their sequence numbers."""
        numbers = np.uint64(self._next + self._first) + np.arange(len(reports), dtype=np.uint64)
        reports["sequence"] = numbers & np.uint64(self._mask)
        batch = encode_dta(reports, arena, self.form, source=self._source, sport=self._sport)
        if len(self._kept):
            self._kernel.keep(
                reports,
                batch.arena,
                batch.frames,
                np.uint64(self._next),
                self._kept,
                self._store,
                self._tally,
            )
        self._next += len(reports)
        return batch

    def receive(self, batch: FrameBatch) -> FrameBatch | None:
        """Take datagrams from the translator. Returns the reports to retransmit, if any."""
        if not len(self._kept):
            self._damaged += len(batch)
            return None
        answers, damaged = parse_answers(batch, self.form)
        self._damaged += damaged
        mask = np.uint64(self._mask)
        answers["sequence"] = (answers["sequence"].astype(np.uint64) - np.uint64(self._first)) & mask
        self._kernel.answered(answers, np.uint64(self._next), mask, self._tries, self._kept, self._tally)
        return self._collect()

    def retransmit_all(self) -> FrameBatch | None:
        """Retransmit all reports that are still unacknowledged: at the end, since no gap reveals a lost last
        report.
        """
        kept = self._kept
        spent = (kept["buffered"] > 0) & (kept["tries"] >= self._tries)
        kept["buffered"][spent] = 0
        self._tally[self._kernel.GIVEN_UP] += np.count_nonzero(spent)
        waiting = kept["buffered"] > 0
        kept["pending"][waiting] = 1
        kept["tries"][waiting] += 1
        return self._collect()

    def _collect(self) -> FrameBatch | None:
        """Frames of the reports that are due."""
        count = int(np.count_nonzero(self._kept["buffered"] & self._kept["pending"]))
        if not count:
            return None
        frames, out = np.zeros(count, FRAME), np.empty(count * _MAX_BYTES[self.form], np.uint8)
        used = int(self._kernel.collect(np.uint64(self._next), self._kept, self._store, out, frames))
        source = number_of(self._source)
        frames["source_hi"], frames["source_lo"] = source >> 64, source & (1 << 64) - 1
        frames["source_port"], frames["port"] = self._sport, layout.DTA_PORT
        self._resent += count
        return FrameBatch(out[:used], frames)

    @property
    def counts(self) -> dict[str, int]:
        """sent (without retransmissions), resent; aged: unanswered reports displaced by newer ones; given_up:
        named by a NACK, but no longer kept, or out of tries; acknowledged; nacks; unsolicited: answers about
        reports that were never sent; damaged: datagrams that are not answers.
        """
        names = ("aged", "given_up", "acknowledged", "nacks", "unsolicited")
        tally = dict(zip(names, self._tally.tolist(), strict=True))
        return {"sent": self._next, "resent": self._resent, **tally, "damaged": self._damaged}

    @property
    def kept(self) -> int:
        """Reports that can be retransmitted now."""
        return int(np.count_nonzero(self._kept["buffered"]))


def _big_endian(numbers: npt.NDArray[np.unsignedinteger], width: int) -> Bytes:
    wide = np.asarray(numbers, np.uint64)
    if width < 8 and np.any(wide >> np.uint64(8 * width)):
        raise ValueError(f"a number above {(1 << 8 * width) - 1}")
    return wide.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
