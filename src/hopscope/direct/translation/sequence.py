"""Sequence numbers of reporters in the translator: lost, late and duplicate reports, NACKs and ACKs."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ...memory.region import Arrays, Region, RegionError
from ...wire.dta.forms import Form
from ...wire.dta.records import DTA_ANSWER
from ...wire.records import Records
from ..records import REPORTER

WINDOWS = {Form.THREE: 64, Form.SIZED: 8192}
"""Window below the highest number in which late and duplicate reports are distinguished."""
_AHEAD = 1 << 24
KIND, VERSION = "reporters", 1
"""Kind and version of the region that keeps the numbers of reporters for the next process."""


class SequenceTracker:
    """Tracks the numbers of up to `reporters` sources, address and port (rounded up to a multiple of 8).

    A report must not be executed twice, so duplicates are rejected, and so are reports that are too old to
    classify. If there are more reporters, those silent for `idle_s` seconds lose their row, then those of
    networks with many (`sequence_kernel`); reports of reporters without a row pass untracked, and are
    counted. 8-bit numbers wrap early: a loss of more than 191 reports in a row appears shorter, and the
    reports after it appear late or duplicate. Supports THREE and SIZED; raises ValueError for the form
    without numbers.

    `path`: file in which a tracker of the same size that ended within `idle_s` has left the numbers of
    reporters that ask for retransmission, so that reports sent in between count as missing. Raises
    RegionError if the file cannot be created.
    """

    def __init__(
        self, form: Form, *, reporters: int = 1024, idle_s: float = 60, path: Path | None = None
    ) -> None:
        from . import sequence_kernel as kernel

        if form not in WINDOWS:
            raise ValueError(f"the form of {form} bytes has no sequence numbers")
        self.form = form
        window, highest = WINDOWS[form], (1 << form.sequence_bits) - 1
        rows = -(-reporters // 8) * 8
        self._kernel = kernel
        arrays = {
            "keys": (np.dtype(np.uint64), kernel.HASH_KEYS),
            "reporters": (REPORTER, rows),
            "seen": (np.dtype(np.uint64), rows * window // 64),
        }
        region = _resumed(path, arrays) or Region.create(path, KIND, VERSION, arrays)
        if not region["keys"].any():
            region["keys"][:] = hash_keys(os.urandom(16), kernel.HASH_KEYS)
        self._limits = np.zeros(kernel.KEYS + kernel.HASH_KEYS, np.uint64)
        self._limits[kernel.KEYS :] = region["keys"]
        self._limits[kernel.WINDOW], self._limits[kernel.MASK] = window, highest
        self._limits[kernel.AHEAD] = min(_AHEAD, highest + 1 - window)
        self._limits[kernel.IDLE_NS] = int(idle_s * 1e9)
        self._rows, self._seen = region["reporters"], region["seen"]
        self._gaps = np.zeros(0, np.uint32)
        self._answers = np.zeros(0, DTA_ANSWER)
        self._tally = np.zeros(kernel.TALLIES, np.uint64)
        self._forget(time.time_ns() - int(idle_s * 1e9))
        self._tally[kernel.LOST] = self._rows["lost"].sum()
        self._touched = np.zeros(rows, np.uint32)
        self._acks = np.zeros(rows, DTA_ANSWER)

    def track(self, reports: Records, frames: Records) -> npt.NDArray[np.uint32]:
        """Check DTA records, row by row with the FRAME rows of their payloads; duplicates and stale ones get
        their reason.

        Returns the numbers newly found missing before each report, uint32, valid until the next call.
        """
        from ...base.kernels.jit import readonly

        if len(reports) > len(self._gaps):
            self._gaps = np.zeros(len(reports), np.uint32)
            self._answers = np.zeros(2 * len(reports), DTA_ANSWER)
        gaps = self._gaps[: len(reports)]
        self._kernel.track(readonly(frames), reports, self._rows, self._seen, gaps, self._limits, self._tally)
        return gaps

    def nacks(self, reports: Records, frames: Records) -> Records:
        """NACKs, DTA_ANSWER, of the last batch of `track`, after its translation.

        They name the gaps before reports that ask for retransmission, and such reports without room. Valid
        until the next call; `wire.dta.ack.encode_answers` makes datagrams of them.
        """
        from ...base.kernels.jit import readonly

        count = self._kernel.make_nacks(
            readonly(frames), readonly(reports), readonly(self._gaps), self._rows, self._seen, self._answers,
            self._limits, self._tally,
        )  # fmt: skip
        return self._answers[: int(count)]

    def acks(self, reports: Records, frames: Records) -> Records:
        """ACKs, DTA_ANSWER, of the same batch, for reporters that ask for retransmission and lack no report
        that they may still keep.

        Valid until the next call.
        """
        from ...base.kernels.jit import readonly

        count = self._kernel.make_acks(
            readonly(frames), readonly(reports), self._rows, readonly(self._seen), self._touched, self._acks,
            self._limits, self._tally,
        )  # fmt: skip
        return self._acks[: int(count)]

    def _forget(self, before_ns: int) -> None:
        """Keep only reporters that ask for retransmission and have sent since `before_ns`: others may have
        restarted their numbering.
        """
        self._rows[(self._rows["asks"] == 0) | (self._rows["last_ns"] < before_ns)] = 0

    @property
    def reporters(self) -> Records:
        """Tracked reporters, REPORTER, a copy."""
        return self._rows[self._rows["depth"] > 0]

    @property
    def counts(self) -> dict[str, int]:
        """Totals over all reporters: received, lost (minus late arrivals), late, duplicate, stale, restarts;
        untracked: reports of reporters without a row; replaced: reporters that lost their row.
        """
        names = ("received", "lost", "late", "duplicate", "stale", "restarts", "untracked", "replaced")
        return dict(zip(names, self._tally.tolist(), strict=True))


def _resumed(path: Path | None, arrays: Arrays) -> Region | None:
    """The region that the previous process has left; None: there is none, or it is damaged."""
    if path is not None:
        with suppress(RegionError):
            return Region.resume(path, KIND, VERSION, arrays)
    return None
