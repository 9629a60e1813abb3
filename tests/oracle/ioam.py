"""IOAM in IPv6 options into rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carrier, Have, Hop, IntFlag, Mode
from hopscope.wire.telemetry.ioam import (
    DESTINATION,
    DIRECT_EXPORT,
    HOP_BY_HOP,
    SATURATED,
    pull_data,
    pull_dex,
    pull_option,
    pull_trace,
)
from hopscope.wire.versions import IOAM

from .row import Row

_ONES_24, _ONES_32 = (1 << 24) - 1, (1 << 32) - 1
_PLACE = Place.IOAM_OPTION

_NEXT_HEADER = layout.IPV6.field("next_header").at // 8


def read_ioam(buf: Buffer, row: Row, dialect: Dialect) -> None:
    """Read the IPv6 option in `buf`, from its type byte to its end, into the row.

    A row holds one trace: the packet's first, and what follows it is left alone.
    Raises WireError: `truncated`, `bad_length`, `bad_hop_size`; `unknown_type`, and `unsupported` for proof
    of transit and edge-to-edge data.
    """
    if row.fields.get("int_version"):
        return
    part, ioam_type = pull_option(buf)
    int_at = part.at
    if ioam_type == DIRECT_EXPORT:
        dex = pull_dex(part)
        row.set(**_columns(Mode.IOAM_DEX, dex.namespace, dex.trace_type), int_at=int_at,
                packet_id=dex.sequence or 0)  # fmt: skip
        return
    trace = pull_trace(part, ioam_type)
    remaining = trace.remaining_words // trace.node_words if trace.node_words else 0
    row.set(**_columns(trace.mode, trace.namespace, trace.trace_type), int_at=int_at,
            hop_words=trace.node_words, remaining_hops=remaining,
            int_flags=IntFlag.HOPS_EXCEEDED * trace.overflow)  # fmt: skip
    row.hops = [hop_of(node.values) for node in pull_data(part, trace)]


def read_extensions(raw: bytes, start: int, behind: int, row: Row, dialect: Dialect) -> None:
    """Read the IOAM in the options of the IPv6 header at `start`, whose extension headers end at `behind`.

    An option type that is not read is refused only where no trace and no direct export is beside it. Padding
    and options of others are passed by; so is what lies behind an option that is longer than its header.
    Raises WireError as `read_ioam` does, and `bad_length` where IOAM is longer than its header.
    """
    if row.fields.get("int_version"):
        return
    other: WireError | None = None
    for option, end in _options(raw, start, behind):
        try:
            read_ioam(Buffer(raw, option, end), row, dialect)
        except WireError as error:
            if error.reason not in (Reason.UNSUPPORTED, Reason.UNKNOWN_TYPE):
                raise
            other = other or error
        if row.fields.get("int_version"):
            return
    if other is not None:
        raise other


def is_in(raw: bytes, start: int, behind: int) -> bool:
    """Whether an option of the IPv6 header at `start`, whose extension headers end at `behind`, is IOAM's."""
    try:
        return any(True for _ in _options(raw, start, behind))
    except WireError:
        return True


def _options(raw: bytes, start: int, behind: int) -> Iterator[tuple[int, int]]:
    """(offset, end) of each IOAM option of the IPv6 header at `start`."""
    number, at = raw[start + _NEXT_HEADER], start + layout.IPV6.size
    while at < behind:
        size = 8 * (raw[at + 1] + 1)
        if number == layout.NEXT_FRAGMENT:
            size = layout.IPV6_FRAGMENT.size
        elif number == layout.NEXT_AUTHENTICATION:
            size = 4 * (raw[at + 1] + 2)
        elif number in (HOP_BY_HOP, DESTINATION):
            yield from _options_of(raw, at + 2, at + size)
        number = raw[at]
        at += size


def _options_of(raw: bytes, at: int, end: int) -> Iterator[tuple[int, int]]:
    """(offset, end) of each IOAM option among options (RFC 8200 4.2)."""
    while at < end:
        if raw[at] == 0:  # Pad1
            at += 1
            continue
        stop = at + 2 + raw[at + 1] if at + 1 < end else end + 1
        if raw[at] in layout.IOAM_OPTION_TYPES:
            if stop > end:
                raise WireError(
                    Reason.BAD_LENGTH,
                    _PLACE,
                    at,
                    f"the option is longer than the {end - at} bytes of its header",
                )
            yield at, stop
        at = stop


def _columns(mode: Mode, namespace: int, trace_type: int) -> dict[str, int]:
    return {
        "int_version": IOAM, "int_mode": mode, "carrier": Carrier.IPV6_OPTION, "domain_id": namespace,
        "instructions": trace_type >> 8, "ds_instruction": trace_type & 0xFF,
    }  # fmt: skip


def hop_of(values: Mapping[str, int]) -> Hop:
    """A node's values as a hop: what has no column there is an extra.

    `ingress_time` is seconds << 32 | fraction, whose format the namespace's operator knows. A transit delay
    that does not fit saturates (RFC 9197 4.4.2.4). What is all ones is null.
    """
    hop = Hop()
    _node_id(hop, values)
    _take(hop, Have.PORTS, values, ("ingress_port", "egress_port"), 0xFFFF)
    if "seconds" in values or "fraction" in values:
        hop.present |= Have.INGRESS_TIME
        hop.ingress_time = values.get("seconds", 0) << 32 | values.get("fraction", 0)
        if values.get("seconds", values.get("fraction")) == _ONES_32:
            hop.null |= Have.INGRESS_TIME
    if "hop_latency" in values:
        hop.present |= Have.HOP_LATENCY
        hop.hop_latency = values["hop_latency"]
        if values["latency_overflow"]:
            missing = hop.hop_latency == SATURATED
            hop.null |= Have.HOP_LATENCY * missing
            hop.hop_latency = _ONES_32 if missing else SATURATED
    _take(hop, Have.QUEUE_OCCUPANCY, values, ("queue_occupancy",), _ONES_32)
    _take(hop, Have.CHECKSUM_COMPLEMENT, values, ("checksum_complement",), _ONES_32)
    _take(hop, Have.L2_PORTS, values, ("l2_ingress_port", "l2_egress_port"), _ONES_32)
    _take(hop, Have.BUFFER_OCCUPANCY, values, ("buffer_occupancy",), _ONES_32)
    return hop


def _node_id(hop: Hop, values: Mapping[str, int]) -> None:
    if "node_id" in values:
        number, ones = values["node_id"], _ONES_24
    elif "wide_node_id" in values:
        number, ones = values["wide_node_id"], (1 << 56) - 1
    else:
        return
    hop.present |= Have.NODE_ID
    hop.null |= Have.NODE_ID * (number == ones)
    hop.node_id = number & _ONES_32


def _take(hop: Hop, have: Have, values: Mapping[str, int], names: tuple[str, ...], ones: int) -> None:
    if names[0] not in values:
        return
    hop.present |= have
    hop.null |= have * all(values[name] == ones for name in names)
    for name in names:
        setattr(hop, name, values[name])
