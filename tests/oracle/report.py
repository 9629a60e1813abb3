"""Telemetry Reports: reading and writing their headers."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.wire import layout, rules
from hopscope.wire.buffer import Buffer, push
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Flag, Kind
from hopscope.wire.telemetry.report import kind_of, main_form
from hopscope.wire.telemetry.report_metadata import ReportMetadata, push_report_metadata

from .report_metadata import pull_report_metadata

INNER_NONE = 0
INNER_TLV = 1
INNER_DOMAIN = 2
INNER_ETHERNET = 3
INNER_IPV4 = 4
INNER_IPV6 = 5
"""InType of Report 2.0; the older versions' next protocols are translated to it."""

_FLAGS = (
    ("dropped", Flag.DROPPED),
    ("congested", Flag.CONGESTED),
    ("tracked", Flag.TRACKED),
    ("intermediate", Flag.INTERMEDIATE),
)


@dataclass(slots=True)
class Report05:
    """A Report 0.5 up to the inner packet."""

    version: int = 0
    """As on the wire: 0, or 1 (the text states no number)."""
    next_protocol: int = 0
    """0 Ethernet, 1 drop header, 2 switch-local header; a dialect may know more."""
    flags: int = 0
    hw_id: int = 0
    sequence: int = 0
    ingress_time: int = 0


@dataclass(slots=True)
class Report10:
    """A Report 1.0 header without its optional metadata."""

    length: int = 4
    """Words, with optional metadata."""
    next_protocol: int = 0
    """0 Ethernet, 1 IPv4, 2 IPv6."""
    metadata_bits: int = 0
    flags: int = 0
    hw_id: int = 0
    node_id: int = 0
    sequence: int = 0
    ingress_time: int = 0


@dataclass(slots=True)
class Group20:
    """The group header of Report 2.0."""

    hw_id: int = 0
    sequence: int = 0
    node_id: int = 0


@dataclass(slots=True)
class Report20:
    """The first word of an individual Report 2.0, and where the report ends."""

    report_type: int = 1
    inner_type: int = INNER_ETHERNET
    report_length: int = 0
    metadata_length: int = 0
    flags: int = 0
    end: int = 0
    """Offset of the first byte behind the report."""


@dataclass(slots=True)
class Main20:
    """INT main contents of a Report 2.0 without the metadata."""

    metadata_bits: int = 0
    domain_id: int = 0
    ds_metadata_bits: int = 0
    ds_metadata_status: int = 0


@dataclass(frozen=True, slots=True)
class Form05:
    """What a next protocol of Report 0.5 stands for."""

    form: int
    """0 nothing, 1 drop header, 2 switch-local header, 3 a header that is skipped, 255 unknown."""
    size: int
    """Bytes of that header."""
    inner_type: int
    """InType of what follows it."""

    def kind(self, flags: int) -> Kind:
        """By the form; flags tell it where only a dialect knows the form."""
        return kind_of(flags) if self.form == 3 else (Kind.INT, Kind.DROP, Kind.QUEUE)[self.form]


def form_0_5(next_protocol: int, dialect: Dialect = DEFAULT) -> Form05:
    """The form that a next protocol of Report 0.5 stands for."""
    at = rules.FORM_0_5 + 3 * next_protocol
    return Form05(*dialect.table()[at : at + 3].tolist())


def _bits(flags: int) -> dict[str, int]:
    return {name: int(bool(flags & flag)) for name, flag in _FLAGS}


def push_report_0_5(out: bytearray, report: Report05) -> None:
    """Append the fixed header."""
    push(out, layout.REPORT_0_5, {
        "version": report.version, "next_protocol": report.next_protocol, **_bits(report.flags),
        "hw_id": report.hw_id,
        "sequence": report.sequence, "ingress_time": report.ingress_time,
    })  # fmt: skip


def inner_type_1_0(next_protocol: int, dialect: Dialect = DEFAULT) -> int:
    """InType that a next protocol of Report 1.0 stands for; 255 unknown."""
    return int(dialect.table()[rules.INNER_1_0 + next_protocol])


