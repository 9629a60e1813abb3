"""Headers of pcap and pcapng, and the walk over their records in Python (the twin of `pcap_kernel`).

Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np

from ...wire.records import FRAME, Link, Records
from ..layout import INTERFACE, MAX_RECORD, Block, Clock, Walk

Buffer = memoryview
_WRAP = (1 << 64) - 1

GZIP_MAGIC = b"\x1f\x8b"
OTHER_COMPRESSION = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zX": "xz",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
}
"""Magic bytes of unsupported compressions, with the commands that unpack them."""
SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
PCAP_HEADER = 24
_PCAP_MAGICS = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
_LINKS = {
    0: Link.NULL,
    108: Link.NULL,  # LINKTYPE_LOOP: the same header, always big-endian
    1: Link.ETHERNET,
    12: Link.RAW_IP,  # DLT_RAW of most systems
    14: Link.RAW_IP,  # DLT_RAW of OpenBSD
    101: Link.RAW_IP,
    228: Link.RAW_IP,
    229: Link.RAW_IP,
    113: Link.LINUX_SLL,
    276: Link.LINUX_SLL2,
}
READ_LINKS = "Ethernet, raw IP, Linux cooked and loopback"
"""The link types that are read, in words."""
_OPTION_TSRESOL = 9
_OPTION_TSOFFSET = 14


DESCRIBING = frozenset(Block)
"""Blocks of pcapng that have packets or describe how to read them; all others are skipped."""


def link_of(linktype: int) -> Link:
    """The Link of a libpcap link type; OTHER if no decoder reads it."""
    return _LINKS.get(linktype & 0xFFFF, Link.OTHER)


def linktype_of(link: int) -> int | None:
    """The libpcap link type that is written for a Link, or None."""
    return {Link.NULL: 0, Link.ETHERNET: 1, Link.RAW_IP: 101, Link.LINUX_SLL: 113, Link.LINUX_SLL2: 276}.get(
        Link(link)
    )


@dataclass(slots=True)
class Shape:
    """Properties of a file that the walk needs."""

    pcapng: bool
    order: str = "<"
    """Byte order, `<` or `>`; in a pcapng, that of the current section."""
    interfaces: Records = field(default_factory=lambda: np.zeros(0, INTERFACE))
    """INTERFACE [interfaces]."""
    unread: list[int] = field(default_factory=list)
    """Link types of interfaces whose frames no decoder reads."""

    @property
    def big(self) -> bool:
        """Whether the file is big-endian."""
        return self.order == ">"

    def note_link(self, linktype: int) -> None:
        """Remember the link type of an interface if no decoder reads its frames."""
        linktype &= 0xFFFF
        if link_of(linktype) is Link.OTHER and linktype not in self.unread:
            self.unread.append(linktype)


def is_cut(header: bytes) -> bool:
    """Whether these bytes are an incomplete header of a pcap."""
    return len(header) < PCAP_HEADER and header[:4] in _PCAP_MAGICS


def pcap_shape(header: bytes) -> Shape | None:
    """Read a pcap file header (24 bytes); None if it is not one."""
    if len(header) < PCAP_HEADER or header[:4] not in _PCAP_MAGICS:
        return None
    order, scale = _PCAP_MAGICS[header[:4]]
    (linktype,) = struct.unpack_from(f"{order}I", header, 20)
    shape = Shape(False, order, _interface(link_of(linktype), 0, Clock.MULTIPLY, scale, 0))
    shape.note_link(linktype)
    return shape


def read_section(buf: Buffer, at: int, end: int, shape: Shape) -> tuple[int, Walk]:
    """Read the section or interface block at `at`; returns its length, and MORE, SECTION, LONG or BAD_LENGTH.

    In a pcap, it is the header of another file that was appended.
    """
    if not shape.pcapng:
        if end - at < PCAP_HEADER:
            return PCAP_HEADER, Walk.MORE
        appended = pcap_shape(bytes(buf[at : at + PCAP_HEADER]))
        assert appended is not None
        shape.order, shape.interfaces = appended.order, appended.interfaces
        for linktype in appended.unread:
            shape.note_link(linktype)
        return PCAP_HEADER, Walk.SECTION
    if bytes(buf[at : at + 4]) == SECTION_MAGIC:
        if end - at < 12:
            return 0, Walk.MORE
        magic = bytes(buf[at + 8 : at + 12])
        if magic not in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"):
            return 0, Walk.BAD_LENGTH
        order = ">" if magic[0] == 0x1A else "<"
        length, status = _block_length(buf, at, end, order, 28)
        if status == Walk.SECTION:
            shape.order = order
            shape.interfaces = np.zeros(0, INTERFACE)
        return length, status
    length, status = _block_length(buf, at, end, shape.order, 20)
    if status == Walk.SECTION:
        linktype, _, snap_length = struct.unpack_from(f"{shape.order}HHI", buf, at + 8)
        clock, scale, offset = _clock(buf, at + 16, at + length - 4, shape.order)
        shape.note_link(linktype)
        described = _interface(link_of(linktype), snap_length, clock, scale, offset)
        shape.interfaces = np.concatenate([shape.interfaces, described])
    return length, status


def _block_length(buf: Buffer, at: int, end: int, order: str, smallest: int) -> tuple[int, Walk]:
    (length,) = struct.unpack_from(f"{order}I", buf, at + 4)
    if length < smallest or length % 4:
        return 0, Walk.BAD_LENGTH
    if length > MAX_RECORD:
        return length, Walk.LONG
    if at + length > end:
        return length, Walk.MORE
    if struct.unpack_from(f"{order}I", buf, at + length - 4)[0] != length:
        return 0, Walk.BAD_LENGTH
    return length, Walk.SECTION


def _clock(buf: Buffer, at: int, end: int, order: str) -> tuple[Clock, int, int]:
    """Resolution and offset from an interface's options; damaged options end the search."""
    clock, scale, offset = Clock.MULTIPLY, 1000, 0
    while end - at >= 4:
        code, length = struct.unpack_from(f"{order}HH", buf, at)
        at += 4
        if code == 0 or at + length > end:
            break
        if code == _OPTION_TSRESOL and length == 1:
            clock, scale = _resolution(buf[at])
        elif code == _OPTION_TSOFFSET and length == 8:
            (offset,) = struct.unpack_from(f"{order}q", buf, at)
        at += (length + 3) & ~3
    return clock, scale, offset


