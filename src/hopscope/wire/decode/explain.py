"""Why a report was rejected, in words: its row has only numbers (reason, header, byte offset).

`explain` reads the header at that offset again, through `layout`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from .. import layout, rules
from ..buffer import Buffer
from ..dialect import Dialect
from ..errors import WireError
from ..fields import Header
from ..reasons import Place, Reason
from ..records import MAX_EMPTY_REPORTS, MAX_HOPS, Carried, Carrier
from ..telemetry import hop_stack, ifa, int_header, ioam
from ..versions import FIRST_SAMPLE, SFLOW

Row = Mapping[str, int]
"""A row of REPORT by field name."""


def explain(row: Row, raw: bytes, dialect: Dialect) -> str:
    """Description of the error in a rejected report of the frame `raw`, such as ``shim length 2, at least 3
    words are needed``.
    """
    reason, place, at = Reason(row["reason"]), Place(row["place"]), row["reason_at"]
    texts = _TEXTS.get(place, _any)(row, raw, at, dialect)
    return next((text for why, text in texts if why == reason and text), _usual(reason, place))


_IP_VERSIONS = {layout.ETHERTYPE_IPV4: "4", layout.ETHERTYPE_IPV6: "6"}
_Texts = Iterator[tuple[Reason, str]]
_TRUNCATED, _BAD_LENGTH = Reason.TRUNCATED, Reason.BAD_LENGTH


def _usual(reason: Reason, place: Place) -> str:
    if reason == _TRUNCATED:
        return f"the bytes end within this header ({place.label})"
    if reason == _BAD_LENGTH:
        return f"this header ({place.label}) and the lengths around it contradict each other"
    return f"{reason.label} ({place.label})"


def _short(name: str, size: int, raw: bytes, at: int) -> _Texts:
    """`size` bytes cannot be read at `at`, since the frame or the enclosing packet ends."""
    left = max(len(raw) - at, 0)
    if left < size:
        yield _TRUNCATED, f"{name} needs {size} bytes, {left} are left"
        yield _BAD_LENGTH, f"{name} needs {size} bytes, {left} are left"
        return
    yield _TRUNCATED, f"{name} needs {size} bytes, the report ends before"
    yield _BAD_LENGTH, f"{name} needs {size} bytes, the IP length leaves less"


def _has(header: Header, raw: bytes, at: int) -> dict[str, int] | None:
    """The fields of a header at `at`; None if it is truncated."""
    return Buffer(raw, at).peek(header, Place.NONE) if at + header.size <= len(raw) else None


def _any(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield Reason.TOO_MANY_LAYERS, f"more than {layout.MAX_LAYERS} IP headers"
    yield _TRUNCATED, f"the {max(len(raw) - at, 0)} bytes that are left do not hold the header"


# ---------------------------------------------------------------------------------------------------- reports


def _outer_ip(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield Reason.FRAGMENT, "first fragment of a datagram"


def _outer_udp(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield from _short_unless("UDP", layout.UDP.size, raw, at)
    udp = _has(layout.UDP, raw, at)
    if udp and udp["length"] < layout.UDP.size:
        yield _BAD_LENGTH, f"UDP length {udp['length']}, at least {layout.UDP.size} are needed"
    elif udp:
        yield _BAD_LENGTH, f"UDP length {udp['length']}, the IP length leaves less"


def _short_unless(name: str, size: int, raw: bytes, at: int) -> _Texts:
    """`_short`, if the frame itself is too short."""
    if len(raw) - at < size:
        yield from _short(name, size, raw, at)


def _report_header(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    table = dialect.table()
    version = row["version"]
    if version >= FIRST_SAMPLE:
        yield from _sample_header(version, raw, at)
        return
    if at >= len(raw):
        yield from _short("report", 1, raw, at)
        return
    if version == 0:
        yield Reason.UNKNOWN_VERSION, f"report begins with 0x{raw[at]:02x}"
    elif version == 5:
        yield from _short_unless(layout.REPORT_0_5.name, layout.REPORT_0_5.size, raw, at)
        yield Reason.UNKNOWN_TYPE, f"NProto {raw[at] & 15}"
    elif version == 10:
        yield from _short_unless(layout.REPORT_1_0.name, layout.REPORT_1_0.size, raw, at)
        if head := _has(layout.REPORT_1_0, raw, at):
            yield Reason.UNKNOWN_TYPE, f"NProt {head['next_protocol']}"
            items = dialect.alternatives(layout.OWN_OF_1_0)[0]
            words = 4 + layout.metadata_size(items, head["metadata_bits"] << 10) // 4
            yield _BAD_LENGTH, f"Length {head['length']} words, its metadata bits imply {words}"
    elif not row["carried"] & Carried.NODE_ID:
        yield from _short(layout.GROUP_2_0.name, layout.GROUP_2_0.size, raw, at)
    else:
        yield from _short_unless(layout.REPORT_2_0.name, layout.REPORT_2_0.size, raw, at)
        if head := _has(layout.REPORT_2_0, raw, at):
            size = layout.REPORT_2_0.size + 4 * head["report_length"]
            if at + size > len(raw) and head["report_length"] != 255:
                yield _TRUNCATED, f"the report takes {size} bytes, {len(raw) - at} are left"
            yield _TRUNCATED, f"the report ends after the datagram, {len(raw) - at} bytes are left"
            yield Reason.UNSUPPORTED, "IOAM report: its contents are not defined"
            yield (
                Reason.EMPTY_REPORTS,
                f"more than {MAX_EMPTY_REPORTS} reports of the datagram hold neither a packet nor metadata",
            )
            form = table[rules.MAIN_2_0 + 2 * head["report_type"]]
            kind = f"RepType {head['report_type']}" if form == 255 else f"InType {head['inner_type']}"
            yield Reason.UNKNOWN_TYPE, kind


def _sample_header(version: int, raw: bytes, at: int) -> _Texts:
    def number(start: int, size: int) -> int:
        return int.from_bytes(raw[start : start + size], "big")

    yield _TRUNCATED, f"the {max(len(raw) - at, 0)} bytes that are left do not hold the datagram's header"
    yield Reason.UNKNOWN_TYPE, f"address of type {number(at - 4, 4)}, expected 0, 1 or 2"
    yield _BAD_LENGTH, f"message of {number(at + 2, 2)} bytes, which is less than its header"
    if version == SFLOW:
        yield Reason.UNKNOWN_VERSION, f"sFlow version {number(at, 4)}, expected 5"
    else:
        yield Reason.UNKNOWN_VERSION, f"NetFlow version {number(at, 2)}, expected 9 or 10 (IPFIX)"


def _sflow(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield _TRUNCATED, "the sample or record ends after the bytes that hold it"
    yield _BAD_LENGTH, "the sample or record is shorter than its format"


def _ipfix(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield _TRUNCATED, "the set, or a record in it, ends after the bytes that hold it"
    yield _BAD_LENGTH, "the set is shorter than its header"
    yield Reason.UNKNOWN_TYPE, f"set {int.from_bytes(raw[at : at + 2], 'big')}, which is reserved"


def _report_metadata(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    table, left = dialect.table(), max(len(raw) - at, 0)
    if row["version"] == 5:
        rule = rules.FORM_0_5 + 3 * (raw[at - layout.REPORT_0_5.size] & 15)
        yield from _short("the form's header", int(table[rule + 1]), raw, at)
    elif row["version"] == 10:
        bits = _has(layout.REPORT_1_0, raw, at - layout.REPORT_1_0.size)
        items = dialect.alternatives(layout.OWN_OF_1_0)[0]
        size = layout.metadata_size(items, bits["metadata_bits"] << 10) if bits else 0
        yield from _short("optional metadata", size, raw, at)
    else:
        head = _has(layout.REPORT_2_0, raw, at - layout.REPORT_2_0.size)
        form, size = table[
            (first := rules.MAIN_2_0 + 2 * (head["report_type"] if head else 0)) : first + 2
        ].tolist()
        main = _has(layout.MAIN_2_0, raw, at)
        if head and form == 1:
            yield from _short_unless(layout.MAIN_2_0.name, layout.MAIN_2_0.size, raw, at)
            if main:
                needed = layout.metadata_size(
                    dialect.alternatives(layout.OWN_OF_2_0)[0], main["metadata_bits"]
                )
                stated = 4 * head["metadata_length"]
                if 0 < stated < needed or (stated < needed and head["report_length"]):
                    yield (
                        _BAD_LENGTH,
                        f"MD Length {stated} bytes, 0x{main['metadata_bits']:04x} implies {needed}",
                    )
                less = (
                    f"MD Length {max(stated, needed)} bytes, {max(left - layout.MAIN_2_0.size, 0)} are left"
                )
                yield _TRUNCATED, less
                yield _BAD_LENGTH, f"MD Length {stated} bytes, Report Length leaves less"
        elif head and form == 3:
            yield from _short("main contents", size, raw, at)
        if tlv := _has(layout.TLV_2_0, raw, at):
            yield _TRUNCATED, f"TLV of {4 * tlv['length']} bytes, {left - layout.TLV_2_0.size} are left"
        yield from _short(layout.TLV_2_0.name, layout.TLV_2_0.size, raw, at)


# ----------------------------------------------------------------------------------------------- inner packet


def _inner_ethernet(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    tag = int.from_bytes(raw[max(at - 2, 0) : at], "big") in layout.ETHERTYPES_VLAN
    header = layout.VLAN if tag and len(raw) - at < layout.VLAN.size else layout.ETHERNET
    yield from _short(header.name, header.size, raw, at)


def _inner_ip(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield Reason.FRAGMENT, "the inner packet is a fragment"
    if at >= len(raw):
        yield from _short("IP", layout.IPV4.size, raw, at)
        return
    version, left = raw[at] >> 4, len(raw) - at
    announced = _IP_VERSIONS.get(int.from_bytes(raw[max(at - 2, 0) : at], "big"), "another")
    yield Reason.UNKNOWN_VERSION, f"IP version {version} where {announced} is expected"
    if version == 4:
        yield from _short_unless(layout.IPV4.name, layout.IPV4.size, raw, at)
        if ip := _has(layout.IPV4, raw, at):
            size = 4 * ip["header_words"]
            if size < layout.IPV4.size:
                yield _BAD_LENGTH, f"IPv4 header of {size} bytes, at least {layout.IPV4.size} are needed"
            yield from _short_unless("IPv4 with options", size, raw, at)
            if ip["total_length"] < size:
                total = ip["total_length"]
                yield _BAD_LENGTH, f"IPv4 total length {total} is below the header's {size} bytes"
            yield from _short("IPv4 with options", size, raw, at)
    elif version == 6 and left < layout.IPV6.size:
        yield from _short(layout.IPV6.name, layout.IPV6.size, raw, at)
    else:
        size = 8 * (raw[at + 1] + 1) if left >= layout.IPV6_EXTENSION.size else layout.IPV6_EXTENSION.size
        yield from _short("IPv6 extension", size, raw, at)


def _inner_l4(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    yield from _short_unless(layout.PORTS.name, layout.PORTS.size, raw, at)
    if row["proto"] == layout.PROTOCOL_UDP:
        yield from _short(layout.UDP.name, layout.UDP.size, raw, at)
        return
    yield from _short_unless(layout.TCP.name, layout.TCP.size, raw, at)
    if tcp := _has(layout.TCP, raw, at):
        size = 4 * tcp["header_words"]
        if size < layout.TCP.size:
            yield _BAD_LENGTH, f"TCP header of {size} bytes, at least {layout.TCP.size} are needed"
        yield from _short("TCP with options", size, raw, at)


# --------------------------------------------------------------------------------------------- INT, IOAM, IFA


def _likely_carrier(row: Row, dialect: Dialect) -> Carrier:
    """The likely carrier of INT, by protocol and port of the packet in which reading stopped."""
    if row["proto"] == layout.PROTOCOL_GRE:
        return Carrier.GRE
    if row["proto"] != layout.PROTOCOL_UDP:
        return Carrier.TCP
    if row["dport"] in dialect.gpe_ports:
        return Carrier.VXLAN_GPE
    return Carrier.GENEVE if row["dport"] in dialect.geneve_ports else Carrier.UDP


def _int(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    """Errors in INT, by the readers that `extras` uses: their error at the same place is the answer."""
    place = Place(row["place"])
    if row["int_at"]:
        starts: tuple[tuple[int, int], ...] = ((row["int_at"] - 4, row["carrier"]),)
    else:
        start = at if place == Place.INT_SHIM else at - 4
        likely = _likely_carrier(row, dialect)
        others = (Carrier.UDP_INSERTED, Carrier.GRE, Carrier.VXLAN_GPE, Carrier.GENEVE)
        starts = tuple((start, carrier) for carrier in (likely, *others))
    for start, carrier in starts:
        buf = Buffer(raw, max(start, 0))
        try:
            shim = int_header.pull_shim(buf, carrier, dialect)
            md = int_header.pull_md(buf, shim, dialect, row["version"])
            count, sizes = hop_stack.records_of(buf, shim, md, dialect)
        except WireError as error:
            if (error.place, error.at) == (place, at):
                yield error.reason, error.detail
            continue
        if place == Place.INT_STACK:
            yield Reason.TOO_MANY_HOPS, f"{count} hops, at most {MAX_HOPS} are read"
            cut = at < len(raw) and raw[at] & 0x80
            lacking = "the last word lacks the bottom-of-stack bit"
            yield Reason.BAD_BOTTOM, "the stack ends before its last word" if cut else lacking
            yield from _short("INT stack", sum(sizes) + 4 * shim.numbered, raw, at)
    header = {Place.INT_SHIM: ("INT shim", 4), Place.INT_TAIL: (layout.TAIL_0_5.name, layout.TAIL_0_5.size)}
    yield from _short(*header.get(place, ("INT header", layout.MD_2_0.size)), raw, at)


def _ioam(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    head = layout.IOAM_OPTION.size
    for start in (row["int_at"] - head if row["int_at"] else at, at - head):
        try:
            ioam.reread(raw, start + head)
        except WireError as error:
            yield error.reason, error.detail
    yield _BAD_LENGTH, "the option is longer than the header that holds it"


def _ifa(row: Row, raw: bytes, at: int, dialect: Dialect) -> _Texts:
    if row["proto"] not in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        pull: Callable[[Buffer], object] = ifa.pull_ifa
    elif ifa.is_ifa(layout.IFA.unpack(raw, at - layout.IFA.size)):
        yield from _inner_l4(row, raw, at, dialect)
        return
    else:
        pull = ifa.pull_metadata
    try:
        pull(Buffer(raw, at))
    except WireError as error:
        yield error.reason, error.detail
    yield _BAD_LENGTH, "the IP length leaves less than the stack needs"


_TEXTS: dict[Place, Callable[[Row, bytes, int, Dialect], _Texts]] = {
    Place.OUTER_IP: _outer_ip,
    Place.OUTER_UDP: _outer_udp,
    Place.REPORT_HEADER: _report_header,
    Place.REPORT_METADATA: _report_metadata,
    Place.INNER_ETHERNET: _inner_ethernet,
    Place.INNER_IP: _inner_ip,
    Place.INNER_L4: _inner_l4,
    Place.INT_SHIM: _int,
    Place.INT_HEADER: _int,
    Place.INT_STACK: _int,
    Place.INT_TAIL: _int,
    Place.IOAM_OPTION: _ioam,
    Place.IOAM_DATA: _ioam,
    Place.IFA: _ifa,
    Place.SFLOW: _sflow,
    Place.IPFIX: _ipfix,
}
