"""The memory of evidence: the newest reports that caused notable events, in a ring of bytes of fixed size.

A ring of entries says which event each report belongs to. There is one writer. It moves `BEGIN` before it
overwrites bytes, so a reader that has copied a report sees whether it was overwritten meanwhile. It stores a
checksum of each report, which shows whether a power failure left it incomplete.

A report consists of its REPORT, its HOPs, and its datagrams. A datagram consists of its FRAME, the name of
its dialect, and its bytes; `offset` is 0, or the hop of the postcard for a path joined from postcards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...memory.region import Region, RegionError
from .layout import MAX_BYTES

KIND, VERSION = "evidence", 2
FOLDER = "evidence"
"""Folder in the data folder that holds the copy on disk."""
ENTRY = np.dtype(
    [
        ("sequence", "<u8"),  # of the event, in its shard
        ("time_ns", "<i8"),  # of the event
        ("begin", "<u8"),  # bytes written before its report
        ("size", "<u4"),  # bytes of its report, with its datagrams
        ("sum", "<u4"),  # their CRC-32
        ("hops", "<u4"),
        ("datagrams", "<u4"),
    ]
)
"""One event with its report, 40 bytes."""
BEGIN, END, ENTRIES = 0, 8, 16
"""Slots of `cursor`: bytes overwritten, bytes written and entries written, all since the beginning."""
_PER_ENTRY = 512
"""Bytes of the ring for each entry."""


def evidence_path(folder: Path, shard: int) -> Path:
    """File of a shard, in the folder of regions or in FOLDER."""
    return folder / f"worker-{shard}.evidence"


def open_evidence(regions: Path | None, shard: int, size: int, data: Path | None = None) -> Region | None:
    """The region of a shard, continued from the copy in `data` that a stopped collector left. Without a
    folder of regions, as in a replay, the file in `data` is the region itself. None: evidence is off.

    Raises RegionError.
    """
    if not size or (regions is None and data is None):
        return None
    arrays = {
        "cursor": (np.uint64, 24),
        "entries": (ENTRY, max(16, size // _PER_ENTRY)),
        "data": (np.uint8, max(size, 2 * MAX_BYTES)),
    }
    if regions is None:
        assert data is not None
        regions = data / FOLDER
        _make(regions)
    path = evidence_path(regions, shard)
    if (found := Region.resume(path, KIND, VERSION, arrays)) is not None and _can_go_on(found):
        return found
    made = Region.create(path, KIND, VERSION, arrays)
    if data is not None and regions != data / FOLDER:
        try:
            before = Region.attach(evidence_path(data / FOLDER, shard), KIND, VERSION)
        except RegionError:
            return made
        if before.has_arrays(arrays) and _can_go_on(before):
            for name in arrays:
                made[name][:] = before[name]
    return made


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o750, exist_ok=True)
    except OSError as error:
        raise RegionError(f"{folder} cannot be made: {error.strerror}") from error


def _can_go_on(region: Region) -> bool:
    """Whether the cursor in a file is valid, so that a writer can continue; a damaged one may be anything."""
    return bool((region["cursor"][[BEGIN, END, ENTRIES]] < 1 << 62).all())
