"""Answers of a translator to reporters: NACKs for retransmission, ACKs of received reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...wire.dta.ack import encode_answers
from ...wire.reasons import DtaReason
from ...wire.records import FrameBatch, Records
from .sequence import SequenceTracker

_LOW_64 = (1 << 64) - 1
_NOT_TRACKED = 255
"""Temporary reason of a report that the tracker must skip."""


class Acknowledger:
    """Makes the answers for the batches of one tracker: `track` before they are translated, then `answers`.

    `unnumbered`: first and last address, 128 bits, of networks whose reporters are not tracked.
    """

    def __init__(self, tracker: SequenceTracker, unnumbered: Sequence[tuple[int, int]] = ()) -> None:
        self.tracker = tracker
        self.acks = self.nacks = 0
        """Answers so far."""
        self._unnumbered = [
            [np.array([address >> 64, address & _LOW_64], np.uint64) for address in pair]
            for pair in unnumbered
        ]

    def track(self, reports: Records, frames: Records) -> None:
        """Check sequence numbers; duplicates and stale reports get their reason."""
        if not self._unnumbered:
            self.tracker.track(reports, frames)
            return
        skipped = self._is_unnumbered(frames) & (reports["reason"] == DtaReason.NONE)
        reports["reason"][skipped] = _NOT_TRACKED
        self.tracker.track(reports, frames)
        reports["reason"][skipped] = DtaReason.NONE

    def _is_unnumbered(self, frames: Records) -> npt.NDArray[np.bool_]:
        high, low = frames["source_hi"], frames["source_lo"]
        found = np.zeros(len(frames), bool)
        for first, last in self._unnumbered:
            after = (high > first[0]) | ((high == first[0]) & (low >= first[1]))
            found |= after & ((high < last[0]) | ((high == last[0]) & (low <= last[1])))
        return found

    def answers(self, reports: Records, frames: Records) -> FrameBatch | None:
        """Datagrams, to be sent to their `source_*`, for a translated batch; None: no answers.

        A reporter that asks for retransmission gets NACKs of missing reports and of those without room, or,
        if nothing is missing, an ACK of its newest report.
        """
        nacks = self.tracker.nacks(reports, frames)
        acks = self.tracker.acks(reports, frames)
        self.nacks += len(nacks)
        self.acks += len(acks)
        if not len(nacks) and not len(acks):
            return None
        return encode_answers(np.concatenate([nacks, acks]), self.tracker.form)
