"""INT between the inner packet's TCP or UDP header and its payload: shim, INT-MD header, stack of hops, tail.

A stack has the newest hop first; `pull_stack` returns path order, the source's side first.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import layout
from .buffer import Buffer, push
from .errors import WireError
from .layout import Item
from .reasons import Place, Reason
from .records import MAX_HOPS

MODE_MD = 1
MODE_DESTINATION = 2
MODE_MX = 3

HOP_ITEMS: dict[int, tuple[Item, ...]] = {5: layout.HOP_0_5, 10: layout.HOP_1_0, 20: layout.HOP_2_0}
"""What the bits of the instruction bitmap mean, by INT version."""


@dataclass(slots=True)
class Hop:
    """One hop's metadata, or a report's own: fields as in `records.HOP`, `present` and `null` as
    `records.Have`.
    """

    ingress_time: int = 0
    egress_time: int = 0
    node_id: int = 0
    hop_latency: int = 0
    queue_occupancy: int = 0
    queue_congestion: int = 0
    tx_utilization: int = 0
    buffer_occupancy: int = 0
    l2_ingress_port: int = 0
    l2_egress_port: int = 0
    checksum_complement: int = 0
    ingress_port: int = 0
    egress_port: int = 0
    present: int = 0
    null: int = 0
    queue_id: int = 0
    congestion_queue_id: int = 0
    buffer_id: int = 0
    reserved: int = 0


@dataclass(slots=True)
class Shim:
    """The shim of any version."""

    old: bool
    """INT 0.5 or 1.0; otherwise 2.x."""
    type: int = MODE_MD
    length: int = 0
    """Words: with the shim (0.5 with the tail too), in 2.x without."""
    npt: int = 0
    """2.x: what `original` is: 0 DSCP, 1 UDP destination port, 2 IP protocol."""
    original: int = 0
    """2.x: 16 bits; older: DSCP."""


@dataclass(slots=True)
class Md:
    """The INT-MD header of any version (5, 10, 20)."""

    version: int
    hop_words: int = 0
    remaining_hops: int = 0
    instructions: int = 0
    hops_exceeded: bool = False
    mtu_exceeded: bool = False
    copy: bool = False
    discard: bool = False
    total_hops: int = 0
    """0.5 only."""
    domain_id: int = 0
    ds_instruction: int = 0
    ds_flags: int = 0


@dataclass(slots=True)
class Tail:
    """What 0.5 keeps behind the stack: the packet's own protocol, port and DSCP."""

    protocol: int = 0
    dport: int = 0
    dscp: int = 0


def pull_shim(buf: Buffer) -> Shim:
    """The shim; its first byte tells 0.5 and 1.0 (1, 2) from 2.x (type in the high nibble).

    Raises WireError: truncated, or `unknown_type` for what no specification defines.
    """
    place = Place.INT_SHIM
    old = buf.peek(layout.SHIM_OLD, place)
    if old["type"] in (MODE_MD, MODE_DESTINATION):
        buf.at += layout.SHIM_OLD.size
        return Shim(True, old["type"], old["length"], original=old["dscp"])
    shim = buf.peek(layout.SHIM_2_0, place)
    if shim["type"] not in (MODE_MD, MODE_DESTINATION, MODE_MX) or shim["next_protocol_type"] > 2:
        raise WireError(Reason.UNKNOWN_TYPE, place, buf.at, f"shim begins with 0x{old['type']:02x}")
    buf.at += layout.SHIM_2_0.size
    return Shim(False, shim["type"], shim["length"], shim["next_protocol_type"], shim["original"])


def push_shim(out: bytearray, shim: Shim) -> None:
    """Append the shim."""
    if shim.old:
        push(out, layout.SHIM_OLD, {"type": shim.type, "length": shim.length, "dscp": shim.original})
    else:
        push(out, layout.SHIM_2_0, {
            "type": shim.type, "next_protocol_type": shim.npt, "length": shim.length,
            "original": shim.original,
        })  # fmt: skip