def push_report_1_0(out: bytearray, report: Report10) -> None:
    """Append the fixed header."""
    push(out, layout.REPORT_1_0, {
        "version": 1, "length": report.length, "next_protocol": report.next_protocol,
        "metadata_bits": report.metadata_bits,
        **{k: v for k, v in _bits(report.flags).items() if k != "intermediate"}, "hw_id": report.hw_id,
        "node_id": report.node_id, "sequence": report.sequence, "ingress_time": report.ingress_time,
    })  # fmt: skip


def push_group(out: bytearray, group: Group20) -> None:
    """Append the group header."""
    push(out, layout.GROUP_2_0, {
        "version": 2, "hw_id": group.hw_id, "sequence": group.sequence, "node_id": group.node_id,
    })  # fmt: skip


def push_report_2_0(out: bytearray, report: Report20) -> None:
    """Append the first word of an individual report."""
    push(out, layout.REPORT_2_0, {
        "report_type": report.report_type, "inner_type": report.inner_type,
        "report_length": report.report_length,
        "metadata_length": report.metadata_length, **_bits(report.flags),
    })  # fmt: skip


def push_main(out: bytearray, main: Main20, own: ReportMetadata) -> None:
    """Append INT main contents and the metadata that its bitmap names."""
    push(out, layout.MAIN_2_0, {
        "metadata_bits": main.metadata_bits, "domain_id": main.domain_id,
        "ds_metadata_bits": main.ds_metadata_bits,
        "ds_metadata_status": main.ds_metadata_status,
    })  # fmt: skip
    push_report_metadata(out, layout.OWN_2_0, main.metadata_bits, own)


