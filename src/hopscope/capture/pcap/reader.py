"""Reads capture files: pcap and pcapng, µs and ns, either byte order, gzip, standard input."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ...base.plural import plural
from ...wire.records import FRAME, FrameBatch, Link, Records
from ..errors import Damage, PcapError, name_of
from ..layout import Walk
from .format import (
    DESCRIBING,
    GZIP_MAGIC,
    OTHER_COMPRESSION,
    PCAP_HEADER,
    READ_LINKS,
    SECTION_MAGIC,
    Shape,
    is_cut,
    pcap_shape,
    read_section,
    walk_plain,
)
from .writer import PcapWriter

__all__ = ["Damage", "PcapError", "PcapReader", "PcapWriter", "read"]

CHUNK = 4 * 1024 * 1024
"""Size of an arena in bytes; a longer record gets an arena of its own size."""
COMPILE_AFTER = 8 * 1024 * 1024
"""How many bytes of a file Python walks before loading the compiled walk pays off."""
_MIN_READ = 64 * 1024


def read(source: str | Path | BinaryIO, *, frames_per_batch: int = 4096) -> Iterator[FrameBatch]:
    """Frames of a capture file (`-`: standard input), in batches that stay valid.

    Raises PcapError: at once if the file is missing or not a capture, or after the last good frame if it is
    damaged. Use `PcapReader` to read damaged files without an error.
    """
    reader = PcapReader(source, frames_per_batch=frames_per_batch)

    def batches() -> Iterator[FrameBatch]:
        yield from reader
        if reader.damage:
            raise reader.damage

    return batches()


class PcapReader:
    """Batches of a capture file; `damage` is set afterwards if the file ended early.

    Files are read in chunks, not mapped: the same code reads files, pipes and gzip, memory does not grow with
    the file, and a file that shrinks meanwhile only ends early instead of causing SIGBUS. (Mapped, a frame of
    200 bytes would cost 8 ns instead of 25.) Data from a pipe is delivered as it arrives.
    """

    def __init__(
        self, source: str | Path | BinaryIO, *, frames_per_batch: int = 4096, compiled: bool | None = None
    ) -> None:
        self.name = "standard input" if source == "-" else name_of(source)
        self.packets = 0
        """Frames delivered."""
        self.unread = 0
        """Delivered frames whose link type no decoder reads."""
        self.skipped = 0
        """Skipped blocks of more than 16 MiB, which have no packets."""
        self.damage: PcapError | None = None
        self._compiled = compiled
        self.frames_per_batch = frames_per_batch
        self.compressed = False
        """Whether the file is gzipped."""
        self._passed = 0  # bytes of the file before this arena
        self._at = self._end = 0
        self._arena: npt.NDArray[np.uint8] = np.empty(CHUNK, np.uint8)
        self._open(source)
        try:
            self._shape = self._header()
        except BaseException:
            self.close()
            raise

    def _open(self, source: str | Path | BinaryIO) -> None:
        self._closes: list[io.IOBase | BinaryIO] = []
        try:
            if source == "-":
                if sys.stdin is None:  # closed
                    raise PcapError(self.name, Damage.UNREADABLE, detail="is closed")
                self._file: BinaryIO = sys.stdin.buffer
            elif isinstance(source, str | Path):
                self._file = _OwnPosition(source)  # type: ignore[assignment]
                self._closes.append(self._file)
            elif hasattr(source, "read"):
                self._file = source
            else:
                found = f"expected a path or an open file, found {type(source).__name__}"
                raise PcapError(self.name, Damage.UNREADABLE, detail=found)
        except OSError as error:
            raise PcapError(self.name, Damage.UNREADABLE, detail=error.strerror or str(error)) from error

    def close(self) -> None:
        """Close the file; reading to the end also does."""
        for file in self._closes:
            file.close()
        self._closes = []

    def __iter__(self) -> Iterator[FrameBatch]:
        try:
            yield from self._batches()
        finally:
            self.close()

    @property
    def position(self) -> int:
        """Bytes of the (uncompressed) file that have been read into frames."""
        return self._passed + self._at

    @property
    def unread_texts(self) -> list[str]:
        """Messages about frames whose link type no decoder reads, and about skipped blocks."""
        found = []
        if self.unread:
            types = ", ".join(map(str, self._shape.unread))
            frames = f"{plural(self.unread, 'frame')} of link type {types}, which is not read"
            found.append(f"{self.name}: {frames}; {READ_LINKS} are")
        if self.skipped:
            found.append(f"{self.name}: blocks of more than 16 MiB without packets skipped: {self.skipped:,}")
        return found

    # ------------------------------------------------------------------------------------------ bytes

    def _header(self) -> Shape:
        self._fill(PCAP_HEADER)
        if bytes(self._arena[:2]) == GZIP_MAGIC and self._end >= 2:
            self._unpack()
            self._fill(PCAP_HEADER)
        head = bytes(self._arena[: min(self._end, PCAP_HEADER)])
        if self.damage and len(head) < PCAP_HEADER:
            raise self.damage
        if not head:
            raise PcapError(self.name, Damage.EMPTY)
        if head[:4] == SECTION_MAGIC:
            return Shape(True)
        if shape := pcap_shape(head):
            self._at = PCAP_HEADER
            return shape
        packed = (
            f"it is compressed: unpack it, or pipe `{command} -dc` into standard input"
            for magic, command in OTHER_COMPRESSION.items()
            if head.startswith(magic)
        )
        damage = Damage.CUT_HEADER if is_cut(head) else Damage.NOT_A_CAPTURE
        raise PcapError(self.name, damage, detail=next(packed, ""))

    def _unpack(self) -> None:
        """Continue through gzip, beginning with the bytes already read."""
        rest = _Prefixed(bytes(self._arena[: self._end]), self._file)
        unpacked = gzip.GzipFile(fileobj=io.BufferedReader(rest, _MIN_READ))
        self._closes.append(unpacked)
        self._file = unpacked  # type: ignore[assignment]
        self._end = 0
        self.compressed = True

    def _fill(self, needed: int) -> None:
        while self._end - self._at < needed and self._more():
            pass

    def _more(self) -> bool:
        """Read more after the present bytes; False at the end of the file, or if it cannot be read."""
        try:
            got = _read_once(self._file, self._arena.data[self._end :])
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self._stop(Damage.BAD_COMPRESSION, str(error).rstrip("."))
            return False
        except (OSError, ValueError) as error:  # ValueError: the file has been closed
            self._stop(Damage.UNREADABLE, getattr(error, "strerror", None) or str(error))
            return False
        self._end += got
        return got > 0

    def _stop(self, damage: Damage, detail: str = "", offset: int | None = None) -> None:
        if self.damage is None:
            at = self.position if offset is None else offset
            self.damage = PcapError(self.name, damage, packets=self.packets, offset=at, detail=detail)

    def _make_room(self, record: int) -> None:
        """Make a new arena if the current record (`record` bytes) or the next read would not fit."""
        if len(self._arena) - self._end >= _MIN_READ and self._at + record <= len(self._arena):
            return
        left = self._arena[self._at : self._end]
        arena = np.empty(max(CHUNK, record + _MIN_READ), np.uint8)
        arena[: len(left)] = left
        self._passed += self._at
        self._arena, self._at, self._end = arena, 0, len(left)

    # ----------------------------------------------------------------------------------------- frames

    def _batches(self) -> Iterator[FrameBatch]:
        while True:
            frames = np.empty(self.frames_per_batch, FRAME)
            count, at, status = self._walk(frames)
            self._at = at
            if count:
                arena = self._arena.view()
                arena.flags.writeable = False
                if self._shape.unread:
                    self.unread += int(np.count_nonzero(frames["link"][:count] == Link.OTHER))
                first, self.packets = self.packets, self.packets + count
                yield FrameBatch(arena, frames[:count], first)
            length = 0
            if status == Walk.SECTION:
                length, status = read_section(self._arena.data, self._at, self._end, self._shape)
                if status == Walk.SECTION:
                    self._at += length
            if status == Walk.LONG:
                self._skip()
                if self.damage:
                    return None
            if status in (Walk.BAD_LENGTH, Walk.BAD_INTERFACE):
                return self._stop(Damage[status.name])
            if status == Walk.MORE:
                self._make_room(length or self._record_length())
                if not self._more():
                    if self._end > self._at:
                        self._stop(Damage.TRUNCATED)
                    return None

    def _skip(self) -> None:
        """Skip the current long block, unless it is needed, cut short or inconsistent: this ends the walk."""
        begin, length = self.position, self._word(4)
        if self._word(0) in DESCRIBING:
            return self._stop(Damage.TOO_LONG)
        left, spare = length - 4, np.empty(CHUNK, np.uint8)
        while left > self._end - self._at:
            left -= self._end - self._at
            self._passed += self._end
            self._arena, self._at, self._end = spare, 0, 0
            if not self._more():
                return self._stop(Damage.TRUNCATED, offset=begin)
        self._at += left
        self._make_room(4)
        self._fill(4)
        if self._end - self._at < 4:
            return self._stop(Damage.TRUNCATED, offset=begin)
        if self._word(0) != length:
            return self._stop(Damage.BAD_LENGTH, offset=begin)
        self._at += 4
        self.skipped += 1
        return None

    def _record_length(self) -> int:
        """Bytes of the current record, which the walk has found plausible; 0 if its header is cut short."""
        place, needed, extra = (4, 8, 0) if self._shape.pcapng else (8, 16, 16)
        return 0 if self._end - self._at < needed else self._word(place) + extra

    def _word(self, place: int) -> int:
        """32 bits of the current record."""
        at = self._at + place
        order = "big" if self._shape.big else "little"
        return int.from_bytes(self._arena[at : at + 4].tobytes(), order)  # type: ignore[arg-type]

    def _walk(self, frames: Records) -> tuple[int, int, Walk]:
        compiled = self._compiled if self._compiled is not None else self._passed >= COMPILE_AFTER
        if not compiled:
            return walk_plain(self._arena.data, self._at, self._end, self._shape, frames)
        from ...base.kernels.jit import readonly
        from .pcap_kernel import walk_pcap, walk_pcapng

        walk = walk_pcapng if self._shape.pcapng else walk_pcap
        count, at, status = walk(
            readonly(self._arena),
            self._at,
            self._end,
            self._shape.big,
            readonly(self._shape.interfaces),
            frames,
        )
        return int(count), int(at), Walk(status)


def _read_once(file: BinaryIO, into: memoryview) -> int:
    """Read the available data, without waiting until `into` is full; 0 at the end."""
    if isinstance(file, gzip.GzipFile | io.BufferedReader):
        got = file.read1(len(into))
        into[: len(got)] = got
        return len(got)
    if hasattr(file, "readinto"):
        return file.readinto(into) or 0
    got = file.read(len(into))
    try:
        into[: len(got)] = got
    except TypeError:
        raise OSError("it is open as text: open it with the mode 'rb'") from None
    return len(got)


class _OwnPosition(io.FileIO):
    """A file with its own position, so that after a fork both processes can continue reading."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(path)
        self._at = 0 if hasattr(os, "preadv") and self.seekable() else None  # else it is a pipe

    def readinto(self, into: memoryview) -> int | None:  # type: ignore[override]
        if self._at is None:
            return super().readinto(into)
        got = os.preadv(self.fileno(), [into], self._at)
        self._at += got
        return got


class _Prefixed(io.RawIOBase):
    """A file that replays its first bytes, which were read before."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first, self._file = first, file

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        if self._first:
            part, self._first = self._first[: len(into)], self._first[len(into) :]
            into[: len(part)] = part
            return len(part)
        return _read_once(self._file, into)
