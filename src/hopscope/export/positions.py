"""A destination's position in the events of every shard, in a file of the data folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.log import logger
from ..history.files.names import set_aside
from ..memory.region import Region, RegionError

KIND = "export-positions"
VERSION = 2
SHARDS = 1024
FOLDER = "export"
POSITION = np.dtype(
    [
        ("next", "<u8"),  # sequence of the first unconfirmed event
        ("end", "<u8"),  # 1 + the last event of the pending block; <= `next`: none is
    ]
)
"""One shard."""
ARRAYS = {"positions": (POSITION, SHARDS), "begun": (np.dtype(np.uint64), 1)}


class Positions:
    """The positions of the destination `name`; only its thread writes them. RegionError: the file cannot be
    made.

    The end of a block is stored here before the block is sent, so that after a kill the same block is sent
    again with the same id.
    """

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / FOLDER / f"{name}.positions"
        self._region = _kept(path) or _created(path)
        self._rows, self._begun = self._region["positions"], self._region["begun"]

    @property
    def is_new(self) -> bool:
        """Whether the destination has not begun yet."""
        return not self._begun[0]

    def shards(self) -> list[int]:
        """Shards of which events were sent."""
        return [int(shard) for shard in np.flatnonzero(self._rows["next"])]

    def next(self, shard: int) -> int:
        """The first event to send."""
        return int(self._rows["next"][shard])

    def under_way(self, shard: int) -> int | None:
        """1 + the last event of the block that was being sent; None: there was none."""
        row = self._rows[shard]
        return int(row["end"]) if row["end"] > row["next"] else None

    def start(self, shard: int, position: int) -> None:
        """Begin a shard with this event; other shards begin with their first event."""
        self._rows["next"][shard] = self._rows["end"][shard] = position

    def begin(self) -> None:
        """Mark the destination as begun: shards that appear later are sent from their first event."""
        self._begun[0] = 1

    def sending(self, shard: int, end: int) -> None:
        """Note that a block up to `end` (exclusive) is sent next."""
        self._rows["end"][shard] = end

    def sent(self, shard: int) -> None:
        """Note that the pending block was confirmed."""
        self._rows["next"][shard] = self._rows["end"][shard]

    def close(self) -> None:
        """Unmap the file."""
        self._region.close()


def _kept(path: Path) -> Region | None:
    """The existing file; None: there is none. A damaged file is set aside and logged."""
    if not path.exists():
        return None
    try:
        return _attached(path, writable=True)
    except RegionError as error:
        problem = str(error)
    with suppress(OSError):
        problem += f"; set aside as {set_aside(path)}"
    logger("export").warning("the destination starts as a new one", reason=problem)
    return None


def _attached(path: Path, writable: bool = False) -> Region:
    return Region.attach(path, KIND, VERSION, writable).require(ARRAYS)


def _created(path: Path) -> Region:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise RegionError(f"{path.parent}: {error.strerror}") from error
    return Region.create(path, KIND, VERSION, ARRAYS)


def read_positions(folder: Path, name: str) -> npt.NDArray[np.uint64] | None:
    """The next event of each shard for a destination, uint64 [SHARDS]; None: it takes no events."""
    try:
        with _attached(folder / FOLDER / f"{name}.positions") as region:
            return region["positions"]["next"].copy()
    except RegionError:
        return None