def _resolution(value: int) -> tuple[Clock, int]:
    """if_tsresol: the high bit chooses between powers of 2 and of 10."""
    if value & 0x80:
        return Clock.BINARY, value & 0x7F
    if value <= 9:
        return Clock.MULTIPLY, 10 ** (9 - value)
    return Clock.DIVIDE, 10 ** min(value - 9, 19)


def _interface(link: Link, snap_length: int, clock: Clock, scale: int, offset: int) -> Records:
    row = np.zeros(1, INTERFACE)
    row["link"], row["snap_length"], row["clock"], row["scale"] = link, snap_length, clock, scale
    row["offset_ns"] = (offset * 1_000_000_000) & _WRAP
    return row


def to_ns(ticks: int, clock: int, scale: int, offset_ns: int) -> int:
    """Ticks since the epoch as ns, modulo 2^64, as the kernel computes it."""
    if clock == Clock.MULTIPLY:
        ns = ticks * scale
    elif clock == Clock.DIVIDE:
        ns = ticks // scale
    else:
        # 34 bits of fraction are finer than a ns, and their product with 10^9 fits 64 bits
        fraction = ticks & ((1 << scale) - 1)
        short = max(0, scale - 34)
        ns = (ticks >> scale) * 1_000_000_000 + ((fraction >> short) * 1_000_000_000 >> (scale - short))
    return (ns + offset_ns) & _WRAP


Rows = list[tuple[int, int, int, int, int]]
"""(offset, time_ns modulo 2^64, length, wire length, link) of frames."""


