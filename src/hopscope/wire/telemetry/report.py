"""Telemetry Reports 0.5, 1.0 and 2.0: their headers."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout, rules
from ..buffer import push
from ..dialect import DEFAULT, Dialect
from ..records import Flag, Kind
from .report_metadata import Own, push_own

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


def kind_of(flags: int) -> Kind:
    """Kind of a Report 1.0 or 2.0: a drop, else a congested queue, else INT."""
    if flags & Flag.DROPPED:
        return Kind.DROP
    return Kind.QUEUE if flags & Flag.CONGESTED and not flags & Flag.TRACKED else Kind.INT


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


def main_form(report_type: int, dialect: Dialect = DEFAULT) -> tuple[int, int]:
    """(form of a Report 2.0's main contents: 0 none, 1 INT, 2 not defined, 3 skipped, 255 unknown; bytes that
    are skipped).
    """
    at = rules.MAIN_2_0 + 2 * report_type
    form, size = dialect.table()[at : at + 2].tolist()
    return form, size


def push_main(out: bytearray, main: Main20, own: Own) -> None:
    """Append INT main contents and the metadata that its bitmap names."""
    push(out, layout.MAIN_2_0, {
        "metadata_bits": main.metadata_bits, "domain_id": main.domain_id,
        "ds_metadata_bits": main.ds_metadata_bits,
        "ds_metadata_status": main.ds_metadata_status,
    })  # fmt: skip
    push_own(out, layout.OWN_2_0, main.metadata_bits, own)


def push_tlv(out: bytearray, type_: int, template: int, content: bytes) -> None:
    """Append one TLV; its content is padded to whole words."""
    words = -(-len(content) // 4)
    push(out, layout.TLV_2_0, {"type": type_, "length": words, "template": template})
    out += content.ljust(4 * words, b"\0")
