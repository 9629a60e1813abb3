"""Frames to reports without a compiler: runs the kernels' source uncompiled, for small inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.kernels import plain
from ..dialect import DEFAULT, Dialect
from ..records import FRAME, HOP, REPORT, Carried, FrameBatch, ReportBatch

report_values = attrgetter(*list(REPORT.names or ()))
hop_values = attrgetter(*list(HOP.names or ()))


@dataclass(slots=True)
class DecodedReport:
    """One report, or one packet with INT: objects with the fields of REPORT and HOP."""

    row: Any
    hops: list[Any]
    metadata: Any | None
    """HOP of the report's own metadata."""


class PlainDecoder:
    """Decodes like `Decoder`, some thousand times slower, but without the seconds that its start takes."""

    def __init__(self, dialect: Dialect = DEFAULT) -> None:
        self.dialect = dialect
        self._kernel = plain.load(f"{__package__}.decode_kernel").decode_frames
        self._trail = plain.load(f"{__package__}.trail_kernel")
        self._table = dialect.table().tobytes()
        self._plans = [0] * self._trail.MEMORY

    def decode(self, batch: FrameBatch) -> ReportBatch:
        """Reports and trails of all frames. Frames that are not reports are counted in `other`."""
        trails = np.zeros((self._trail.TRAIL, len(batch)), np.uint64)
        reports, hops, other = self._run(batch, trails)
        return ReportBatch(
            np.array([report_values(row) for row in reports], REPORT),
            np.array([hop_values(hop) for hop in hops], HOP),
            batch.first_packet,
            other,
            self._plans[self._trail.UNKNOWN],
            trails,
        )

    def read(self, batch: FrameBatch) -> Iterator[DecodedReport]:
        """The reports of all frames as objects."""
        reports, hops, _ = self._run(batch, np.zeros((1, 0), np.uint64))
        for row in reports:
            end = row.first_hop + row.hop_count
            own = hops[end] if row.carried & Carried.OWN_HOP and not row.reason else None
            yield DecodedReport(row, hops[row.first_hop : end], own)

    def _run(self, batch: FrameBatch, trails: npt.NDArray[np.uint64]) -> tuple[list[Any], list[Any], int]:
        frame_class = plain.record_class(FRAME)
        frames = [frame_class(*values) for values in batch.frames.tolist()]
        reports, hops, counts = plain.Rows(REPORT), plain.Rows(HOP), [0, 0, 0]
        arena = batch.arena.tobytes()
        self._plans[self._trail.KEEPS], self._plans[self._trail.UNKNOWN] = trails.shape[1], 0
        self._kernel(arena, frames, 0, self._table, self._plans, reports, hops, trails, counts)
        return [reports[i] for i in range(counts[0])], [hops[i] for i in range(counts[1])], counts[2]


@lru_cache(maxsize=64)
def _decoder(dialect: Dialect) -> PlainDecoder:
    return PlainDecoder(dialect)


def decode_plain(batch: FrameBatch, dialect: Dialect = DEFAULT) -> ReportBatch:
    """Reports of all frames, without compiling anything."""
    return _decoder(dialect).decode(batch)


def read_plain(batch: FrameBatch, dialect: Dialect = DEFAULT) -> Iterator[DecodedReport]:
    """Reports of all frames as objects, without compiling anything."""
    return _decoder(dialect).read(batch)
