"""Frames to DTA records."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..dialect import DEFAULT, Dialect
from ..records import FRAME, FrameBatch, Records
from . import layout
from .forms import DATA_FIELDS, KEY_FIELDS, PUBLISHED, Form
from .records import DTA


class DtaParser:
    """The batch parser of one form: its blocks are reused, so a result is valid until the next call.

    In whole frames, datagrams to DTA's port are searched; payloads from a socket (`Link.UDP_PAYLOAD`) are all
    taken.
    """

    def __init__(self, form: Form, frames: int = 4096) -> None:
        from ...base.kernels.jit import readonly
        from . import parse_kernel as dta_kernel

        self.form, self._base = form, np.uint64(form)
        self._kernels = dta_kernel
        self._readonly = readonly
        self._rules = readonly(rules())
        self._ports = dialect_of_port(layout.DTA_PORT).table()
        self._reports = np.zeros(frames, DTA)
        self._words = self._reports.view(np.uint64)  # a view of records costs 1 us
        self.frames: Records = np.zeros(0, FRAME)
        """FRAME rows of the last batch as UDP payloads, row by row with its records: the sender of each
        report.
        """

    def parse(self, batch: FrameBatch) -> Records:
        """DTA [frames]. Raises ValueError if the arena is too long for a record's places."""
        if len(batch.arena) > 1 << 32:
            raise ValueError(f"an arena of {len(batch.arena):,} bytes, at most 4 GiB can be addressed")
        count = len(batch)
        if count > len(self._reports):
            self._reports = np.zeros(count, DTA)
            self._words = self._reports.view(np.uint64)
        reports = self._reports[:count]
        self.frames = batch.frames
        if self._run(batch.arena, reports) == count:
            return reports
        self.frames, reasons = np.zeros(count, FRAME), np.zeros(count, np.uint8)
        self._kernels.find_payloads(
            self._readonly(batch.arena), self._readonly(batch.frames), self._ports, self.frames, reasons
        )
        self._run(batch.arena, reports)
        rejected = np.flatnonzero(reasons)
        reports["reason"][rejected] = reasons[rejected]
        return reports

    def _run(self, arena: npt.NDArray[np.uint8], reports: Records) -> int:
        arena, frames = self._readonly(arena), self._readonly(self.frames)
        words = self._words[: len(reports) * (DTA.itemsize // 8)]
        if self.form is Form.SIZED:
            return int(self._kernels.parse_sized(arena, frames, words))
        return int(self._kernels.parse_published(arena, frames, self._base, self._rules, words))


@lru_cache(maxsize=1)
def rules() -> npt.NDArray[np.uint64]:
    """Fields of the published headers by opcode, uint64 [256 * 16]; `parse_kernel` names the places."""
    from . import parse_kernel as place

    table = np.zeros((256, int(place.RULE)), np.uint64)
    for opcode, header in PUBLISHED.items():
        row = table[opcode]
        row[place.SIZE] = header.size
        for field in header.fields:
            at, mask = field.at // 8, (1 << field.bits) - 1
            if field.name in KEY_FIELDS:
                row[place.KEY_AT] = at
                row[place.LENGTHS] |= np.uint64(field.bits // 8 << 40)
            elif field.name in DATA_FIELDS:
                row[place.DATA_AT] = at
                row[place.LENGTHS] |= np.uint64(field.bits // 8 << 48)
            if field.name == "list":
                row[place.LIST] = mask
            elif field.name == "counter":
                row[place.COUNTER_AT], row[place.COUNTER] = at, mask
            elif field.name == "redundancy":
                row[place.REDUNDANCY_AT], row[place.REDUNDANCY] = at, mask
            elif field.name == "hop":
                row[place.HOP_AT], row[place.HOP] = at, mask
    return table.reshape(-1)


@lru_cache(maxsize=8)
def dialect_of_port(port: int) -> Dialect:
    """A dialect whose reports go to one UDP port."""
    return replace(DEFAULT, ports=(port,))
