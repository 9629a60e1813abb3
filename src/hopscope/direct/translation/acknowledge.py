"""What a translator answers to reporters: NACKs of what is to be sent again, ACKs of what is safe."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.dta import Form
from ...wire.dta_ack import encode_answers
from ...wire.reasons import DtaReason
from ...wire.records import DTA_ANSWER, DtaFlag, FrameBatch, Records
from .sequence import SequenceTracker

_NOT_FOLLOWED = 255
"""Reason of a report while the tracker must pass it by."""
_WHO = np.dtype([("source_hi", "<u8"), ("source_lo", "<u8"), ("source_port", "<u2")])


class Acknowledger:
    """Answers for the batches that one tracker follows."""

    def __init__(self, tracker: SequenceTracker) -> None:
        self.tracker = tracker
        self.acks = self.nacks = 0
        """Answers made."""

    def follow(self, reports: Records, frames: Records) -> None:
        """Check sequence numbers; duplicates and stale reports get their reason.

        The published generators send 3-byte headers whose number is always 0: a reporter is followed from
        its first other number on.
        """
        unnumbered = self._unnumbered(reports, frames) if self.tracker.form is Form.THREE else None
        if unnumbered is None:
            self.tracker.follow(reports, frames)
            return
        reports["reason"][unnumbered] = _NOT_FOLLOWED
        self.tracker.follow(reports, frames)
        reports["reason"][unnumbered] = DtaReason.NONE

    def _unnumbered(self, reports: Records, frames: Records) -> npt.NDArray[np.intp] | None:
        """Rows of reporters that have sent no number but 0; None: there are none."""
        zeros = np.flatnonzero((reports["sequence"] == 0) & (reports["reason"] == DtaReason.NONE))
        if not len(zeros):
            return None
        known = {(int(row["source_hi"]), int(row["source_lo"])) for row in self.tracker.reporters}
        high, low = frames["source_hi"], frames["source_lo"]
        rows = []
        for hi, lo in np.unique(np.stack([high[zeros], low[zeros]], axis=1), axis=0).tolist():
            mine = (high == hi) & (low == lo)
            if (hi, lo) not in known and not reports["sequence"][mine].any():
                rows.append(zeros[mine[zeros]])
        return np.concatenate(rows) if rows else None

    def answers(self, reports: Records, frames: Records) -> FrameBatch | None:
        """Datagrams, to be sent to their `source_*`, for a batch that has been translated; None: nothing.

        A reporter that asks for retransmission gets NACKs of what is missing and of what found no room, and
        where it has nothing missing, an ACK of its newest report.
        """
        nacks = self.tracker.refused(reports, frames)
        acks = self._acks(reports, frames)
        self.nacks += len(nacks)
        self.acks += len(acks)
        if not len(nacks) and not len(acks):
            return None
        return encode_answers(np.concatenate([nacks, acks]), self.tracker.form)

    def _acks(self, reports: Records, frames: Records) -> Records:
        asks = (reports["flags"] & DtaFlag.RETRANSMIT) != 0
        if not asks.any():
            return np.zeros(0, DTA_ANSWER)
        asks &= (reports["reason"] == DtaReason.NONE) | (reports["reason"] == DtaReason.DUPLICATE)
        who = np.zeros(int(asks.sum()), _WHO)
        for name in _WHO.names or ():
            who[name] = frames[name][asks]
        whole = {
            (int(row["source_hi"]), int(row["source_lo"])): int(row["newest"])
            for row in self.tracker.reporters
            if row["lost"] == 0
        }
        found = [
            (*one[:2], whole[one[:2]], 0, one[2], 0, 0, 0)
            for one in np.unique(who).tolist()
            if one[:2] in whole
        ]
        return np.array(found, DTA_ANSWER)
