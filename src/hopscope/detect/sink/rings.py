"""Readers of the sink's rings, for other programs: SINK_EVENT and EVICTED records of all workers.

A reader has its own cursor in every ring, and never blocks the sink: a slow reader loses overwritten records,
and knows how many. docs/guides/rings.md has the layout of the files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...memory.rings import LIMIT, Rings, columns
from .records import EVICTED, EVICTED_VERSION, SINK_EVENT, SINK_EVENT_VERSION

Records = npt.NDArray[np.void]
EVENT_RING = "sink-events"
EVICTION_RING = "evictions"


class _RingReader:
    """Reader of one kind of ring in `folder`: a data folder, or the folder of its regions."""

    kind: str
    version: int
    record: np.dtype[Any]

    def __init__(self, folder: Path | str, start: Literal["new", "oldest"] = "new") -> None:
        folder = Path(folder)
        regions = folder / "regions"
        self._rings = Rings(regions if regions.is_dir() else folder, self.kind, self.version, start=start)

    @property
    def lost(self) -> int:
        """Records lost so far: overwritten before they were read."""
        return self._rings.lost

    def read(self, limit: int = LIMIT) -> tuple[Records, int]:
        """New records of all workers, at most `limit` of each, and the number of records lost before them.

        Records are a copy; those of one worker (`shard`) are in order.
        """
        blocks, lost = self._rings.read(limit)
        if len(blocks) == 1:
            return blocks[0], lost
        return np.concatenate([np.empty(0, self.record), *blocks]), lost

    def read_columns(self, limit: int = LIMIT) -> tuple[dict[str, npt.NDArray[Any]], int]:
        """As `read`, with arrays by field."""
        records, lost = self.read(limit)
        return columns(records), lost


class SinkEvents(_RingReader):
    """Events of the sink: SINK_EVENT records."""

    kind, version, record = EVENT_RING, SINK_EVENT_VERSION, SINK_EVENT


class Evictions(_RingReader):
    """Evicted flows of the sink: EVICTED records, several for a path of more than 8 hops."""

    kind, version, record = EVICTION_RING, EVICTED_VERSION, EVICTED
