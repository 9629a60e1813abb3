"""Writes capture files: pcap (ns or µs) and pcapng."""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from ...wire.records import FrameBatch, Link
from ..errors import CaptureError, name_of
from ..layout import Block
from ..udp.headers import udp_frames
from .format import READ_LINKS, linktype_of

_SNAP_LENGTH = 262_144
_PCAP_END_NS = (1 << 32) * 1_000_000_000


def _create(path: str | Path) -> BinaryIO:
    """Create a capture file (`-`: standard output), gzipped if it ends in `.gz`. Raises CaptureError."""
    if str(path) == "-":
        if sys.stdout.buffer.isatty():
            raise CaptureError("a capture cannot be written to a terminal: give --output FILE")
        return sys.stdout.buffer
    try:
        if str(path).endswith(".gz"):
            return cast(BinaryIO, gzip.open(path, "wb", compresslevel=1))
        return Path(path).open("wb")
    except OSError as error:
        raise CaptureError(f"{path}: cannot be written ({error.strerror})") from error


class PcapWriter:
    """Writes batches to a file (`-`: standard output), gzipped if its name ends in `.gz`: a pcapng if its
    name says so, else a pcap.

    A pcap holds one `link` (None: that of the first frame); frames of other links are rejected. A pcapng gets
    an interface for each link. Payloads of UDP sockets (Link.UDP_PAYLOAD) are written as Ethernet frames with
    made-up headers.
    """

    def __init__(
        self,
        path: str | Path | BinaryIO,
        *,
        link: Link | None = Link.ETHERNET,
        nanoseconds: bool = True,
        pcapng: bool | None = None,
    ) -> None:
        standard = str(path) == "-"
        self.name = "standard output" if standard else name_of(path)
        self.packets = 0
        """Frames written."""
        by_name = self.name.removesuffix(".gz").endswith(".pcapng")
        self._pcapng = by_name if pcapng is None else pcapng
        self._link = Link.ETHERNET
        self._begun = False
        self._tick = 1 if nanoseconds else 1000
        self._interfaces: dict[int, int] = {}
        head = b"" if link is None else self._head(link)
        self._closes = isinstance(path, str | Path) and not standard
        self._file = _create(path) if isinstance(path, str | Path) else path
        self._put(head)

    def _head(self, link: int) -> bytes:
        """The header of a file with frames of this link."""
        link = Link.ETHERNET if link == Link.UDP_PAYLOAD else Link(link)
        linktype = linktype_of(link)
        if linktype is None:
            raise self._not_written(link)
        self._link, self._begun = link, True
        if self._pcapng:
            return self._section()
        magic = 0xA1B23C4D if self._tick == 1 else 0xA1B2C3D4
        return struct.pack("<IHHiIII", magic, 2, 4, 0, 0, _SNAP_LENGTH, linktype)

    def _section(self) -> bytes:
        return struct.pack("<IIIHHqI", Block.SECTION, 28, 0x1A2B3C4D, 1, 0, -1, 28)

    def write(self, batch: FrameBatch) -> None:
        """Append the frames of a batch. Raises CaptureError."""
        if not len(batch):
            return
        if (batch.frames["link"] == Link.UDP_PAYLOAD).any():
            batch = udp_frames(batch)
        if not self._begun:
            self._put(self._head(int(batch.frames["link"][0])))
        self._put(self._enhanced(batch) if self._pcapng else self._records(batch))
        self.packets += len(batch)

    def _records(self, batch: FrameBatch) -> bytes:
        frames = batch.frames
        foreign = frames["link"][frames["link"] != self._link]
        if len(foreign):
            raise CaptureError(
                f"{self.name}: a pcap of {self._link.name} frames cannot hold one of link type"
                f" {foreign[0]}; write a .pcapng"
            )
        if frames["time_ns"].min() < 0 or frames["time_ns"].max() >= _PCAP_END_NS:
            raise CaptureError(f"{self.name}: a pcap holds times from 1970 to 2106; write a .pcapng")
        heads = np.empty((len(frames), 4), "<u4")
        heads[:, 0] = frames["time_ns"] // 1_000_000_000
        heads[:, 1] = frames["time_ns"] % 1_000_000_000 // self._tick
        heads[:, 2] = frames["length"]
        heads[:, 3] = np.maximum(frames["wire_length"], frames["length"])
        head, arena = memoryview(heads.tobytes()), batch.arena.data
        parts: list[memoryview] = []
        for i, (offset, length) in enumerate(frames[["offset", "length"]].tolist()):
            parts.append(head[16 * i : 16 * i + 16])
            parts.append(arena[offset : offset + length])
        return b"".join(parts)

    def _enhanced(self, batch: FrameBatch) -> bytes:
        parts: list[bytes | memoryview] = []
        arena = batch.arena.data
        for row in batch.frames:
            link, length, ticks = int(row["link"]), int(row["length"]), int(row["time_ns"]) // self._tick
            if link not in self._interfaces:
                parts.append(self._interface(link))
            padding = -length % 4
            total = 32 + length + padding
            parts.append(
                struct.pack(
                    "<IIIIIII",
                    Block.ENHANCED_PACKET,
                    total,
                    self._interfaces[link],
                    ticks >> 32 & 0xFFFFFFFF,
                    ticks & 0xFFFFFFFF,
                    length,
                    max(length, int(row["wire_length"])),
                )
            )
            parts.append(arena[int(row["offset"]) : int(row["offset"]) + length])
            parts.append(bytes(padding) + total.to_bytes(4, "little"))
        return b"".join(parts)

    def _interface(self, link: int) -> bytes:
        linktype = linktype_of(link)
        if linktype is None:
            raise self._not_written(link)
        self._interfaces[link] = len(self._interfaces)
        resolution = 9 if self._tick == 1 else 6
        # if_tsresol, then the end of the options
        body = struct.pack("<HHIHHB3xHH", linktype, 0, _SNAP_LENGTH, 9, 1, resolution, 0, 0)
        total = 12 + len(body)
        return struct.pack("<II", Block.INTERFACE, total) + body + struct.pack("<I", total)

    def _not_written(self, link: int) -> CaptureError:
        what = "another link type" if link == Link.OTHER else f"link type {Link(link).name}"
        return CaptureError(f"{self.name}: frames of {what} cannot be written; {READ_LINKS} can")

    def _put(self, part: bytes) -> None:
        try:
            self._file.write(part)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CaptureError(f"{self.name}: cannot be written ({error.strerror})") from error

    def close(self) -> None:
        """Flush, and close a file that was opened here. The file is valid even without frames. Raises
        CaptureError.
        """
        if not self._begun:
            self._put(self._head(self._link))
        try:
            if self._closes:
                self._file.close()
            else:
                self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise CaptureError(f"{self.name}: cannot be written ({error.strerror})") from error

    def __enter__(self) -> PcapWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