def walk_plain(buf: Buffer, at: int, end: int, shape: Shape, frames: Records) -> tuple[int, int, Walk]:
    """Describe records of `buf[at:end]` in FRAME `frames`; returns (frames, where it stopped, why)."""
    rows: Rows = []
    walk = _walk_pcapng if shape.pcapng else _walk_pcap
    at, status = walk(buf, at, end, shape, rows, len(frames))
    if rows:
        filled = frames[: len(rows)]
        filled[:] = np.zeros(1, FRAME)
        offset, time_ns, length, wire_length, link = zip(*rows, strict=True)
        filled["offset"] = offset
        filled["time_ns"] = np.array(time_ns, np.uint64).view(np.int64)
        filled["length"] = length
        filled["wire_length"] = wire_length
        filled["link"] = link
    return len(rows), at, status


def _walk_pcap(buf: Buffer, at: int, end: int, shape: Shape, rows: Rows, limit: int) -> tuple[int, Walk]:
    record = struct.Struct(f"{shape.order}IIII")
    scale, link = int(shape.interfaces["scale"][0]), int(shape.interfaces["link"][0])
    while len(rows) < limit:
        if end - at < 16:
            return at, Walk.MORE
        seconds, fraction, length, wire_length = record.unpack_from(buf, at)
        if length > MAX_RECORD:
            return at, Walk.BAD_LENGTH
        if length == wire_length == 0 and bytes(buf[at : at + 4]) in _PCAP_MAGICS:
            return at, Walk.SECTION
        if end - at - 16 < length:
            return at, Walk.MORE
        rows.append((at + 16, seconds * 1_000_000_000 + fraction * scale, length, wire_length, link))
        at += 16 + length
    return at, Walk.FULL


def _walk_pcapng(buf: Buffer, at: int, end: int, shape: Shape, rows: Rows, limit: int) -> tuple[int, Walk]:
    head = struct.Struct(f"{shape.order}II")
    while len(rows) < limit:
        if end - at < 8:
            return at, Walk.MORE
        kind, length = head.unpack_from(buf, at)
        if kind in (Block.SECTION, Block.INTERFACE):
            return at, Walk.SECTION
        if length < 12 or length % 4:
            return at, Walk.BAD_LENGTH
        if length > MAX_RECORD:
            return at, Walk.LONG
        if at + length > end:
            return at, Walk.MORE
        if struct.unpack_from(f"{shape.order}I", buf, at + length - 4)[0] != length:
            return at, Walk.BAD_LENGTH
        if kind in (Block.ENHANCED_PACKET, Block.PACKET, Block.SIMPLE_PACKET):
            status = _packet(buf, at, kind, length, shape, rows)
            if status != Walk.FULL:
                return at, status
        at += length
    return at, Walk.FULL


def _packet(buf: Buffer, at: int, kind: int, length: int, shape: Shape, rows: Rows) -> Walk:
    """Append the packet of one block; FULL if that worked."""
    if length < (16 if kind == Block.SIMPLE_PACKET else 32):
        return Walk.BAD_LENGTH
    if kind == Block.SIMPLE_PACKET:
        (wire_length,) = struct.unpack_from(f"{shape.order}I", buf, at + 8)
        number, ticks, captured, start = 0, 0, min(wire_length, length - 16), at + 12
    else:
        form = "IIIII" if kind == Block.ENHANCED_PACKET else "HHIIII"
        number, *_, high, low, captured, wire_length = struct.unpack_from(f"{shape.order}{form}", buf, at + 8)
        ticks, start = high << 32 | low, at + 28
        if captured > length - 32:
            return Walk.BAD_LENGTH
    if number >= len(shape.interfaces):
        return Walk.BAD_INTERFACE
    row = shape.interfaces[number]
    if kind == Block.SIMPLE_PACKET:
        time_ns = 0
        if row["snap_length"]:
            captured = min(captured, int(row["snap_length"]))
    else:
        time_ns = to_ns(ticks, int(row["clock"]), int(row["scale"]), int(row["offset_ns"]))
    rows.append((start, time_ns, captured, wire_length, int(row["link"])))
    return Walk.FULL
