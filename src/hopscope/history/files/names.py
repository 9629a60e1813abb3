"""Names of journals and segments: they say which events a file has.

A journal has a shard's events from its first sequence on; a segment has both ends in its name.  An event may
be in several files for a moment (a segment has its name, its journals are not removed yet), never in none: a
reader opens journals before it lists segments, and skips what a segment covers.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import HistoryError

CHECKSUM = ".crc32"
"""Suffix of the checksum beside a Parquet file."""
INDEX = ".index"
"""Suffix of the index beside a segment."""
BESIDE = (CHECKSUM, INDEX)
"""Suffixes of what belongs to a Parquet file."""
DAMAGED = ".damaged"
"""Suffix of a damaged file that was set aside."""
CUT = ".cut"
"""Suffix of what was cut from a damaged journal."""
_NOTED = re.compile(r"\d{5}\.next")
_JOURNAL = re.compile(r"(\d{5})-(\d{20})\.journal")
_SEGMENT = re.compile(r"(\d{5})-(\d{20})-(\d{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class JournalFile:
    """A journal by its name."""

    shard: int
    first: int
    path: Path


@dataclass(frozen=True, slots=True, order=True)
class SegmentFile:
    """A segment by its name: it holds every event of `shard` from `first` to `last`, both included."""

    shard: int
    first: int
    last: int
    path: Path


def journal_path(folder: Path, shard: int, first: int) -> Path:
    """Path of the journal of `shard` that begins with sequence `first`, in the data folder `folder`."""
    return folder / "journal" / f"{shard:05d}-{first:020d}.journal"


def segment_path(folder: Path, shard: int, first: int, last: int) -> Path:
    """Path of the segment with the sequences `first` to `last` of `shard`, in the data folder `folder`."""
    return folder / "segments" / f"{shard:05d}-{first:020d}-{last:020d}.parquet"


def noted_path(folder: Path, shard: int) -> Path:
    """A shard's next sequence as text, written before retention deletes the last file that shows it."""
    return folder / "journal" / f"{shard:05d}.next"


def noted_sequence(folder: Path, shard: int) -> int:
    """The note at `noted_path`; 0: there is none, or it is damaged."""
    try:
        return int(noted_path(folder, shard).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def noted_shards(folder: Path) -> list[int]:
    """Shards whose next sequence is noted: events of theirs may all be deleted."""
    return [int(path.stem) for path in listing(folder / "journal", ".next") if _NOTED.fullmatch(path.name)]


def list_journals(folder: Path) -> list[JournalFile]:
    """Journals of a data folder by (shard, first). HistoryError: a *.journal is not ours."""
    found = []
    for path in listing(folder / "journal", ".journal"):
        match = _JOURNAL.fullmatch(path.name)
        if match is None:
            raise HistoryError(f"{path} is not named as a journal (SHARD-FIRST): move it out of the folder")
        found.append(JournalFile(int(match[1]), int(match[2]), path))
    return sorted(found)


def all_segments(folder: Path) -> list[SegmentFile]:
    """Segments of a data folder by (shard, first), larger first. HistoryError: a *.parquet is not ours."""
    found = []
    for path in listing(folder / "segments", ".parquet"):
        match = _SEGMENT.fullmatch(path.name)
        if match is None or int(match[3]) < int(match[2]):
            raise HistoryError(
                f"{path} is not named as a segment (SHARD-FIRST-LAST): move it out of the folder"
            )
        found.append(SegmentFile(int(match[1]), int(match[2]), int(match[3]), path))
    return sorted(found, key=lambda segment: (segment.shard, segment.first, -segment.last))


def list_segments(folder: Path) -> list[SegmentFile]:
    """Segments by (shard, first), without those that a larger one covers (after a merge)."""
    kept: list[SegmentFile] = []
    for segment in all_segments(folder):
        if not (kept and kept[-1].shard == segment.shard and segment.last <= kept[-1].last):
            kept.append(segment)
    return kept


def segment_covering(segments: list[SegmentFile], shard: int, sequence: int) -> SegmentFile | None:
    """The segment of a list sorted by (shard, first) that has this event; None: there is none."""
    at = bisect_right(segments, (shard, sequence), key=lambda segment: (segment.shard, segment.first)) - 1
    if at >= 0 and segments[at].shard == shard and sequence <= segments[at].last:
        return segments[at]
    return None


def damaged_files(folder: Path) -> list[Path]:
    """Files of history that were set aside because they are damaged, and what was cut from journals."""
    found = [
        path for part in ("journal", "segments", "distributions") for path in listing(folder / part, DAMAGED)
    ]
    return found + listing(folder / "journal", CUT)


def orphans(folder: Path) -> Iterator[Path]:
    """What is beside Parquet files that are gone: checksums and indexes."""
    for suffix in BESIDE:
        for path in folder.glob(f"*.parquet{suffix}"):
            if not path.with_suffix("").exists():
                yield path


def set_aside(path: Path) -> str:
    """Rename a damaged file to NAME.damaged; returns its new name."""
    return path.rename(path.with_name(path.name + DAMAGED)).name


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file, which is named once it is on disk. OSError: that failed; nothing is left."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def note_sequence(folder: Path, shard: int, following: int) -> None:
    """Store a shard's next sequence, to continue its numbers after the last of its files is deleted."""
    path = noted_path(folder, shard)
    if following > noted_sequence(folder, shard):
        write_file(path, f"{following}\n".encode())
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """fsync a folder: its entries (a rename, a removal) are on disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def listing(folder: Path, suffix: str) -> list[Path]:
    """Files of a folder by suffix; none if there is no folder. HistoryError: it cannot be read."""
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HistoryError(f"{folder}: {error.strerror}") from error
