"""The bytes of a report, field by field, from the declarations that the decoders use.

`explained` walks from the report's header into its packet, to the end of its telemetry. It never fails: if
bytes contradict the header before them, the rest is one field, with the reason. Every byte is in a field
that has no fields itself; two fields share a byte only if they are parts of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .. import layout, rules
from ..address import address
from ..buffer import Buffer
from ..dialect import Dialect
from ..errors import WireError
from ..fields import Field, Header
from ..headers import ethernet, tunnel
from ..headers.datagram import find_datagram
from ..layout import Item
from ..reasons import Place
from ..records import MAX_HOPS, Carrier, Link, Mode
from ..rules import Next
from ..telemetry import hop_stack, ifa, int_header, ioam
from ..versions import IFA, IOAM

_HEX = frozenset(
    (
        *("instructions", "metadata_bits", "domain_id", "ds_instruction", "ds_flags", "ds_metadata_bits"),
        *("ds_metadata_status", "original", "type", "trace_type", "checksum", "checksum_complement"),
    )
)
_MAC, _IPV4, _IPV6 = 48, 32, 128
_REPORT = Place.REPORT_HEADER


@dataclass(slots=True)
class ByteField:
    """A field, or a header with its fields."""

    name: str
    offset: int
    """Offset in the frame, bytes."""
    length: int
    """Bytes that it touches."""
    text: str = ""
    """Its value for people, or the reason for which reading stopped here."""
    value: int | None = None
    first_bit: int = 0
    """Its first bit, counted from the most significant bit of the first byte."""
    bits: int = 0
    """Number of bits; 0: whole bytes."""
    about: str = ""
    """Its meaning and unit, or the section that defines a header."""
    fields: list[ByteField] = field(default_factory=list)


class _Notes(Buffer):
    """A buffer that records headers as they are read."""

    __slots__ = ("notes",)

    def __init__(self, raw: bytes, at: int, end: int, notes: list[ByteField]) -> None:
        super().__init__(raw, at, end)
        self.notes = notes

    def pull(self, header: Header, place: Place) -> dict[str, int]:
        """Read and record the fields of `header`."""
        start = self.at
        values = super().pull(header, place)
        self.notes.append(_header(header, self.raw, start))
        return values


def explained(raw: bytes, link: int, row: Any, dialect: Dialect) -> list[ByteField]:
    """Fields of a frame; `row` is the REPORT that was decoded from it with this dialect."""
    notes: list[ByteField] = []
    buf = _Notes(raw, 0, len(raw), notes)
    try:
        _walk(buf, link, row, dialect)
    except WireError as error:
        notes.append(ByteField("damaged", buf.at, 0, f"{error.reason.label}: {error.detail}"))
    return _whole(notes, 0, len(raw))


def _walk(buf: _Notes, link: int, row: Any, dialect: Dialect) -> None:
    table = dialect.table()
    datagram = None
    if link == Link.UDP_PAYLOAD:
        following = _report(buf, row, dialect)
    else:
        following = tunnel.by_ethertype(ethernet.pull_link(buf, link)[0])
        datagram = find_datagram(buf.raw, link, dialect) if row["version"] else None
    if datagram is not None and datagram.error is None:
        _packet(buf, following, datagram.start, table)
        _raw(buf, datagram.start - buf.at, "bytes before the report")
        buf.limit = min(buf.end, datagram.announced)
        following = _report(buf, row, dialect)
    before = 0 if row["int_version"] == IFA else 4  # bytes of the shim, or of the option's header
    shim_at = int(row["int_at"]) - before if row["int_at"] else buf.end
    _packet(buf, following, shim_at, table)
    if row["int_version"] == IOAM:  # within the IPv6 header that was read last
        _ioam(_Notes(buf.raw, shim_at, buf.end, buf.notes), row)
    elif buf.at <= shim_at and row["int_at"]:
        buf.limit = buf.end  # a packet inside may state less than its telemetry takes
        _raw(buf, shim_at - buf.at, "bytes before the telemetry")
        _telemetry(buf, row, dialect)


# ---------------------------------------------------------------------------------------------------- reports


def _report(buf: _Notes, row: Any, dialect: Dialect) -> Next:
    """Read the headers of a report; returns what follows them."""
    table, version = dialect.table(), int(row["version"])
    if version == 5:
        head = buf.pull(layout.REPORT_0_5, _REPORT)
        form, size, following = table[(at := rules.FORM_0_5 + 3 * head["next_protocol"]) : at + 3].tolist()
        if form in (1, 2):
            buf.pull(layout.DROP_0_5 if form == 1 else layout.SWITCH_LOCAL_0_5, Place.REPORT_METADATA)
        elif form == 3:
            _raw(buf, size, "header of this dialect")
        return _next(following)
    if version == 10:
        head = buf.pull(layout.REPORT_1_0, _REPORT)
        _own(buf, dialect.alternatives(layout.OWN_OF_1_0)[0], head["metadata_bits"] << 10, None)
        return _next(int(table[rules.INNER_1_0 + head["next_protocol"]]))
    if version != 20:
        return Next.NOTHING  # sFlow, IPFIX: their bytes are not declared field by field
    buf.pull(layout.GROUP_2_0, _REPORT)
    bare = int(table[rules.BARE_2_0])
    if bare:
        return _next(bare)
    for _ in range(int(row["index"])):
        head = buf.peek(layout.REPORT_2_0, _REPORT)
        _raw(buf, layout.REPORT_2_0.size + 4 * head["report_length"], "another report of the datagram")
    start = buf.at
    head = buf.pull(layout.REPORT_2_0, _REPORT)
    if head["report_length"] not in (0, 255):
        buf.limit = min(buf.limit, start + layout.REPORT_2_0.size + 4 * head["report_length"])
    form, size = table[(at := rules.MAIN_2_0 + 2 * head["report_type"]) : at + 2].tolist()
    if form == 1:
        main = buf.pull(layout.MAIN_2_0, Place.REPORT_METADATA)
        stated = 4 * head["metadata_length"] or None
        _own(buf, dialect.alternatives(layout.OWN_OF_2_0)[0], main["metadata_bits"], stated)
    elif form == 3:
        _raw(buf, size, "main contents of this dialect")
    following = int(table[rules.INNER_2_0 + head["inner_type"]])
    while following == 1 and buf.left:
        tlv = buf.pull(layout.TLV_2_0, Place.REPORT_METADATA)
        if 1 <= tlv["type"] <= 3:
            return (Next.ETHERNET, Next.IPV4, Next.IPV6)[tlv["type"] - 1]
        _raw(buf, 4 * tlv["length"], "TLV")
    return _next(following)


def _next(inner_type: int) -> Next:
    return Next(inner_type) if inner_type in (Next.ETHERNET, Next.IPV4, Next.IPV6) else Next.NOTHING


def _own(buf: _Notes, items: tuple[Item, ...], bitmap: int, stated: int | None) -> None:
    size = layout.metadata_size(items, bitmap)
    whole = max(size, stated or 0)
    if whole:
        buf.need(whole, Place.REPORT_METADATA, "report metadata")
        buf.notes.append(_metadata(buf.raw, buf.at, whole, items, bitmap, "metadata of the report"))
        buf.at += whole


# ---------------------------------------------------------------------------------------------------- packets


def _packet(buf: _Notes, following: Next, end: int, table: Any) -> None:
    """Read a packet's headers up to `end`, or up to a header that is not declared here."""
    for _ in range(4 * layout.MAX_LAYERS):
        if buf.at >= end:
            break
        if following == Next.ETHERNET:
            following = tunnel.by_ethertype(ethernet.pull_ethernet(buf, Place.INNER_ETHERNET).type)
        elif following in (Next.IPV4, Next.IPV6):
            ip_version = 4 if following == Next.IPV4 else 6
            start, ip = buf.at, ethernet.pull_ip(buf, ip_version, Place.INNER_IP, any_length=True)
            header = layout.IPV4 if ip_version == 4 else layout.IPV6
            buf.notes.append(_header(header, buf.raw, start))
            protocol = ip.protocol
            if protocol and protocol == table[rules.IFA_PROTOCOL] and not ip.fragment_offset:
                protocol = _ifa(buf)
            following = _transport(buf, protocol, ip.fragment_offset, table)
            if ip.length:
                buf.limit = min(buf.limit, max(start + ip.length, buf.at))
        elif following == Next.MPLS:
            following, _ = tunnel.pull_mpls(buf, table)
        elif following == Next.GRE:
            head = buf.pull(layout.GRE, Place.TUNNEL)
            size = 4 * (head["checksum_present"] + head["key_present"] + head["sequence_present"])
            _raw(buf, size, "checksum, key, sequence number")
            following = tunnel.by_ethertype(head["type"])
        elif following in (Next.VXLAN, Next.VXLAN_GPE):
            buf.pull(layout.VXLAN if following == Next.VXLAN else layout.VXLAN_GPE, Place.TUNNEL)
            following = Next.ETHERNET
        elif following == Next.GTP_U:
            buf.pull(layout.GTP_U, Place.TUNNEL)
            following = Next.NOTHING
        else:
            break


