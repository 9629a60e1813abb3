"""Objects to frames: the inverse of `as_json`, also for objects that users write by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import layout
from ..address import number_of
from ..dialect import DEFAULT, Dialect
from ..headers.ethernet import Ip
from ..records import FRAME, FrameBatch, Link
from . import int_stack as craft_int
from . import packet as craft_packet
from . import report as craft_report
from . import tunnel as craft_tunnel
from .keys import CraftError, Keys, about
from .report import Sequences

COLLECTOR = "192.0.2.254"
SOURCE = "192.0.2.253"
"""Source address of a report that does not name one."""
SPORT = 32766
GAP_NS = 1_000_000
"""Time between packets that do not state one."""
MAX_MISSING = 1_000_000
"""Most packets in a row that may be missing."""
_MAPPED_PREFIX = 0xFFFF
_LINKS = {link.name.lower(): link for link in Link}


@dataclass(frozen=True, slots=True)
class Frame:
    """One packet."""

    raw: bytes
    time_ns: int
    link: Link = Link.ETHERNET
    wire_length: int = 0
    """Length before a snap length cut it, bytes; 0: it is complete."""


def craft(
    objects: Iterable[dict[str, Any]],
    dialect: Dialect = DEFAULT,
    *,
    port: int | None = None,
    collector: str = COLLECTOR,
    renumber: bool = False,
) -> FrameBatch:
    """The frames of objects as `hopscope decode` prints them; see `craft_frames`."""
    return frame_batch(craft_frames(objects, dialect, port=port, collector=collector, renumber=renumber))


def frame_batch(frames: Iterable[Frame], first_packet: int = 0) -> FrameBatch:
    """Frames as one batch."""
    arena = bytearray()
    rows: list[tuple[int, ...]] = []
    for frame in frames:
        size = len(frame.raw)
        whole = max(size, frame.wire_length)
        rows.append((len(arena), frame.time_ns, 0, 0, size, whole, 0, frame.link, 0))
        arena += frame.raw
    return FrameBatch(np.frombuffer(bytes(arena), np.uint8), np.array(rows, FRAME), first_packet)


def craft_frames(
    objects: Iterable[dict[str, Any]],
    dialect: Dialect = DEFAULT,
    *,
    port: int | None = None,
    collector: str = COLLECTOR,
    renumber: bool = False,
) -> Iterator[Frame]:
    """Frames that decode to these objects in this dialect, one packet after the other.

    An object with `report`, or without `int`, is a Telemetry Report in a UDP datagram to `port` (default: the
    dialect's first) of `collector`; objects with the same `packet` share a datagram. An object with `int`
    and no `report` is the packet itself. An object with `frame`, such as that of a rejected packet, stands
    for these bytes. A packet that is missing between two numbers becomes a frame that is not a report,
    unless
    `renumber`. Missing keys have defaults. Raises CraftError, which names the object and the key.
    """
    work = _Work(dialect, dialect.ports[0] if port is None else port, number_of(collector), renumber)
    for packet, group in _packets(objects, renumber):
        with about(group[0]):
            yield from work.missing(packet)
        yield work.frame(group)


def _packets(objects: Iterable[dict[str, Any]], renumber: bool) -> Iterator[tuple[int, list[Keys]]]:
    """Objects grouped by packet, with the packet's number."""
    group: list[Keys] = []
    last = -1
    for number, value in enumerate(objects, 1):
        entry = _keys(value, number)
        with about(entry):
            packet, index = _place(entry, last, len(group))
            if group and packet == last:
                if index != len(group) and not renumber:
                    raise entry.wrong("index", f"{len(group)}, the packet's next, or --renumber")
                group.append(entry)
                continue
            if packet < last and not renumber:
                raise entry.wrong("packet", f"more than {last}: packets come in order, or --renumber")
            if index and not renumber:
                raise entry.wrong("index", "0, the packet's first report, or --renumber")
        if group:
            yield last, group
        group, last = [entry], packet
    if group:
        yield last, group


def _keys(value: object, number: int) -> Keys:
    try:
        return Keys(value, ordinal=number)
    except CraftError as error:
        error.number = number
        raise


def _place(keys: Keys, last: int, count: int) -> tuple[int, int]:
    """Number of an object's packet, and index of the object in it."""
    maximum = (1 << 63) - 1
    index = keys.number("index", 65535, -1)
    follows = count > 0 and index == count
    packet = keys.number("packet", maximum, last if follows else last + 1)
    if index < 0:
        index = count if packet == last else 0
    return packet, index


@dataclass(slots=True)
class _Work:
    """Settings of all packets, and the state on which the next packet depends."""

    dialect: Dialect
    port: int
    collector: int
    renumber: bool
    sequences: Sequences = field(default_factory=Sequences)
    next: int = 0
    time_ns: int = 0

    def missing(self, packet: int) -> Iterator[Frame]:
        """Frames for the packets before this one that have no object."""
        if not self.renumber:
            if packet - self.next > MAX_MISSING:
                raise CraftError("packet", f"{packet - self.next} are missing before it: --renumber")
            out = bytearray()
            craft_packet.push_nothing(out)
            for _ in range(packet - self.next):
                yield Frame(bytes(out), self.time_ns)
        self.next = packet + 1

    def frame(self, group: list[Keys]) -> Frame:
        """The frame of one packet."""
        first = group[0]
        given = False
        for entry in group:
            with about(entry):
                if entry.has("time_ns") and not given:
                    given = True
                    self.time_ns = entry.number("time_ns", (1 << 63) - 1, 0, -(1 << 63))
        if not given:
            self.time_ns = min(self.time_ns + GAP_NS, (1 << 63) - 1)
        for entry in group:
            with about(entry):
                if entry.has("frame"):
                    return self._as_it_was(entry)
                if entry.has("error"):
                    raise CraftError("frame", "missing: a rejected packet is crafted from its bytes only")
        out = bytearray()
        with about(first):
            if first.has("int") and not first.has("report"):
                if len(group) > 1:
                    raise CraftError("index", "only Reports 2.0 may share a packet")
                telemetry = craft_int.telemetry_of(first, 0, self.dialect)
                craft_packet.push_packet(out, first, telemetry, self.dialect)
            else:
                self._report(out, group)
        for entry in group:
            with about(entry):
                entry.close("an object")
        return Frame(bytes(out), self.time_ns)

    def _as_it_was(self, keys: Keys) -> Frame:
        link = keys.word("link", _LINKS, "ethernet")
        raw = keys.hexadecimal("frame")
        return Frame(raw, self.time_ns, _LINKS[link], keys.number("wire_length", 0xFFFFFFFF, len(raw)))

    def _report(self, out: bytearray, group: list[Keys]) -> None:
        source = group[0].address("source", SOURCE)
        for entry in group[1:]:
            if entry.address("source", SOURCE) != source and entry.has("source"):
                raise entry.wrong("source", "that of the packet's first report")
        payload = bytearray()
        craft_report.push_reports(payload, group, source, self.sequences, self.dialect)
        version = 4 if source >> 32 == self.collector >> 32 == _MAPPED_PREFIX else 6
        ip = Ip(version, source, self.collector, layout.PROTOCOL_UDP, dont_fragment=True)
        datagram = craft_tunnel.segment(ip, (SPORT, self.port), bytes(payload))
        out += craft_tunnel.frame(craft_tunnel.packet(ip, datagram))
