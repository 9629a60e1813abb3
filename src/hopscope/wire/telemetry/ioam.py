"""IOAM in IPv6 options: traces that nodes wrote into a packet, and direct export (RFC 9197, 9326, 9486).

A trace has the newest node first; `pull_data` returns path order, the encapsulating node first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .. import layout
from ..buffer import Buffer, push
from ..errors import WireError
from ..reasons import Place, Reason
from ..records import MAX_HOPS, Mode

PREALLOCATED, INCREMENTAL, PROOF_OF_TRANSIT, EDGE_TO_EDGE, DIRECT_EXPORT = range(5)
"""IOAM option types (RFC 9197 7.1, RFC 9326 4.1)."""
MODES = {
    PREALLOCATED: Mode.IOAM_PREALLOCATED, INCREMENTAL: Mode.IOAM_INCREMENTAL, DIRECT_EXPORT: Mode.IOAM_DEX,
}  # fmt: skip
FLOW_ID, SEQUENCE = 0x80, 0x40
"""Extension flags of direct export; each flag, also an undefined one, stands for 4 more bytes."""
HOP_BY_HOP, DESTINATION = 0, 60
"""IPv6 extension headers that hold options."""
_PLACE, _DATA = Place.IOAM_OPTION, Place.IOAM_DATA
_HEAD = layout.IOAM_OPTION.size
_ONES_24 = (1 << 24) - 1
SATURATED = (1 << 31) - 1
"""Value for a transit delay that does not fit."""
assert (255 + 2 - _HEAD - layout.IOAM_TRACE.size) // 4 <= MAX_HOPS  # an option has no room for too many nodes


@dataclass(slots=True)
class Trace:
    """The header of a trace, pre-allocated or incremental (RFC 9197 4.4.1)."""

    mode: Mode = Mode.IOAM_PREALLOCATED
    namespace: int = 0
    node_words: int = 0
    """Words that each node adds, without its snapshot."""
    overflow: bool = False
    """Whether a node found no room, so that the path is incomplete."""
    loopback: bool = False
    active: bool = False
    remaining_words: int = 0
    trace_type: int = 0
    """24 bits."""


@dataclass(slots=True)
class Dex:
    """Direct export: data that nodes shall export, and fields that join their exports (RFC 9326 3.2)."""

    namespace: int = 0
    flags: int = 0
    trace_type: int = 0
    """24 bits."""
    flow_id: int | None = None
    sequence: int | None = None


@dataclass(slots=True)
class Node:
    """Data written by one node: the fields of `layout.IOAM_NODE` as on the wire."""

    at: int = field(default=0, compare=False)
    """Byte offset in the frame."""

    values: dict[str, int] = field(default_factory=dict)
    schema: int | None = None
    """Schema of its opaque state snapshot; None: the trace type has no snapshot."""
    snapshot: bytes = b""


def pull_option(buf: Buffer) -> tuple[Buffer, int]:
    """(Contents after the option's own header, IOAM option type).

    Raises WireError: `truncated`, `bad_length` if the option has no room for its header, and for types
    whose contents are not read.
    """
    start = buf.at
    buf.need(layout.IPV6_OPTION.size, _PLACE, "IPv6 option")
    length = buf.raw[start + 1]
    buf.need(layout.IPV6_OPTION.size + length, _PLACE, "IOAM option")
    end = start + layout.IPV6_OPTION.size + length
    _fits(start, _HEAD, end, start)
    ioam_type = buf.pull(layout.IOAM_OPTION, _PLACE)["ioam_type"]
    if ioam_type in (PROOF_OF_TRANSIT, EDGE_TO_EDGE):
        name = "proof of transit" if ioam_type == PROOF_OF_TRANSIT else "edge-to-edge data"
        raise WireError(Reason.UNSUPPORTED, _PLACE, start, f"{name} is not decoded")
    if ioam_type not in MODES:
        raise WireError(Reason.UNKNOWN_TYPE, _PLACE, start, f"IOAM option type {ioam_type}")
    _fits(buf.at, layout.IOAM_TRACE.size, end, start)
    return Buffer(buf.raw, buf.at, end), ioam_type


def _fits(at: int, size: int, end: int, start: int) -> None:
    if at + size > end:
        raise WireError(
            Reason.BAD_LENGTH, _PLACE, start,
            f"the option's length is {end - start - 2}, its headers need {at + size - start - 2}",
        )  # fmt: skip


def node_words(trace_type: int) -> int:
    """Words that a node adds to a trace of this type, without a snapshot: NodeLen (RFC 9197 4.4.1)."""
    return sum(item.size for item in _items(trace_type)) // 4


def fields_of(trace_type: int) -> dict[str, int]:
    """Names of the values that a node writes, without a snapshot, and the maximum of each: all ones."""
    return {name: mask for item in _items(trace_type) for name, _, mask in item.fields.shifts}


def _items(trace_type: int) -> list[layout.Item]:
    return [item for bit, item in enumerate(layout.IOAM_NODE) if trace_type >> (23 - bit) & 1]


def pull_trace(buf: Buffer, ioam_type: int) -> Trace:
    """The header of a trace; `buf` ends where the option does.

    Raises WireError: `bad_hop_size` if NodeLen contradicts the trace type, or nothing is traced; `bad_length`
    if a pre-allocated trace claims more free room than the option has.
    """
    start = buf.at
    head = buf.pull(layout.IOAM_TRACE, _PLACE)
    trace = Trace(
        MODES[ioam_type], head["namespace"], head["node_words"], bool(head["overflow"]),
        bool(head["loopback"]), bool(head["active"]), head["remaining_words"], head["trace_type"],
    )  # fmt: skip
    words = node_words(trace.trace_type)
    if trace.node_words != words or not (words or trace.trace_type & layout.IOAM_SNAPSHOT_BIT):
        raise WireError(
            Reason.BAD_HOP_SIZE, _PLACE, start,
            f"{trace.node_words} words a node, trace type 0x{trace.trace_type:06x} implies {words}",
        )  # fmt: skip
    if trace.mode == Mode.IOAM_PREALLOCATED and 4 * trace.remaining_words > buf.left:
        raise WireError(
            Reason.BAD_LENGTH, _PLACE, start,
            f"{4 * trace.remaining_words} bytes are stated as free, the option holds {buf.left}",
        )  # fmt: skip
    return trace


def pull_data(buf: Buffer, trace: Trace) -> list[Node]:
    """The nodes in path order, to the end of the option.

    In a pre-allocated trace, the free room precedes them; in an incremental trace, which grows, RemainingLen
    only states how much may still be added. Raises WireError: `bad_length` if they are not a whole number of
    nodes.
    """
    if trace.mode == Mode.IOAM_PREALLOCATED:
        buf.at += 4 * trace.remaining_words
    size = 4 * trace.node_words
    opaque = trace.trace_type & layout.IOAM_SNAPSHOT_BIT
    if not opaque and buf.left % size:
        raise WireError(
            Reason.BAD_LENGTH, _DATA, buf.at, f"{buf.left} bytes are no whole number of {size}-byte nodes"
        )
    nodes: list[Node] = []
    while buf.left:
        nodes.append(_pull_node(buf, trace.trace_type, size + (layout.IOAM_SNAPSHOT.size if opaque else 0)))
    return nodes[::-1]


def _pull_node(buf: Buffer, trace_type: int, size: int) -> Node:
    start = buf.at
    if size > buf.left:
        raise WireError(Reason.BAD_LENGTH, _DATA, start, f"a node needs {size} bytes, {buf.left} are left")
    node = Node(start)
    for item in _items(trace_type):
        node.values |= buf.pull(item.fields, _DATA)
    if trace_type & layout.IOAM_SNAPSHOT_BIT:
        head = buf.pull(layout.IOAM_SNAPSHOT, _DATA)
        length = 4 * head["words"]
        if length > buf.left:
            raise WireError(
                Reason.BAD_LENGTH, _DATA, start, f"a snapshot of {length} bytes, {buf.left} are left"
            )
        node.schema = head["schema"]
        node.snapshot = buf.raw[buf.at : buf.at + length]
        buf.at += length
    return node


def extras_of(raw: bytes, int_at: int) -> Iterator[tuple[int | None, str, int, int]]:
    """(hop in path order, name, byte offset in the frame, bytes) of each value that has no column.

    Hop None: a value of the packet. `int_at`: offset of the header of a trace or of direct export, which was
    read without error.
    """
    found = reread(raw, int_at)
    if isinstance(found, Dex):
        at = int_at + layout.IOAM_DEX.size
        for name in ("flow_id", "sequence"):
            if getattr(found, name) is not None:
                yield None, name, at, 4
                at += 4
        return
    trace, nodes = found
    for hop, node in enumerate(nodes):
        at = node.at
        for item in _items(trace.trace_type):
            for part in item.fields.fields:
                if part.name in EXTRAS:
                    yield hop, part.name, at + part.at // 8, part.bits // 8
            at += item.size
        if node.schema is not None:
            yield hop, "schema", at + 1, 3
            yield hop, SNAPSHOT, at + layout.IOAM_SNAPSHOT.size, len(node.snapshot)


EXTRAS = frozenset(
    part.name
    for item in layout.IOAM_NODE
    for part in item.fields.fields
    if item.have == 0 or part.name in ("hop_limit", "wide_hop_limit", "wide_node_id")
)
"""Fields of a node that have no column."""
SNAPSHOT = "snapshot"
"""Name of a snapshot's bytes."""


def pull_dex(buf: Buffer) -> Dex:
    """Direct export; `buf` ends where the option does.

    Raises WireError: `bad_length` if the extension flags stand for more bytes than the option has.
    """
    start = buf.at
    head = buf.pull(layout.IOAM_DEX, _PLACE)
    flags = head["extension_flags"]
    size = 4 * flags.bit_count()
    if size > buf.left:
        raise WireError(
            Reason.BAD_LENGTH, _PLACE, start,
            f"extension flags 0x{flags:02x} stand for {size} bytes, the option has {buf.left} more",
        )  # fmt: skip
    dex = Dex(head["namespace"], head["flags"], head["trace_type"])
    at = buf.at
    if flags & FLOW_ID:
        dex.flow_id = int.from_bytes(buf.raw[at : at + 4], "big")
        at += 4
    if flags & SEQUENCE:
        dex.sequence = int.from_bytes(buf.raw[at : at + 4], "big")
    return dex


def reread(raw: bytes, int_at: int) -> tuple[Trace, list[Node]] | Dex:
    """The trace or direct export with its header at `int_at` of the frame, which was read without error
    before.
    """
    part, ioam_type = pull_option(Buffer(raw, int_at - _HEAD))
    if ioam_type == DIRECT_EXPORT:
        return pull_dex(part)
    trace = pull_trace(part, ioam_type)
    return trace, pull_data(part, trace)


def push_trace(out: bytearray, trace: Trace, nodes: list[Node], option_type: int = 0x31) -> None:
    """Append the IPv6 option with a trace and its nodes, which are given in path order.

    Raises ValueError if it is longer than an option can be, or if a value is wider than its field.
    """
    body = bytearray()
    push(body, layout.IOAM_TRACE, {
        "namespace": trace.namespace, "node_words": trace.node_words, "overflow": trace.overflow,
        "loopback": trace.loopback, "active": trace.active, "remaining_words": trace.remaining_words,
        "trace_type": trace.trace_type,
    })  # fmt: skip
    if trace.mode == Mode.IOAM_PREALLOCATED:
        body += bytes(4 * trace.remaining_words)
    for node in reversed(nodes):
        for item in _items(trace.trace_type):
            push(body, item.fields, node.values)
        if trace.trace_type & layout.IOAM_SNAPSHOT_BIT:
            schema = _ONES_24 if node.schema is None else node.schema
            push(body, layout.IOAM_SNAPSHOT, {"words": len(node.snapshot) // 4, "schema": schema})
            body += node.snapshot
    ioam_type = INCREMENTAL if trace.mode == Mode.IOAM_INCREMENTAL else PREALLOCATED
    _push_option(out, option_type, ioam_type, body)


def push_dex(out: bytearray, dex: Dex, option_type: int = 0x11) -> None:
    """Append the IPv6 option with direct export."""
    body = bytearray()
    given = FLOW_ID * (dex.flow_id is not None) | SEQUENCE * (dex.sequence is not None)
    push(body, layout.IOAM_DEX, {
        "namespace": dex.namespace, "flags": dex.flags, "extension_flags": given,
        "trace_type": dex.trace_type,
    })  # fmt: skip
    for value in (dex.flow_id, dex.sequence):
        if value is not None:
            body += value.to_bytes(4, "big")
    _push_option(out, option_type, DIRECT_EXPORT, body)


def _push_option(out: bytearray, option_type: int, ioam_type: int, body: bytes | bytearray) -> None:
    push(out, layout.IOAM_OPTION, {"type": option_type, "length": 2 + len(body), "ioam_type": ioam_type})
    out += body


def push_extension(out: bytearray, option: bytes, next_header: int) -> None:
    """Append a hop-by-hop or destination header with one IOAM option: 4n-aligned, padded to 8 bytes."""
    padding = -(4 + len(option)) % 8
    out += bytes([next_header, (4 + len(option) + padding) // 8 - 1, 1, 0])
    out += option
    if padding == 1:
        out += b"\0"
    elif padding:
        out += bytes([1, padding - 2]) + bytes(padding - 2)
