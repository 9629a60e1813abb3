"""How far a destination has taken the events of every shard: a file of the data folder."""

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
        ("next", "<u8"),  # sequence of the first event that the destination has not confirmed
        ("end", "<u8"),  # 1 + the last one of the block under way; not above `next`: none is
    ]
)
"""One shard."""
ARRAYS = {"positions": (POSITION, SHARDS), "begun": (np.dtype(np.uint64), 1)}


class Positions:
    """The positions of the destination `name`; only its thread writes them. RegionError: the file cannot be
    made.

    A block has its ends here before it is sent, so that a process that was killed sends the same block again,
    with the same id.
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
        """Those of which events were sent."""
        return [int(shard) for shard in np.flatnonzero(self._rows["next"])]

    def next(self, shard: int) -> int:
        """The first event that is to be sent."""
        return int(self._rows["next"][shard])

    def under_way(self, shard: int) -> int | None:
        """1 + the last event of the block that was being sent; None: none was."""
        row = self._rows[shard]
        return int(row["end"]) if row["end"] > row["next"] else None

    def start(self, shard: int, position: int) -> None:
        """Send a shard from this event on; others are sent from the first."""
        self._rows["next"][shard] = self._rows["end"][shard] = position

    def begin(self) -> None:
        """The destination begins: shards that appear later are sent whole."""
        self._begun[0] = 1

    def sending(self, shard: int, end: int) -> None:
        """A block up to `end` (exclusive) is sent next."""
        self._rows["end"][shard] = end

    def sent(self, shard: int) -> None:
        """The block under way was confirmed."""
        self._rows["next"][shard] = self._rows["end"][shard]

    def close(self) -> None:
        """Unmap the file."""
        self._region.close()


def _kept(path: Path) -> Region | None:
    """The file; None: there is none. A damaged one is set aside, and the log names it."""
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
    region = Region.attach(path, KIND, VERSION, writable)
    if region.shape() != ARRAYS:
        raise RegionError(f"{path}: its arrays are not those of positions")
    return region


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
