"""The `report` of objects as bytes: headers of 0.5, 1.0 and 2.0 with metadata, around packets."""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import layout, rules
from ..dialect import Dialect
from ..layout import Item
from ..records import Flag, Have, Kind
from ..telemetry import report, report_metadata
from ..telemetry.report_metadata import ReportMetadata
from ..versions import REPORT_VERSIONS
from . import int_stack as craft_int
from . import packet as craft_packet
from .extras import report_bytes
from .keys import CraftError, Keys, about
from .metadata import bitmap_of, hop_of

_KINDS = tuple(kind.name.lower() for kind in Kind)
_ONES = 0xFFFFFFFF
_NODE = 1
"""Node id of a report that does not name one."""
_FILLER = 0x8000
"""Metadata bits of a Report 2.0 whose report metadata is empty."""


@dataclass(slots=True)
class Sequences:
    """The next sequence number of each source, for reports that do not state one."""

    last: dict[tuple[int, ...], int] = field(default_factory=dict)

    def number(self, keys: Keys, maximum: int, *space: int) -> int:
        """The sequence number of a report."""
        number = keys.number("sequence", maximum, (self.last.get(space, -1) + 1) & maximum)
        self.last[space] = number
        return number


@dataclass(slots=True)
class Head:
    """Values of the headers of a report."""

    version: int
    kind: Kind
    flags: int
    hw_id: int
    node_id: int
    ingress_time: int | None
    own: ReportMetadata
    bits: int
    """Metadata bits, as 16 bits."""
    domain: tuple[int, int, bytes] = 0, 0, b""
    """Domain id, DSMdBits and domain-specific metadata of 2.0."""


def push_reports(
    out: bytearray, group: list[Keys], source: int, sequences: Sequences, dialect: Dialect
) -> None:
    """Append the payload of a datagram with the reports of these objects."""
    heads = []
    for entry in group:
        with about(entry):
            heads.append(_head(entry, dialect))
    first = heads[0]
    keys = group[0].part("report")
    maximum = 0x3FFFFF if first.version == 20 else _ONES
    sequence = sequences.number(keys, maximum, source, first.version, first.hw_id, first.node_id)
    for entry, head in zip(group[1:], heads[1:], strict=True):
        with about(entry):
            _check_group(entry.part("report"), first, head, sequence, maximum)
    start = len(out)
    if first.version == 20:
        group_fields = {"hw_id": first.hw_id, "sequence": sequence, "node_id": first.node_id}
        out += layout.GROUP_2_0.pack({"version": 2, **group_fields})
        _begin(out, start, 20, first.hw_id >> 2, dialect)
        if dialect.bare_group:
            _push_bare(out, group, first, dialect)
            return
        for entry, head in zip(group, heads, strict=True):
            with about(entry):
                _push_2_0(out, entry, head, dialect, final=entry is group[-1])
    elif first.version == 10:
        _push_1_0(out, group[0], first, sequence, dialect)
    else:
        _push_0_5(out, group[0], first, sequence, dialect)


def _check_group(other: Keys, first: Head, head: Head, sequence: int, maximum: int) -> None:
    """Raise CraftError if a report differs from the first of its packet."""
    if first.version != 20 or head.version != 20:
        raise CraftError("index", "only Reports 2.0 may share a packet")
    for name, value, expected in (
        ("node_id", head.node_id, first.node_id), ("hw_id", head.hw_id, first.hw_id),
        ("sequence", other.number("sequence", maximum, sequence), sequence),
    ):  # fmt: skip
        if other.has(name) and value != expected:
            raise other.wrong(name, f"{expected}, as in the packet's first report")


def _begin(out: bytearray, at: int, version: int, low: int, dialect: Dialect) -> None:
    """Set the first nibble to that of this version, and the second to `low`."""
    rule = dialect.table()[rules.FIRST_BYTE : rules.FIRST_BYTE + 256]
    usual = {5: 0, 10: 1, 20: 2}[version]
    for nibble in (usual, *range(16)):
        if rule[nibble << 4 | low] == version:
            out[at] = nibble << 4 | low
            return
    raise CraftError("report.version", f"dialect {dialect.name} has no such report")