def _ifa(buf: _Notes) -> int:
    """The IFA header, if it is one; the protocol of what follows."""
    if buf.left < layout.IFA.size or not ifa.is_ifa(buf.peek(layout.IFA, Place.IFA)):
        return 0
    return buf.pull(layout.IFA, Place.IFA)["next_header"]


def _transport(buf: _Notes, protocol: int, fragment: int, table: Any) -> Next:
    """Read UDP or TCP, or whatever else an IP header announces."""
    if fragment:
        return Next.NOTHING
    if protocol == layout.PROTOCOL_UDP:
        return tunnel.by_port(buf.pull(layout.UDP, Place.INNER_L4)["dport"], table)
    if protocol == layout.PROTOCOL_TCP:
        head = buf.pull(layout.TCP, Place.INNER_L4)
        _raw(buf, max(4 * head["header_words"] - layout.TCP.size, 0), "TCP options")
        return Next.NOTHING
    return tunnel.by_protocol(protocol)


# -------------------------------------------------------------------------------------------------- telemetry


def _ioam(buf: _Notes, row: Any) -> None:
    buf.pull(layout.IOAM_OPTION, Place.IOAM_OPTION)
    if row["int_mode"] == Mode.IOAM_DEX:
        ioam.pull_dex(buf)
    else:
        buf.pull(layout.IOAM_TRACE, Place.IOAM_OPTION)


