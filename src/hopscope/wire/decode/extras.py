"""Values that packets and reports carry beyond the columns of HOP, by name: domain-specific metadata of INT
2.x (in hops, from the source alone, and in a report's own metadata), and the fields of IOAM that INT does not
have.

They are read on demand, from the frames, with the scalar codecs: the decoders only skip them. Sizes come from
the dialect (`Dialect.domains`); bytes that none of its domains explains are one raw value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .. import layout, rules
from ..buffer import Buffer
from ..dialect import Dialect
from ..errors import WireError
from ..reasons import Place
from ..records import Carried, Carrier, FrameBatch, Records, ReportBatch
from ..telemetry import hop_stack, ifa, int_header, ioam
from ..versions import IFA, IOAM

EXTRA = np.dtype(
    [
        ("value", "<u8"),  # big-endian number, where size is 8 or less
        ("report", "<u4"),  # row in the report block
        ("hop", "<u4"),  # row in the hop block; NO_HOP: a value of the packet, OF_REPORT: of the report
        ("at", "<u4"),  # byte offset in the frame
        ("size", "<u2"),  # bytes
        ("name", "<u2"),  # index in the names
    ]
)
"""One value, 24 bytes."""
NO_HOP, OF_REPORT = 0xFFFFFFFF, 0xFFFFFFFE
RAW, RAW_SOURCE = "ds", "ds_source"
"""Names of bytes that no domain of the dialect explains: in a hop or a report, and from the source alone."""
UNNAMED = ("padding", "reserved")
"""Names in a domain for bytes that are not values."""
_Found = tuple[int, str, int, int]
"""(hop row, name, byte offset in the frame, bytes)."""
Fields = tuple[tuple[int, str, int], ...]
"""(bit, name, bytes), as in `dialect.Domain`."""


@dataclass(slots=True)
class Extras:
    """The values of a batch, in the order of its reports."""

    records: Records
    """EXTRA [values]."""
    names: tuple[str, ...]
    frames: FrameBatch
    packets: Records
    """Row in the frame batch, by report."""
    _by_hop: dict[int, list[int]] = field(default_factory=dict)
    _by_packet: dict[int, list[int]] = field(default_factory=dict)
    _by_report: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, record in enumerate(self.records):
            if record["hop"] == NO_HOP:
                self._by_packet.setdefault(int(record["report"]), []).append(at)
            elif record["hop"] == OF_REPORT:
                self._by_report.setdefault(int(record["report"]), []).append(at)
            else:
                self._by_hop.setdefault(int(record["hop"]), []).append(at)

    def of_hop(self, hop: int) -> dict[str, int | str | None]:
        """{name: value} of a row of the hop block. A value is a number, None if all bits are set, or
        hexadecimal digits if it is longer than 8 bytes or has no known meaning.
        """
        return dict(map(self._value, self._by_hop.get(hop, ())))

    def of_packet(self, report: int) -> dict[str, int | str | None]:
        """The same for values that the packet of a report carries outside of hops."""
        return dict(map(self._value, self._by_packet.get(report, ())))

    def of_report(self, report: int) -> dict[str, int | str | None]:
        """The same for a report's own metadata, if it has no row in the hop block."""
        return dict(map(self._value, self._by_report.get(report, ())))

    def _value(self, at: int) -> tuple[str, int | str | None]:
        record = self.records[at]
        name, size, value = self.names[int(record["name"])], int(record["size"]), int(record["value"])
        if size > 8 or name in (RAW, RAW_SOURCE, ioam.SNAPSHOT):
            frame = self.frames.frames[int(self.packets[int(record["report"])])]
            start = int(frame["offset"]) + int(record["at"])
            return name, self.frames.arena[start : start + size].tobytes().hex()
        return name, None if value == (1 << 8 * size) - 1 else value


def extras(batch: ReportBatch, frames: FrameBatch, dialect: Dialect, only: int | None = None) -> Extras:
    """The values of all reports of `batch`, or of one row; it was decoded from `frames` with `dialect`."""
    rows = batch.reports
    if only is None:
        wanted = rows["reason"] == 0
        wanted &= (rows["own_at"] > 0) | (rows["int_at"] > 0) & np.isin(rows["int_version"], list(_READERS))
        chosen = np.flatnonzero(wanted).tolist()
    else:
        chosen = [] if rows[only]["reason"] else [only]
    names: dict[str, int] = {}
    records: list[tuple[int, ...]] = []
    for report in chosen:
        row = rows[report]
        frame = frames.frames[int(row["packet"])]
        start = int(frame["offset"])
        raw = frames.arena[start : start + int(frame["length"])].tobytes()
        for hop, name, at, size in _of_row(raw, row, dialect):
            value = int.from_bytes(raw[at : at + size], "big") if size <= 8 else 0
            records.append((value, report, hop, at, size, names.setdefault(name, len(names))))
    return Extras(np.array(records, EXTRA), tuple(names), frames, rows["packet"])


def _of_row(raw: bytes, row: np.void, dialect: Dialect) -> Iterator[_Found]:
    try:
        read = _READERS.get(int(row["int_version"]))
        if row["int_at"] and read is not None:
            yield from read(raw, row, dialect)
        if row["own_at"] and row["version"] == 20:
            yield from _of_report_2_0(raw, row, dialect)
    except WireError:  # the batch was decoded with another dialect or from other frames
        return