def _head(entry: Keys, dialect: Dialect) -> Head:
    keys = entry.part("report")
    usual = "2.0" if dialect.report_version == "auto" else dialect.report_version
    name = keys.word("version", REPORT_VERSIONS, usual)
    version = REPORT_VERSIONS[name]
    kind = _kind(keys)
    hw_id = keys.number("hw_id", 63, 0)
    flags = _flags(keys, version, kind, kind == Kind.INT and not dialect.bare_group)
    if version != 5:
        kind = Kind.INNER if kind == Kind.INNER else report.kind_of(flags)
        if kind != Kind.INNER and keys.has("kind") and kind != _kind(keys):
            raise keys.wrong("kind", f"{kind.name.lower()}, as its flags say")
    keys.has("sequence")
    node_id = _node_id(entry, keys, version, kind)
    own, bits = _own(entry, keys, version, kind, dialect)
    own.hop.node_id = node_id
    time = None
    if version != 20:
        given = keys.value("ingress_time", _ONES, 0)
        time = _ONES if given is None else given
    domain = 0, 0, b""
    if version == 20 and kind != Kind.INNER:
        domain = report_bytes(keys, dialect)
    keys.close(f"a Report {name} ({kind.name.lower()})")
    return Head(version, kind, flags, hw_id, node_id, time, own, bits, domain)


def _kind(keys: Keys) -> Kind:
    given = keys.word("kind", _KINDS, "")
    if given:
        return Kind[given.upper()]
    if keys.raw("drop_reason") is not None or keys.raw("dropped") is True:
        return Kind.DROP
    return Kind.QUEUE if keys.raw("congested") is True and keys.raw("tracked") is not True else Kind.INT


def _flags(keys: Keys, version: int, kind: Kind, tracked: bool) -> int:
    flags = Flag.DROPPED * keys.flag("dropped", kind == Kind.DROP)
    flags |= Flag.CONGESTED * keys.flag("congested", kind == Kind.QUEUE)
    flags |= Flag.TRACKED * keys.flag("tracked", tracked)
    if version == 20:
        flags |= Flag.INTERMEDIATE * keys.flag("intermediate")
    return flags


def _node_id(entry: Keys, keys: Keys, version: int, kind: Kind) -> int:
    """The node of the report; by default the last hop's node, which is the sink."""
    if version == 5 and kind == Kind.INT:
        return 0
    usual = _NODE
    for hop in entry.parts("hops"):
        usual = hop.value("node_id", _ONES, usual) or usual
    given = keys.value("node_id", _ONES, usual)
    return _ONES if given is None else given


def _own(entry: Keys, keys: Keys, version: int, kind: Kind, dialect: Dialect) -> tuple[ReportMetadata, int]:
    """The report's metadata, and its bits."""
    metadata = keys.part("metadata")
    if version == 5:
        return _own_0_5(keys, metadata, kind, dialect)
    if kind == Kind.INNER:
        metadata.close("an inner-only report")
        return ReportMetadata(), 0
    items = dialect.alternatives(layout.OWN_OF_1_0 if version == 10 else layout.OWN_OF_2_0)[0]
    names = set(metadata.names())
    bits = bitmap_of(items, names)
    if version == 20 and keys.has("ingress_time"):
        bits |= _bit(items, Have.INGRESS_TIME)
    own = ReportMetadata(hop_of(metadata, items, bits))
    if version == 20 and keys.has("ingress_time") and "ingress_time" not in names:
        given = keys.value("ingress_time", (1 << 64) - 1)
        own.hop.ingress_time = (1 << 64) - 1 if given is None else given
        own.hop.null &= ~Have.INGRESS_TIME if given is not None else -1
    metadata.close(f"the metadata of a Report {'1.0' if version == 10 else '2.0'}")
    if keys.has("drop_reason"):
        bits |= next(0x8000 >> bit for bit, item in enumerate(items) if item is layout.DROP)
        own.queue_id, own.drop_reason = _drop(keys)
    elif own.hop.present & Have.QUEUE_OCCUPANCY:
        keys.value("queue_id", 0xFF)
    if bits == 0 and version == 20 and any(hop.flag("in_report") for hop in entry.parts("hops")):
        bits = _FILLER
    return own, bits


def _bit(items: tuple[Item, ...], have: int) -> int:
    return sum(0x8000 >> bit for bit, item in enumerate(items) if item.have == have)


def _drop(keys: Keys) -> tuple[int, int]:
    reason, queue = keys.value("drop_reason", 0xFF), keys.value("queue_id", 0xFF)
    return (0xFF, 0xFF) if reason is None else (queue or 0, reason)


def _own_0_5(keys: Keys, metadata: Keys, kind: Kind, dialect: Dialect) -> tuple[ReportMetadata, int]:
    if kind == Kind.INNER:
        raise keys.wrong("kind", "int, drop or queue: a Report 0.5 has no inner-only form")
    form = {Kind.DROP: layout.DROP_OF_0_5, Kind.QUEUE: layout.LOCAL_OF_0_5}.get(kind)
    items = dialect.alternatives(form)[0] if form is not None else ()
    bits = _bit(items, Have.PORTS) | _bit(items, Have.QUEUE_OCCUPANCY) | _bit(items, Have.EGRESS_TIME)
    own = ReportMetadata(hop_of(metadata, items, bits))
    if kind == Kind.DROP:
        own.queue_id, own.drop_reason = _drop(keys)
    elif kind == Kind.QUEUE:
        keys.value("queue_id", 0xFF)
        own.queue_id = own.hop.queue_id
    metadata.close(f"the metadata of a Report 0.5 ({kind.name.lower()})")
    return own, 0