def _telemetry(buf: _Notes, row: Any, dialect: Dialect) -> None:
    if row["int_version"] == IFA:
        _, hops = ifa.pull_metadata(buf)
        for number, note in enumerate(buf.notes[len(buf.notes) - len(hops) :]):
            note.name = f"hop {len(hops) - 1 - number} of the path"
        return
    shim = int_header.pull_shim(buf, Carrier(int(row["carrier"])), dialect)
    md = int_header.pull_md(buf, shim, dialect, int(row["version"]))
    if md.version == 20 and shim.type == int_header.MODE_MX:
        buf.notes[-1] = _header(layout.MX_2_1, buf.raw, buf.notes[-1].offset)
    if shim.length == 0:
        buf.limit = min(buf.limit, buf.at + 4 * int(row["hop_count"]) * md.hop_words)
    items, bitmap = int_header.form_of(md, dialect)
    count, sizes = hop_stack.records_of(buf, shim, md, dialect)
    buf.need(sum(sizes), Place.INT_STACK, "INT stack")
    for number, size in enumerate(sizes[:MAX_HOPS]):
        name = f"hop {count - 1 - number} of the path" if number < count else "of no hop"
        buf.notes.append(_metadata(buf.raw, buf.at, size, items, bitmap if number < count else 0, name))
        buf.at += size
    if int_header.has_tail(shim, md.version) and not shim.numbered:
        buf.pull(layout.TAIL_0_5, Place.INT_TAIL)


# ----------------------------------------------------------------------------------------------------- fields


def _header(header: Header, raw: bytes, at: int) -> ByteField:
    number = int.from_bytes(raw[at : at + header.size], "big")
    fields = [
        _field(each, at, number >> (8 * header.size - each.at - each.bits) & ((1 << each.bits) - 1))
        for each in header.fields
    ]
    return ByteField(header.name, at, header.size, about=header.spec, fields=fields)


def _field(of: Field, at: int, value: int) -> ByteField:
    first, last = of.at // 8, (of.at + of.bits - 1) // 8
    partial = of.at % 8 or of.bits % 8
    about = "; ".join(part for part in (of.unit and f"in {of.unit}", of.doc) if part)
    return ByteField(
        of.name.replace("_", " "),
        at + first,
        last - first + 1,
        _text(of, value),
        value,
        of.at % 8,
        of.bits if partial else 0,
        about,
    )


def _text(of: Field, value: int) -> str:
    if of.name in ("source", "destination"):
        if of.bits == _MAC:
            return ":".join(f"{value >> shift & 255:02x}" for shift in range(40, -8, -8))
        if of.bits == _IPV4:
            return address(0, 0xFFFF << 32 | value)
        if of.bits == _IPV6:
            return address(value >> 64, value & (1 << 64) - 1)
    if of.name in _HEX and of.bits > 8:
        return f"0x{value:0{of.bits // 4}x}"
    meaning = of.meanings().get(value)
    return f"{value} ({meaning})" if meaning else str(value)


def _metadata(raw: bytes, at: int, size: int, items: tuple[Item, ...], bitmap: int, name: str) -> ByteField:
    """Metadata of a hop or a report: the items that a bitmap names, the checksum complement last."""
    fields: list[ByteField] = []
    place, end = at, at + size
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        start = place
        if item.have == layout.CHECKSUM.have:
            start = end - item.size
        else:
            place += item.size
        made = _header(item.fields, raw, start).fields
        if item.have and raw[start : start + item.size] == b"\xff" * item.size:
            for each in made:
                each.text = "unavailable"
        fields += made
    return ByteField(name, at, size, fields=_whole(fields, at, end, "domain-specific"))


def _raw(buf: _Notes, size: int, name: str) -> None:
    if size > 0:
        start = buf.skip(size, Place.REPORT_METADATA, name)
        buf.notes.append(ByteField(name, start, size, buf.raw[start : start + size].hex(" ")))


def _whole(fields: Iterable[ByteField], begin: int, end: int, rest: str = "data") -> list[ByteField]:
    """Fields in order, and the bytes between and after them."""
    found: list[ByteField] = []
    at = begin
    for each in sorted(fields, key=lambda one: (one.offset, one.first_bit)):
        if each.offset > at:
            found.append(ByteField(rest, at, each.offset - at))
        found.append(each)
        at = max(at, each.offset + each.length)
    if at < end:
        found.append(ByteField(rest, at, end - at))
    return found


def leaves(fields: Iterable[ByteField]) -> Iterable[ByteField]:
    """Fields that have no fields of their own."""
    for each in fields:
        if each.fields:
            yield from leaves(each.fields)
        else:
            yield each
