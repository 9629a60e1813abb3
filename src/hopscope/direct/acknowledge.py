"""What a translator answers to reporters: NACKs of what is to be sent again, ACKs of what is safe."""

from __future__ import annotations

import numpy as np

from ..wire.dta_ack import encode_answers
from ..wire.reasons import DtaReason
from ..wire.records import DTA_ANSWER, DtaFlag, FrameBatch, Records
from .sequence import SequenceTracker

_WHO = np.dtype([("source_hi", "<u8"), ("source_lo", "<u8"), ("source_port", "<u2")])


class Acknowledger:
    """Answers for the batches that one tracker follows."""

    def __init__(self, tracker: SequenceTracker) -> None:
        self.tracker = tracker
        self.acks = self.nacks = 0
        """Answers made."""

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
