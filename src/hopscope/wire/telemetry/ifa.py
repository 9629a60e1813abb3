"""IFA 2.0, Broadcom's Inband Flow Analyzer (draft-kumar-ippm-ifa): stacks in TCP and UDP packets.

    IP (protocol 253) | IFA | TCP or UDP | IFA_METADATA | IFA_HOP, the newest first | payload

Each node adds a `layout.IFA_HOP`, the metadata that Broadcom's ASICs define in their local namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .. import layout
from ..buffer import Buffer, push
from ..errors import WireError
from ..reasons import Place, Reason

_PLACE = Place.IFA
VERSION, LOCAL = 2, 15
"""The version that is decoded, and the namespace value that says that each node states its own."""
_L4 = {layout.PROTOCOL_TCP: layout.TCP, layout.PROTOCOL_UDP: layout.UDP}
NOT_READ = {
    "fragmented": "metadata fragments are", "tail_stamp": "a stack at the packet's end is",
    "checksum_present": "the checksum header is",
}  # fmt: skip
"""Flags of optional headers and forms that are not decoded, with the begin of the error message."""
EXTRAS = tuple(
    (part.name, part.at // 8, part.bits // 8)
    for part in layout.IFA_HOP.fields
    if part.name in ("ttl", "queue_bytes", "pool_cells")
)
"""Values of a hop that have no column: (name, byte offset in the hop, bytes)."""
SECOND = 1_000_000_000


def is_ifa(head: dict[str, int]) -> bool:
    """Whether the fields of a `layout.IFA` are those of IFA 2.0, followed by TCP or UDP."""
    return head["version"] == VERSION and head["next_header"] in _L4


def pull_ifa(buf: Buffer) -> dict[str, int]:
    """Read the IFA header at this position, for which `is_ifa` is true.

    Raises WireError: `unknown_type` for a namespace that the whole network shares, `unsupported` for a flag
    of NOT_READ.
    """
    start = buf.at
    head = buf.pull(layout.IFA, _PLACE)
    if head["namespace"] != LOCAL:
        raise WireError(
            Reason.UNKNOWN_TYPE, _PLACE, start,
            f"metadata of namespace {head['namespace']}, only that of {LOCAL} is known",
        )  # fmt: skip
    for flag, text in NOT_READ.items():
        if head[flag]:
            raise WireError(Reason.UNSUPPORTED, _PLACE, start, f"{text} not read")
    return head


def pull_metadata(buf: Buffer) -> tuple[dict[str, int], list[dict[str, int]]]:
    """Read the metadata header, and its stack in path order: fields as on the wire.

    Raises WireError: `truncated`, `bad_length`; `bad_hop_size` if the stack is not a whole number of nodes.
    """
    start = buf.at
    head = buf.pull(layout.IFA_METADATA, _PLACE)
    size = 4 * head["words"]
    if size % layout.IFA_HOP.size:
        raise WireError(
            Reason.BAD_HOP_SIZE, _PLACE, start,
            f"a stack of {size} bytes, a node takes {layout.IFA_HOP.size}",
        )  # fmt: skip
    buf.at = start
    buf.need(layout.IFA_METADATA.size + size, _PLACE, "IFA stack")
    buf.at += layout.IFA_METADATA.size
    return head, [buf.pull(layout.IFA_HOP, _PLACE) for _ in range(size // layout.IFA_HOP.size)][::-1]


def extras_of(hops: int, int_at: int) -> Iterator[tuple[int, str, int, int]]:
    """Yield (hop in path order, name, byte offset in the frame, bytes) for each value that has no column.

    The metadata header of a stack with `hops` nodes is at `int_at`.
    """
    first = int_at + layout.IFA_METADATA.size
    for hop in range(hops):
        start = first + (hops - 1 - hop) * layout.IFA_HOP.size
        for name, at, size in EXTRAS:
            yield hop, name, start + at, size


def push_ifa(
    out: bytearray, protocol: int, segment: bytes, head: dict[str, int], hops: Sequence[dict[str, int]]
) -> None:
    """Append a TCP or UDP `segment` with IFA: one header before its TCP or UDP header, the stack after it.

    `head` has fields of both IFA headers, `hops` those of the nodes in path order. Raises ValueError if a
    value is wider than its field, or there are more than 31 hops.
    """
    size = _L4[protocol].size if protocol == layout.PROTOCOL_UDP else 4 * (segment[12] >> 4)
    fixed = {"version": VERSION, "next_header": protocol}
    push(out, layout.IFA, {"namespace": LOCAL, "max_words": 255, **head, **fixed})
    out += segment[:size]
    push(out, layout.IFA_METADATA, {"hop_limit": 255, **head, "words": len(hops) * layout.IFA_HOP.size // 4})
    for hop in reversed(hops):
        push(out, layout.IFA_HOP, hop)
    out += segment[size:]
