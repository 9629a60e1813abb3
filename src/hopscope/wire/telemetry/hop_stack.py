"""The parts after an INT header: the stack of hops, newest first on the wire, and the tail of 0.4 and 0.5."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout
from ..buffer import Buffer, push
from ..dialect import DEFAULT, Dialect
from ..errors import WireError
from ..layout import Item
from ..reasons import Place, Reason
from ..records import HOP_MAX, Hop
from ..versions import COUNTED
from .int_header import MODE_MX, Md, Shim, form_of, has_tail, is_open, overhead


@dataclass(slots=True)
class Tail:
    """Values that 0.4 and 0.5 keep after the stack: the packet's own protocol, port and DSCP."""

    protocol: int = 0
    dport: int = 0
    dscp: int = 0


def _stack_words(buf: Buffer, shim: Shim, md: Md, dialect: Dialect) -> int:
    """Words of the stack."""
    counted = md.total_hops * md.hop_words
    if is_open(shim, dialect):
        if md.version in COUNTED:
            return counted
        if shim.type == MODE_MX:
            return md.hop_words
        return buf.left // (4 * md.hop_words) * md.hop_words if md.hop_words else 0
    words = shim.length - overhead(shim, md.version, dialect)
    if has_tail(shim, md.version) and not (shim.numbered and words == counted):
        words -= 1
    return words


def records_of(buf: Buffer, shim: Shim, md: Md, dialect: Dialect = DEFAULT) -> tuple[int, list[int]]:
    """(hops, bytes of each record) of the stack at this position, in wire order.

    Metadata that only the source adds belongs to the last record, or is a record without a hop if there are
    no hops; after an INT-MX header there is one record, or none.

    Raises WireError: `bad_length` if the stack is not a whole number of hops.
    """
    start, place = buf.at, Place.INT_STACK
    size, hop_size = 4 * _stack_words(buf, shim, md, dialect), 4 * md.hop_words
    if shim.type == MODE_MX:
        if size < hop_size:
            raise WireError(Reason.BAD_LENGTH, place, start, f"{size} bytes for a record of {hop_size}")
        return int(hop_size > 0), [size] if size else []
    source = 4 * dialect.source_words if md.ds_flags else 0
    if source > size:
        raise WireError(Reason.BAD_LENGTH, place, start, f"{size} bytes, the source alone adds {source}")
    hops = (size - source) // hop_size
    rest = size - hops * hop_size
    if md.version in COUNTED and size != hop_size * md.total_hops:
        raise WireError(
            Reason.BAD_LENGTH,
            place,
            start,
            f"{md.total_hops} hops of {hop_size} bytes, the shim's length leaves {size}",
        )
    if rest and md.ds_instruction == 0 and md.ds_flags == 0:
        raise WireError(
            Reason.BAD_LENGTH, place, start, f"{size} bytes are no whole number of {hop_size}-byte hops"
        )
    if hops == 0:
        return 0, [rest] if rest else []
    return hops, [hop_size] * (hops - 1) + [hop_size + rest]


def push_stack(out: bytearray, md: Md, hops: list[Hop], dialect: Dialect = DEFAULT) -> None:
    """Append hops, given in path order."""
    items, bitmap = form_of(md, dialect)
    start = len(out)
    for hop in reversed(hops):
        push_metadata(out, items, bitmap, hop, 4 * md.hop_words)
    if md.version == 1 and hops:
        for at in range(start, len(out), 4):
            out[at] &= 0x7F
        out[-4] |= 0x80


def push_metadata(out: bytearray, items: tuple[Item, ...], bitmap: int, hop: object, size: int) -> None:
    """Append `size` bytes with the values that `bitmap` names; reserved bits, and values in the hop's `null`,
    are all ones, other room is 0.
    """
    end = len(out) + size
    null = int(getattr(hop, "null"))  # noqa: B009
    last: Item | None = None
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        if item.have == layout.CHECKSUM.have:
            last = item
        elif item.have & ~null:
            names = [name for name, _, _ in item.fields.shifts if name in HOP_MAX]
            push(out, item.fields, {name: int(getattr(hop, name)) for name in names})
        else:
            out += b"\xff" * item.size
    out += bytes(end - len(out) - (last.size if last else 0))
    if last and null & last.have:
        out += b"\xff" * last.size
    elif last:
        push(out, last.fields, {"checksum_complement": int(getattr(hop, "checksum_complement"))})  # noqa: B009


def push_tail(out: bytearray, tail: Tail) -> None:
    """Append the tail of 0.4 and 0.5."""
    push(out, layout.TAIL_0_5, {"protocol": tail.protocol, "dport": tail.dport, "dscp": tail.dscp})