def push_tlv(out: bytearray, type_: int, template: int, content: bytes) -> None:
    """Append one TLV; its content is padded to whole words."""
    words = -(-len(content) // 4)
    push(out, layout.TLV_2_0, {"type": type_, "length": words, "template": template})
    out += content.ljust(4 * words, b"\0")


def _flags(head: dict[str, int]) -> int:
    return sum(int(flag) for name, flag in _FLAGS if head.pop(name, 0))


def pull_report_0_5(buf: Buffer, dialect: Dialect = DEFAULT) -> Report05:
    """The fixed header. Raises WireError: truncated, or `unknown_type` for a reserved NProto."""
    start = buf.at
    head = buf.pull(layout.REPORT_0_5, Place.REPORT_HEADER)
    if form_0_5(head["next_protocol"], dialect).form == 255:
        raise WireError(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER, start, f"NProto {head['next_protocol']}")
    flags = _flags(head)
    return Report05(flags=flags, **head)


def pull_report_1_0(buf: Buffer, dialect: Dialect = DEFAULT) -> Report10:
    """The fixed header. Raises WireError: truncated, `unknown_type` (NProt), `bad_length`."""
    start, place, table = buf.at, Place.REPORT_HEADER, dialect.table()
    head = buf.pull(layout.REPORT_1_0, place)
    head.pop("version")
    if inner_type_1_0(head["next_protocol"], dialect) == 255:
        raise WireError(Reason.UNKNOWN_TYPE, place, start, f"NProt {head['next_protocol']}")
    words = layout.metadata_size(dialect.alternatives(layout.OWN_OF_1_0)[0], head["metadata_bits"] << 10) // 4
    if head["length"] != 4 + words and not table[rules.ANY_REPORT_LENGTH]:
        raise WireError(
            Reason.BAD_LENGTH,
            place,
            start,
            f"Length {head['length']} words, its metadata bits imply {4 + words}",
        )
    flags = _flags(head)
    return Report10(flags=flags, **head)


def pull_group(buf: Buffer) -> Group20:
    """The group header. Raises WireError where it is cut."""
    head = buf.pull(layout.GROUP_2_0, Place.REPORT_HEADER)
    return Group20(head["hw_id"], head["sequence"], head["node_id"])


def bare_report(dialect: Dialect, announced: int) -> Report20 | None:
    """The report that follows a group header without a header of its own, where the dialect has such."""
    inner_type = int(dialect.table()[rules.BARE_2_0])
    return Report20(inner_type=inner_type, end=announced) if inner_type else None


def pull_report_2_0(buf: Buffer, announced: int, dialect: Dialect = DEFAULT) -> Report20:
    """The first word of an individual report; `announced` is where the datagram's payload ends by its UDP
    length.

    Report Length 255 means "to the end of the datagram" (text of 2020-06), and so does 0 as bmv2 programs
    send it, unless there is nothing to hold.  A report that ends within the last word's padding is taken as
    whole. Raises WireError where the header, or the length that it announces, is cut.
    """
    start = buf.at
    head = buf.pull(layout.REPORT_2_0, Place.REPORT_HEADER)
    flags = _flags(head)
    report = Report20(flags=flags, **head)
    empty = report.report_type == 0 and report.inner_type == INNER_NONE
    unstated = report.report_length == 0xFF or (report.report_length == 0 and not empty)
    if unstated or dialect.table()[rules.ANY_REPORT_LENGTH]:
        report.end = announced
    else:
        report.end = buf.at + 4 * report.report_length
        if announced < report.end < announced + 4:
            report.end = announced
    check_end(report, buf, start)
    return report


def check_end(report: Report20, buf: Buffer, start: int) -> None:
    """Raise WireError where a report that begins at `start` ends behind the bytes that are there."""
    if report.end > buf.end:
        raise WireError(
            Reason.TRUNCATED, Place.REPORT_HEADER, start,
            f"the report takes {report.end - start} bytes, {buf.end - start} are left",
        )  # fmt: skip


def check_types(report: Report20, start: int, dialect: Dialect = DEFAULT) -> tuple[int, int]:
    """(form of the main contents, InType by the dialect).

    Raises WireError for types that are reserved, or that have no defined contents (IOAM).
    """
    form, _ = main_form(report.report_type, dialect)
    if form == 2:
        raise WireError(
            Reason.UNSUPPORTED, Place.REPORT_HEADER, start, "IOAM report: its contents are not defined"
        )
    if form == 255:
        raise WireError(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER, start, f"RepType {report.report_type}")
    inner_type = int(dialect.table()[rules.INNER_2_0 + report.inner_type])
    if inner_type == 255:
        raise WireError(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER, start, f"InType {report.inner_type}")
    return form, inner_type


def pull_main(
    buf: Buffer, report: Report20, node_id: int, items: tuple[layout.Item, ...] = layout.OWN_2_0
) -> tuple[Main20, ReportMetadata]:
    """INT main contents with their metadata; domain-specific metadata behind it is skipped.

    Raises WireError: truncated, or `bad_length` where MD Length is below what the bitmap implies, or above
    what Report Length leaves.
    """
    start, place = buf.at, Place.REPORT_METADATA
    main = Main20(**buf.pull(layout.MAIN_2_0, place))
    size = layout.metadata_size(items, main.metadata_bits)
    stated = 4 * report.metadata_length
    if report.report_length == 0 and stated == 0:
        stated = size  # bmv2 programs leave both lengths 0
    if stated < size:
        raise WireError(
            Reason.BAD_LENGTH,
            place,
            start,
            f"MD Length {stated} bytes, 0x{main.metadata_bits:04x} implies {size}",
        )
    end = buf.at + stated
    if end > buf.end:
        known = report.report_length not in (0, 0xFF)
        raise WireError(
            Reason.BAD_LENGTH if known else Reason.TRUNCATED, place, start,
            f"MD Length {stated} bytes, {buf.end - buf.at} are left",
        )  # fmt: skip
    own = pull_report_metadata(buf, items, main.metadata_bits, node_id)
    own.size = stated
    buf.at = end
    return main, own


def pull_tlvs(buf: Buffer) -> tuple[int, int, int] | None:
    """(InType, start, end) of the first packet among TLVs that fill the report; None where they hold no
    packet.

    Raises WireError where a TLV is cut.
    """
    found = None
    while buf.at < buf.end:
        start = buf.at
        tlv = buf.pull(layout.TLV_2_0, Place.REPORT_METADATA)
        size = 4 * tlv["length"]
        if buf.at + size > buf.end:
            raise WireError(
                Reason.TRUNCATED,
                Place.REPORT_METADATA,
                start,
                f"TLV of {size} bytes, {buf.end - buf.at} are left",
            )
        if found is None and 1 <= tlv["type"] <= 3:
            found = (INNER_ETHERNET + tlv["type"] - 1, buf.at, buf.at + size)
        buf.at += size
    return found
