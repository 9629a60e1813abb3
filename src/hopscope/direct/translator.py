"""The translator (DTA 5.2): DTA reports in, memory operations out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..rdma.records import VerbBlock
from ..wire.reasons import DtaReason
from ..wire.records import Records
from .primitive import Writer, load
from .store import Layout
from .transport import Transport

FLUSH = 1024
"""Reports for which there is room when what waits is sent."""


class Translator:
    """Translates batches of DTA reports for the stores behind one transport."""

    def __init__(self, layouts: Sequence[Layout], transport: Transport) -> None:
        primitives = load()
        self._transport = transport
        self._writers: dict[int, Writer] = {
            layout.opcode: primitives[layout.opcode].writer(layout, [target] * layout.collectors)
            for target, layout in enumerate(layouts)
        }
        self._block = VerbBlock.of(0, 0)
        self.refused = np.zeros(len(DtaReason), np.uint64)
        """Reports refused, by `DtaReason`; reports translated at NONE."""

    def translate(self, reports: Records, arena: npt.NDArray[np.uint8]) -> None:
        """Translate DTA records over their arena; refused rows get their reason."""
        good = reports["reason"] == DtaReason.NONE
        for opcode in np.unique(reports["opcode"][good]):
            rows = np.flatnonzero(good & (reports["opcode"] == opcode)).astype(np.uint32)
            writer = self._writers.get(int(opcode))
            if writer is None:
                reports["reason"][rows] = DtaReason.UNKNOWN_OPCODE
                continue
            writer.write(reports, rows, arena, self._room(*writer.room(len(rows))))
            self._send()
        self.refused += np.bincount(reports["reason"], minlength=len(DtaReason)).astype(np.uint64)

    def flush(self) -> None:
        """Send what waits in caches and batches."""
        for writer in self._writers.values():
            more = True
            while more:
                more = writer.flush(self._room(*writer.room(FLUSH)))
                self._send()

    def _room(self, verbs: int, payload: int) -> VerbBlock:
        if len(self._block.verbs) < verbs or len(self._block.payload) < payload:
            self._block = VerbBlock.of(verbs, payload)
        return self._block

    def _send(self) -> None:
        self._transport.submit(self._block)
        self._block.clear()
