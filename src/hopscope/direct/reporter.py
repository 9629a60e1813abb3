"""The reporter (DTA 5.1): how a switch reports, without a socket: datagrams out, acknowledgments in."""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

from ..wire import layout
from ..wire.address import number_of
from ..wire.dta.ack import parse_answers
from ..wire.dta.codec import COUNTER_BYTES, LIST_BYTES, Form, Opcode
from ..wire.dta.encode import REPORTER_PORT, encode_dta
from ..wire.records import DTA, FRAME, DtaFlag, FrameBatch, Records
from .records import KEPT

Bytes = npt.NDArray[np.uint8]
Flags = bool | npt.NDArray[np.bool_]
Numbers = int | npt.NDArray[np.integer]
KEPT_REPORTS = {Form.TWO: 0, Form.THREE: 32, Form.SIZED: 4096}
"""Reports that can be sent again: half the window in which a translator tells double ones from late ones."""
_MOST_BYTES = {Form.THREE: layout.DTA_3.size + layout.DTA_KEY_INCREMENT.size, Form.SIZED: 12 + 2 * 255}


class Reporter:
    """One sequence of reports in one form.

    Every method that reports returns frames (UDP payloads) to be sent in this order; keys, and data, are
    uint8 [reports, bytes]. Reports with `retransmit` are kept, the last of them, and sent again up to `tries`
    times when a NACK names them. `first` is the first sequence number: any, so that a reporter that has been
    started anew is not taken for its predecessor; None draws it. `source` and `sport` are what the frames say
    of their sender. Raises ValueError where the form cannot carry what is asked.
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
        slots = KEPT_REPORTS[form]
        self._kept = np.zeros(slots, KEPT)
        self._store = np.zeros(slots * _MOST_BYTES.get(form, 0), np.uint8)
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

        `redundancy`: as many copies as queries will look at, or counters are too small; as a store, 2.
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
        """Postcarding: what hop `hops` (1: the first) of a path of `path_length` hops (0: unknown) tells."""
        return self.report(
            Opcode.POSTCARDING, keys, data, hop=hops, path_length=path_length, redundancy=redundancy,
            immediate=immediate, retransmit=retransmit,
        )  # fmt: skip

    def report(
        self, opcode: int, keys: Bytes, data: Bytes, *, immediate: Flags = False, retransmit: Flags = False,
        **fields: Numbers,
    ) -> FrameBatch:  # fmt: skip
        """Any opcode, an extension's too; `fields` are those of DTA (redundancy, hop, path_length)."""
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
        """DTA records over an arena, as they are but for their sequence numbers, which are set here."""
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
        """Take datagrams from the translator; what is to be sent again, if anything."""
        if not len(self._kept):
            self._damaged += len(batch)
            return None
        answers, damaged = parse_answers(batch, self.form)
        self._damaged += damaged
        mask = np.uint64(self._mask)
        answers["sequence"] = (answers["sequence"].astype(np.uint64) - np.uint64(self._first)) & mask
        return self._collect(
            int(
                self._kernel.answered(
                    answers, np.uint64(self._next), mask, self._tries, self._kept, self._tally
                )
            )
        )

    def again(self) -> FrameBatch | None:
        """All that is still kept, to be sent again: at the end, since nobody misses the last report."""
        kept = self._kept
        spent = (kept["held"] > 0) & (kept["tries"] >= self._tries)
        kept["held"][spent] = 0
        self._tally[self._kernel.GIVEN_UP] += np.count_nonzero(spent)
        waiting = kept["held"] > 0
        kept["pending"][waiting] = 1
        kept["tries"][waiting] += 1
        return self._collect(int(np.count_nonzero(waiting)))

    def _collect(self, count: int) -> FrameBatch | None:
        """The `count` reports that are pending."""
        if not count:
            return None
        frames, out = np.zeros(count, FRAME), np.empty(count * _MOST_BYTES[self.form], np.uint8)
        used = int(self._kernel.collect(np.uint64(self._next), self._kept, self._store, out, frames))
        source = number_of(self._source)
        frames["source_hi"], frames["source_lo"] = source >> 64, source & (1 << 64) - 1
        frames["source_port"], frames["port"] = self._sport, layout.DTA_PORT
        self._resent += count
        return FrameBatch(out[:used], frames)

    @property
    def counts(self) -> dict[str, int]:
        """sent (without those sent again), resent; aged: kept reports that gave way to newer ones,
        unanswered; given_up: named by a NACK, but no longer kept, or sent too often; acknowledged; nacks;
        strange: answers about reports that were never sent; damaged: datagrams that are no answers.
        """
        names = ("aged", "given_up", "acknowledged", "nacks", "strange")
        tally = dict(zip(names, self._tally.tolist(), strict=True))
        return {"sent": self._next, "resent": self._resent, **tally, "damaged": self._damaged}

    @property
    def kept(self) -> int:
        """Reports that can be sent again now."""
        return int(np.count_nonzero(self._kept["held"]))


def _big_endian(numbers: npt.NDArray[np.unsignedinteger], width: int) -> Bytes:
    wide = np.asarray(numbers, np.uint64)
    if width < 8 and np.any(wide >> np.uint64(8 * width)):
        raise ValueError(f"a number above {(1 << 8 * width) - 1}")
    return wide.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
