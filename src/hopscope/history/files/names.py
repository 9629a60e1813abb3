"""Names of journals and segments, which state the events that a file contains.

The name of a journal states its first sequence, that of a segment its first and last. For a moment, an event
may be in several files (the segment exists, and its journals are not removed yet), but never in none. So a
reader opens journals before it lists segments, and skips journals that a segment covers.
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
"""Suffixes of the files that belong to a Parquet file."""
DAMAGED = ".damaged"
"""Suffix of a damaged file that was set aside."""
CUT = ".cut"
"""Suffix of a file with the bytes that were cut from a damaged journal."""
_NOTED = re.compile(r"\d{5}\.next")
_JOURNAL = re.compile(r"(\d{5})-(\d{20})\.journal")
_SEGMENT = re.compile(r"(\d{5})-(\d{20})-(\d{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class JournalFile:
    """A journal, described by its name: it holds the events of `shard` from `first` on."""

    shard: int
    first: int
    path: Path


@dataclass(frozen=True, slots=True, order=True)
class SegmentFile:
    """A segment, described by its name: it holds every event of `shard` from `first` to `last`, inclusive."""

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
    """Path of a note with a shard's next sequence, written before retention deletes the last file whose name
    shows it.
    """
    return folder / "journal" / f"{shard:05d}.next"


def noted_sequence(folder: Path, shard: int) -> int:
    """The sequence in the note at `noted_path`; 0 if there is no note or it is damaged."""
    try:
        return int(noted_path(folder, shard).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def noted_shards(folder: Path) -> list[int]:
    """Shards with a note of their next sequence; retention may have deleted all their events."""
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
    """The segment that has this event, or None. `segments` must be sorted by (shard, first)."""
    at = bisect_right(segments, (shard, sequence), key=lambda segment: (segment.shard, segment.first)) - 1
    if at >= 0 and segments[at].shard == shard and sequence <= segments[at].last:
        return segments[at]
    return None


def damaged_files(folder: Path) -> list[Path]:
    """Files that were set aside because they are damaged, and files with bytes cut from journals."""
    found = [
        path for part in ("journal", "segments", "distributions") for path in listing(folder / part, DAMAGED)
    ]
    return found + listing(folder / "journal", CUT)


def orphans(folder: Path) -> Iterator[Path]:
    """Checksums and indexes whose Parquet file no longer exists."""
    for suffix in BESIDE:
        for path in folder.glob(f"*.parquet{suffix}"):
            if not path.with_suffix("").exists():
                yield path


def set_aside(path: Path) -> str:
    """Rename a damaged file to NAME.damaged; returns its new name."""
    return path.rename(path.with_name(path.name + DAMAGED)).name


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file, which gets its name once it is on disk. OSError: it failed, and left nothing."""
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
    """Store a shard's next sequence, so that its numbers go on from there after all its files are deleted."""
    path = noted_path(folder, shard)
    if following > noted_sequence(folder, shard):
        write_file(path, f"{following}\n".encode())
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """fsync a folder, so that changes of its entries (a rename, a removal) are on disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def listing(folder: Path, suffix: str) -> list[Path]:
    """Files of a folder with this suffix; none if the folder does not exist.
    HistoryError: it cannot be read.
    """
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.name.endswith(suffix)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HistoryError(f"{folder}: {error.strerror}") from error