def pull_md(buf: Buffer, shim: Shim) -> Md:
    """The INT-MD header behind `shim`.

    Raises WireError: truncated, `unknown_version`, `bad_length` where the shim leaves no room for it, and
    `bad_hop_size` where the hop size is zero or is not what the instruction bitmap implies.
    """
    start, place = buf.at, Place.INT_HEADER
    if shim.old:
        buf.need(layout.MD_0_5.size, place, "INT-MD header")
        nibble = buf.raw[start] >> 4
        if nibble > 1:
            raise WireError(
                Reason.UNKNOWN_VERSION, place, start, f"INT version {nibble} behind a shim of 0.5 or 1.0"
            )
        md = _md_1_0(buf) if nibble else _md_0_5(buf)
        least = 3 if nibble else 4
    else:
        head = buf.pull(layout.MD_2_0, place)
        nibble = head.pop("version")
        if nibble != 2:
            raise WireError(
                Reason.UNKNOWN_VERSION, place, start, f"INT version {nibble} behind a shim of 2.x"
            )
        md = Md(20, head["hop_words"], head["remaining_hops"], head["instructions"],
        bool(head["hops_exceeded"]),
                bool(head["mtu_exceeded"]), discard=bool(head["discard"]), domain_id=head["domain_id"],
                ds_instruction=head["ds_instruction"], ds_flags=head["ds_flags"])  # fmt: skip
        least = 3
    if shim.length < least:
        raise WireError(
            Reason.BAD_LENGTH,
            Place.INT_SHIM,
            start - 4,
            f"shim length {shim.length}, at least {least} words are needed",
        )
    words = layout.metadata_size(HOP_ITEMS[md.version], md.instructions) // 4
    domain = md.ds_instruction != 0 and md.hop_words > words
    if md.hop_words == 0 or (md.hop_words != words and not domain):
        raise WireError(
            Reason.BAD_HOP_SIZE,
            place,
            start,
            f"{md.hop_words} words a hop, 0x{md.instructions:04x} implies {words}",
        )
    return md


def _md_0_5(buf: Buffer) -> Md:
    head = buf.pull(layout.MD_0_5, Place.INT_HEADER)
    remaining = max(head["max_hops"] - head["total_hops"], 0)
    return Md(5, head["hop_words"], remaining, head["instructions"], bool(head["hops_exceeded"]),
              copy=bool(head["copy"]), total_hops=head["total_hops"])  # fmt: skip


def _md_1_0(buf: Buffer) -> Md:
    head = buf.pull(layout.MD_1_0, Place.INT_HEADER)
    return Md(10, head["hop_words"], head["remaining_hops"], head["instructions"],
    bool(head["hops_exceeded"]),
              bool(head["mtu_exceeded"]), copy=bool(head["copy"]))  # fmt: skip


def push_md(out: bytearray, md: Md) -> None:
    """Append the header."""
    common = {"hop_words": md.hop_words, "instructions": md.instructions, "hops_exceeded": md.hops_exceeded}
    if md.version == 5:
        most = min(md.remaining_hops + md.total_hops, 255)
        push(out, layout.MD_0_5, {**common, "copy": md.copy, "max_hops": most, "total_hops": md.total_hops})
        return
    common |= {"remaining_hops": md.remaining_hops, "mtu_exceeded": md.mtu_exceeded}
    if md.version == 10:
        push(out, layout.MD_1_0, {**common, "version": 1, "copy": md.copy})
    else:
        push(out, layout.MD_2_0, {
            **common, "version": 2, "discard": md.discard, "domain_id": md.domain_id,
            "ds_instruction": md.ds_instruction, "ds_flags": md.ds_flags,
        })  # fmt: skip


def stack_size(shim: Shim, md: Md) -> int:
    """Bytes of the stack, from the shim's length."""
    return 4 * shim.length - {5: 16, 10: 12, 20: 12}[md.version]


