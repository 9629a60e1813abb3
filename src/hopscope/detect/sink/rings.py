"""The sink's rings, for other programs: SINK_EVENT and EVICTED records of all workers, as they come.

A reader has a cursor of its own in every ring.  It never makes the sink wait: one that is slower than the
sink loses what is overwritten, and is told how much.  docs/guides/rings.md has the layout of the files.
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


class _Reader:
    """Reader of one kind of ring below `folder`: a data folder, or that of its regions."""

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
        """New records of all workers, at most `limit` of each, and how many were lost in front of them.

        Records are a copy; those of one worker are in order, and `shard` says whose they are.
        """
        blocks, lost = self._rings.read(limit)
        if len(blocks) == 1:
            return blocks[0], lost
        return np.concatenate([np.empty(0, self.record), *blocks]), lost

    def read_columns(self, limit: int = LIMIT) -> tuple[dict[str, npt.NDArray[Any]], int]:
        """The same as arrays by field."""
        records, lost = self.read(limit)
        return columns(records), lost


class SinkEvents(_Reader):
    """Events of the sink: SINK_EVENT records."""

    kind, version, record = EVENT_RING, SINK_EVENT_VERSION, SINK_EVENT


class Evictions(_Reader):
    """Flows that left the sink's table: EVICTED records, several for a path of more than 8 hops."""

    kind, version, record = EVICTION_RING, EVICTED_VERSION, EVICTED