def _push_0_5(out: bytearray, entry: Keys, head: Head, sequence: int, dialect: Dialect) -> None:
    form, start = head.kind.value, len(out)
    table = dialect.table()
    numbers = [
        number
        for number in range(16)
        if table[rules.FORM_0_5 + 3 * number] == form and table[rules.FORM_0_5 + 3 * number + 2] == 3
    ]
    out += layout.REPORT_0_5.pack({
        "next_protocol": numbers[0], **report.flag_fields(head.flags), "hw_id": head.hw_id,
        "sequence": sequence, "ingress_time": head.ingress_time or 0,
    })  # fmt: skip
    _begin(out, start, 5, numbers[0], dialect)
    if form:
        report_metadata.push_metadata_0_5(out, form, head.own, dialect)
    _push_inner(out, entry, head, dialect)


def _push_1_0(out: bytearray, entry: Keys, head: Head, sequence: int, dialect: Dialect) -> None:
    start = len(out)
    items = dialect.alternatives(layout.OWN_OF_1_0)[0]
    length = 4 + layout.metadata_size(items, head.bits) // 4
    out += layout.REPORT_1_0.pack({
        "version": 1, "length": length, "metadata_bits": head.bits >> 10,
        **report.flag_fields(head.flags), "hw_id": head.hw_id, "node_id": head.node_id,
        "sequence": sequence, "ingress_time": head.ingress_time or 0,
    })  # fmt: skip
    _begin(out, start, 10, length, dialect)
    report_metadata.push_report_metadata(out, items, head.bits, head.own)
    _push_inner(out, entry, head, dialect)


def _push_2_0(out: bytearray, entry: Keys, head: Head, dialect: Dialect, *, final: bool) -> None:
    body = bytearray()
    size = 0
    if head.kind != Kind.INNER:
        items = dialect.alternatives(layout.OWN_OF_2_0)[0]
        size = layout.metadata_size(items, head.bits)
        domain_id, ds_bits, values = head.domain
        report.push_main(
            body, head.own, metadata_bits=head.bits, domain_id=domain_id, ds_metadata_bits=ds_bits
        )
        body += values
        size += len(values)
    kind = report.INNER_NONE
    if entry.has("flow") or entry.has("hops") or entry.has("int"):
        kind = report.INNER_ETHERNET
        _push_inner(body, entry, head, dialect)
    body += bytes(-len(body) % 4)
    words = len(body) // 4
    if words >= 0xFF and not final:
        raise CraftError("hops", "only the last report of a packet may take 255 words or more")
    table = dialect.table()
    types = [number for number in range(16) if table[rules.INNER_2_0 + number] == kind]
    if not types:
        raise CraftError("report.version", f"dialect {dialect.name} has no type for an Ethernet packet")
    out += layout.REPORT_2_0.pack({
        "report_type": _report_type(head.kind, dialect), "inner_type": types[0],
        "report_length": min(words, 0xFF), "metadata_length": size // 4, **report.flag_fields(head.flags),
    })  # fmt: skip
    out += body


def _report_type(kind: Kind, dialect: Dialect) -> int:
    """The RepType of an INT report, or of an inner-only report."""
    form = int(kind != Kind.INNER)
    for number in (form, *range(16)):
        if report.main_form(number, dialect)[0] == form:
            return int(number)
    raise CraftError("report.kind", f"dialect {dialect.name} has no such report")


def _push_bare(out: bytearray, group: list[Keys], head: Head, dialect: Dialect) -> None:
    """Append the packet that directly follows a group header, for dialects without individual reports."""
    if len(group) > 1:
        raise CraftError("index", f"a packet of dialect {dialect.name} holds one report")
    if head.flags or head.bits:
        raise CraftError("report", f"dialect {dialect.name} has neither flags nor metadata of its own")
    frame = bytearray()
    _push_inner(frame, group[0], head, dialect)
    out += frame if dialect.bare_group == report.INNER_ETHERNET else frame[layout.ETHERNET.size :]


def _push_inner(out: bytearray, entry: Keys, head: Head, dialect: Dialect) -> None:
    telemetry = craft_int.telemetry_of(entry, head.version, dialect)
    if telemetry is None and not entry.has("flow"):
        craft_packet.push_nothing(out)
    else:
        craft_packet.push_packet(out, entry, telemetry, dialect)