def pull_stack(buf: Buffer, shim: Shim, md: Md) -> list[Hop]:
    """The hops in path order, and move behind the stack.

    Domain-specific metadata is skipped, in each hop and (what the source alone adds) in the last record of
    the stack, the source's.
    Raises WireError: `bad_length` where the stack is no whole number of hops, truncated, `too_many_hops`.
    """
    start, place = buf.at, Place.INT_STACK
    size, hop_size = stack_size(shim, md), 4 * md.hop_words
    hops, rest = divmod(size, hop_size)
    if md.version == 5 and size != hop_size * md.total_hops:
        raise WireError(
            Reason.BAD_LENGTH,
            place,
            start,
            f"{md.total_hops} hops of {hop_size} bytes, the shim's length leaves {size}",
        )
    if rest and md.ds_instruction == 0:
        raise WireError(
            Reason.BAD_LENGTH, place, start, f"{size} bytes are no whole number of {hop_size}-byte hops"
        )
    buf.need(size, place, "INT stack")
    if hops > MAX_HOPS:
        raise WireError(Reason.TOO_MANY_HOPS, place, start, f"{hops} hops, at most {MAX_HOPS} are read")
    items = HOP_ITEMS[md.version]
    sizes = [hop_size] * (hops - 1) + [hop_size + rest]
    path = [
        pull_metadata(buf.raw, start + i * hop_size, items, md.instructions, sizes[i]) for i in range(hops)
    ]
    buf.at = start + size
    return path[::-1]


def push_stack(out: bytearray, md: Md, hops: list[Hop]) -> None:
    """Append hops that are given in path order."""
    for hop in reversed(hops):
        push_metadata(out, HOP_ITEMS[md.version], md.instructions, hop, 4 * md.hop_words)


def pull_metadata(raw: bytes, at: int, items: tuple[Item, ...], bitmap: int, size: int) -> Hop:
    """The values that `bitmap` names, from `size` bytes at `at` that are known to be there."""
    hop = Hop()
    end = at + size
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        # INT 2.1 5.7: the checksum complement is the last word, behind domain-specific metadata
        start = end - item.size if item.have == layout.CHECKSUM.have else at
        number = int.from_bytes(raw[start : start + item.size], "big")
        at += item.size
        if item.have:
            hop.present |= item.have
            if number == (1 << 8 * item.size) - 1:
                hop.null |= item.have
            for name, shift, mask in item.fields.shifts:
                setattr(hop, name, number >> shift & mask)
    return hop


def push_metadata(out: bytearray, items: tuple[Item, ...], bitmap: int, hop: object, size: int) -> None:
    """Append `size` bytes with the values that `bitmap` names; fillers are all ones, other room is 0."""
    end = len(out) + size
    checksum = bitmap & 1 and items[15].have == layout.CHECKSUM.have
    for bit, item in enumerate(items):
        if bitmap >> (15 - bit) & 1 and not (bit == 15 and checksum):
            if item is layout.FILLER:
                out += b"\xff" * 4
            else:
                push(out, item.fields, {name: int(getattr(hop, name)) for name, _, _ in item.fields.shifts})
    out += bytes(end - len(out) - (4 if checksum else 0))
    if checksum:
        push(out, layout.CHECKSUM.fields, {"checksum_complement": int(getattr(hop, "checksum_complement"))})  # noqa: B009


def pull_tail(buf: Buffer) -> Tail:
    """The tail of 0.5. Raises WireError where it is cut."""
    return Tail(**buf.pull(layout.TAIL_0_5, Place.INT_TAIL))


def push_tail(out: bytearray, tail: Tail) -> None:
    """Append the tail of 0.5."""
    push(out, layout.TAIL_0_5, {"protocol": tail.protocol, "dport": tail.dport, "dscp": tail.dscp})