def _of_int_2_0(raw: bytes, row: np.void, dialect: Dialect) -> Iterator[_Found]:
    """Domain-specific metadata of a stack: after the baseline of each hop, then the part that only the source
    adds, before the checksum complement.
    """
    if not (row["ds_instruction"] or row["ds_flags"]):
        return
    buf = Buffer(raw, int(row["int_at"]) - 4)
    shim = int_header.pull_shim(buf, Carrier(int(row["carrier"])), dialect)
    md = int_header.pull_md(buf, shim, dialect, int(row["version"]))
    if shim.length == 0:  # the stack reaches to the packet's end, which only its decoder knew
        buf.limit = min(buf.limit, buf.at + 4 * int(row["hop_count"]) * md.hop_words)
    items, bitmap = int_header.form_of(md, dialect)
    count, sizes = hop_stack.records_of(buf, shim, md, dialect)
    buf.need(sum(sizes), Place.INT_STACK, "INT stack")
    if count != row["hop_count"]:  # decoded with another dialect
        return
    mx = shim.type == int_header.MODE_MX
    fields, source_only = domain_of(dialect, md.domain_id)
    at = buf.at
    for i, size in enumerate(sizes):
        inside, hop = i < count, int(row["first_hop"]) + count - 1 - i
        known = layout.metadata_size(items, bitmap) if inside else 0
        last = 4 if inside and any(
            bitmap >> (15 - bit) & 1 and item.have == layout.CHECKSUM.have for bit, item in enumerate(items)
        ) else 0  # fmt: skip
        begin, end = at + known - last, at + size - last
        own_end = begin + max(4 * md.hop_words - known, 0) if inside and not mx else begin
        place = hop if inside else NO_HOP
        yield from _named(place, begin, own_end, fields, md.ds_instruction, RAW)
        yield from _named(place, own_end, end, source_only, md.ds_flags, RAW_SOURCE)
        at += size


def _of_report_2_0(raw: bytes, row: np.void, dialect: Dialect) -> Iterator[_Found]:
    """Metadata beyond the baseline that MD Length of a Report 2.0 counts (Telemetry Report 2.0, 3.5)."""
    at = int(row["own_at"])
    buf = Buffer(raw, at - layout.MAIN_2_0.size - layout.REPORT_2_0.size)
    table = dialect.table()
    head = buf.pull(layout.REPORT_2_0, Place.REPORT_HEADER)
    main = buf.pull(layout.MAIN_2_0, Place.REPORT_METADATA)
    if (
        table[rules.MAIN_2_0 + 2 * head["report_type"]] != 1
        or table[rules.MAIN_2_0 + raw[at - 4] // 16 * 2] == 3
    ):
        return  # main contents of a dialect's own form
    items = dialect.alternatives(layout.OWN_OF_2_0)[0]
    begin = at + layout.metadata_size(items, main["metadata_bits"])
    end = at + 4 * head["metadata_length"]
    if end > len(raw):
        return
    hop = int(row["first_hop"]) + int(row["hop_count"]) if row["carried"] & Carried.OWN_HOP else OF_REPORT
    fields, _ = domain_of(dialect, main["domain_id"])
    yield from _named(hop, begin, end, fields, main["ds_metadata_bits"], RAW)


def domain_of(dialect: Dialect, domain_id: int) -> tuple[Fields, Fields]:
    """Fields by bit, in hops and from the source alone; empty for an unknown domain."""
    for one in dialect.domains:
        if one.domain_id == domain_id:
            return one.fields, one.source_only
    return (), ()


def _named(hop: int, begin: int, end: int, known: Fields, bits: int, raw_name: str) -> Iterator[_Found]:
    """The fields that `bits` names, if they exactly fill the bytes from `begin` to `end`; else these bytes
    raw.
    """
    if end <= begin:
        return
    fields = [(name, size) for bit, name, size in known if bits >> (15 - bit) & 1]
    if sum(size for _, size in fields) != end - begin:
        yield hop, raw_name, begin, end - begin
        return
    for name, size in fields:
        if name not in UNNAMED:
            yield hop, name, begin, size
        begin += size


def _of_ioam(raw: bytes, row: np.void, dialect: Dialect) -> Iterator[_Found]:
    """Values that nodes of a trace wrote beyond the columns, and those of direct export about the packet."""
    for hop, name, at, size in ioam.extras_of(raw, int(row["int_at"])):
        yield NO_HOP if hop is None else int(row["first_hop"]) + hop, name, at, size


def _of_ifa(raw: bytes, row: np.void, dialect: Dialect) -> Iterator[_Found]:
    """What nodes wrote beyond the columns."""
    for hop, name, at, size in ifa.extras_of(int(row["hop_count"]), int(row["int_at"])):
        yield int(row["first_hop"]) + hop, name, at, size


_READERS: dict[int, Callable[[bytes, np.void, Dialect], Iterator[_Found]]] = {
    20: _of_int_2_0,
    IOAM: _of_ioam,
    IFA: _of_ifa,
}
"""Readers by INT version."""
