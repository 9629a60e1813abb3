"""Answers of a translator to reporters: NACKs for retransmission, ACKs of received reports."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.dta.ack import encode_answers
from ...wire.dta.codec import Form
from ...wire.reasons import DtaReason
from ...wire.records import FrameBatch, Records
from .sequence import SequenceTracker

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_NOT_TRACKED = 255
"""Temporary reason of a report that the tracker must skip."""


class Acknowledger:
    """Makes the answers for the batches of one tracker."""

    def __init__(self, tracker: SequenceTracker) -> None:
        self.tracker = tracker
        self.acks = self.nacks = 0
        """Answers so far."""

    def track(self, reports: Records, frames: Records) -> None:
        """Check sequence numbers; duplicates and stale reports get their reason.

        The published generators send 3-byte headers whose number is always 0: a reporter is tracked from its
        first other number on.
        """
        unnumbered = self._unnumbered(reports, frames) if self.tracker.form is Form.THREE else None
        if unnumbered is None:
            self.tracker.track(reports, frames)
            return
        reports["reason"][unnumbered] = _NOT_TRACKED
        self.tracker.track(reports, frames)
        reports["reason"][unnumbered] = DtaReason.NONE

    def _unnumbered(self, reports: Records, frames: Records) -> npt.NDArray[np.intp] | None:
        """Rows of reporters that have only sent number 0; None: no rows."""
        zeros = np.flatnonzero((reports["sequence"] == 0) & (reports["reason"] == DtaReason.NONE))
        if not len(zeros):
            return None
        known = self.tracker.reporters
        high = np.concatenate([frames["source_hi"], known["source_hi"]])
        low = np.concatenate([frames["source_lo"], known["source_lo"]])
        numbered = np.concatenate([reports["sequence"] != 0, np.ones(len(known), bool)])
        order = np.lexsort((low, high))
        other = (np.diff(high[order]) != 0) | (np.diff(low[order]) != 0)
        begins = np.flatnonzero(np.append(True, other))
        group = np.empty(len(order), np.intp)
        group[order] = np.append(0, np.cumsum(other))
        rows = zeros[~np.logical_or.reduceat(numbered[order], begins)[group[zeros]]]
        return rows if len(rows) else None

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
