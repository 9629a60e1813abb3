"""Chunks of segments as Parquet files in memory, of which DuckDB reads a few faster than of the segments.

DuckDB prepares the readers of all columns for each row group of a file, also for those that it skips: with
DuckDB 1.5.5 and 24 columns, 4.5 ms for a segment of 62 chunks, while copying 4 chunks takes 0.7 ms. A copy
has its row groups where they are in the segment, so that the footer needs only to leave out the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import duckdb

from .names import SegmentFile
from .segment_index import CHUNK_EVENTS, Part

_MAX_SHARE = 2
"""At most one of so many chunks of a segment is copied; if more are needed, DuckDB reads the segment."""
_MAX_FOOTERS = 100
"""Number of segments whose footers are kept, 0.13 MB each."""
_SPARE: list[int] = []
"""Files in memory for the next page: copying into pages that exist takes 37 us a chunk instead of 160."""
_MAX_SPARE, _MAX_SPARE_BYTES = 8, 4 << 20
_MAGIC = b"PAR1"
_NUMBER = rb"([\x80-\xff]*[\x00-\x7f])"
"""A number in Thrift's compact protocol."""


@dataclass(frozen=True, slots=True)
class _Footer:
    """The footer of a segment, in parts."""

    head: bytes
    """What is before the number of rows."""
    groups: list[tuple[bytes, int, int, int]]
    """A row group's description, number of rows, and where its bytes begin and end in the file."""
    tail: bytes
    """What is after the row groups."""
    begin: int
    """Where it begins in the file."""

    def of(self, chunks: Sequence[int]) -> bytes:
        """The footer of a file with only these row groups, with its length and the magic."""
        rows = sum(self.groups[chunk][1] for chunk in chunks)
        groups = b"".join(self.groups[chunk][0] for chunk in chunks)
        footer = self.head + _rows_and_groups(rows, len(chunks)) + groups + self.tail
        return footer + len(footer).to_bytes(4, "little") + _MAGIC


os.register_at_fork(after_in_child=_SPARE.clear)  # the parent writes to them


@contextmanager
def chunk_files(parts: Sequence[Part]) -> Iterator[tuple[list[SegmentFile], list[Part]]]:
    """Files in memory with the chunks of these parts, one for each segment of which few chunks are needed,
    and the other parts. The files are gone at the end.

    A `duckdb.Error` that names one of the files names the segment instead. Two files in turn may have the
    same path: DuckDB must not keep their footers.
    """
    by_segment: dict[SegmentFile, list[Part]] = {}
    for part in parts:
        by_segment.setdefault(part.segment, []).append(part)
    names: dict[str, SegmentFile] = {}
    others: list[Part] = []
    files: list[int] = []
    try:
        for segment, chosen in by_segment.items():
            begins = sorted(part.begin for part in chosen if part.begin is not None)
            if len(begins) == len(chosen) and len(chosen) * _MAX_SHARE * CHUNK_EVENTS <= _rows(segment):
                try:
                    files.append(_file())
                    name = Path(f"/proc/self/fd/{files[-1]}")
                    if _copy(segment, [begin // CHUNK_EVENTS for begin in begins], files[-1]):
                        name.stat()
                        names[str(name)] = segment
                        continue
                except OSError:
                    pass  # the segment is gone, which DuckDB reports; no /proc; too many open files
            others += chosen
        yield [replace(segment, path=Path(name)) for name, segment in names.items()], others
    except duckdb.Error as error:
        text = re.sub(
            r"/proc/self/fd/\d+",
            lambda found: str(names[found[0]].path) if found[0] in names else found[0],
            str(error),
        )
        raise type(error)(text) from error
    finally:
        for file in files:
            _keep(file)


def _file() -> int:
    """A file in memory, which may have content."""
    try:
        return _SPARE.pop()
    except IndexError:
        return os.memfd_create("hopscope-chunks")


def _keep(file: int) -> None:
    """Keep the memory of a file for the next one, unless it is large, or enough are kept."""
    if len(_SPARE) < _MAX_SPARE and os.fstat(file).st_blocks * 512 <= _MAX_SPARE_BYTES:
        _SPARE.append(file)
    else:
        os.close(file)


def _rows(segment: SegmentFile) -> int:
    return segment.last + 1 - segment.first


def _copy(segment: SegmentFile, chunks: Sequence[int], target: int) -> bool:
    """Copy chunks of a segment to the empty file `target`; False if it is unknown where they are. OSError: it
    failed.
    """
    with segment.path.open("rb") as file:
        known = os.fstat(file.fileno())
        footer = _footer(segment, known.st_size, known.st_mtime_ns)
        if footer is None:
            return False
        os.pwrite(target, _MAGIC, 0)
        ranges = [footer.groups[chunk][2:] for chunk in chunks]
        for begin, end in [*ranges, (footer.groups[-1][3], footer.begin)]:  # Bloom filters are at the end
            os.lseek(target, begin, os.SEEK_SET)
            while begin < end:
                copied = os.sendfile(target, file.fileno(), begin, end - begin)
                if not copied:
                    return False
                begin += copied
        os.ftruncate(target, footer.begin + os.pwrite(target, footer.of(chunks), footer.begin))
    return True


@lru_cache(_MAX_FOOTERS)
def _footer(segment: SegmentFile, size: int, mtime_ns: int) -> _Footer | None:
    """The footer of a segment, or None if it is not as DuckDB 1.5 and 2.0 write it. OSError: it failed.

    The description of a row group ends with its number of rows, where it begins, and its size. It is found by
    these, in a tenth of the time of reading all fields (25 ms): statistics may look the same by chance, but
    one row group begins where the other ends.
    """
    with segment.path.open("rb") as file:
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        begin = size - 8 - length
        file.seek(max(0, begin))
        raw = file.read(length)
    count, last = divmod(_rows(segment) - 1, CHUNK_EVENTS)
    head, found, rest = raw.partition(_rows_and_groups(_rows(segment), count + 1))
    sizes = b"|".join(re.escape(_number(rows << 1)) for rows in (CHUNK_EVENTS, last + 1))
    end, groups, at = len(_MAGIC), [], 0
    for match in re.finditer(
        rb"\x16" + _NUMBER + rb"\x16(" + sizes + rb")\x26" + _NUMBER + rb"\x16" + _NUMBER + rb"\x00", rest
    ):
        rows, first, taken = (_value(match[group]) >> 1 for group in (2, 3, 4))
        if first == end:
            end += taken
            groups.append((rest[at : match.end()], rows, first, end))
            at = match.end()
    if not found or [rows for _, rows, _, _ in groups] != [CHUNK_EVENTS] * count + [last + 1] or end > begin:
        return None
    return _Footer(head, groups, rest[at:], begin)


def _rows_and_groups(rows: int, groups: int) -> bytes:
    """The fields num_rows and row_groups of FileMetaData (parquet.thrift), until the first row group."""
    size = bytes([groups << 4 | 12]) if groups < 15 else b"\xfc" + _number(groups)
    return b"\x16" + _number(rows << 1) + b"\x19" + size


def _number(number: int) -> bytes:
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def _value(written: bytes) -> int:
    """The reverse of `_number`."""
    return sum((byte & 127) << 7 * at for at, byte in enumerate(written))
