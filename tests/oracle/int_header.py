"""INT header and stack into rows."""

from __future__ import annotations

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.layout import Item
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import HOP_MAX, MAX_HOPS, Carrier, Hop, IntFlag
from hopscope.wire.telemetry.hop_stack import Tail, records_of
from hopscope.wire.telemetry.int_header import (
    Md,
    Shim,
    _layouts,
    _md_2_0,
    _md_old,
    _meaning,
    form_of,
    has_tail,
    is_open,
    overhead,
    pull_md,
    pull_shim,
)
from hopscope.wire.versions import COUNTED

_BOTTOM = 1 << 31


def row_fields(shim: Shim, md: Md, at: int) -> dict[str, int]:
    """Columns of REPORT that the shim, and the header at byte `at` of the frame, fill."""
    flags = (
        IntFlag.HOPS_EXCEEDED * md.hops_exceeded
        | IntFlag.MTU_EXCEEDED * md.mtu_exceeded
        | IntFlag.DISCARD * md.discard
        | IntFlag.COPY * md.copy
    )
    return {
        "int_version": md.version, "int_mode": shim.type, "instructions": md.instructions,
        "hop_words": md.hop_words, "remaining_hops": md.remaining_hops, "int_flags": flags,
        "domain_id": md.domain_id, "ds_instruction": md.ds_instruction, "ds_flags": md.ds_flags,
        "int_at": at, "carrier": shim.carrier, "npt": shim.npt,
    }  # fmt: skip


def pull_header(
    buf: Buffer, carrier: int, dialect: Dialect, report_version: int, row: dict[str, int]
) -> tuple[Shim, Md, int]:
    """(shim, header, offset of the header).

    Raises WireError; `row` gets the columns of a header that is rejected, if its lengths agree.
    """
    shim = pull_shim(buf, carrier, dialect)
    at = buf.at
    try:
        return shim, pull_md(buf, shim, dialect, report_version), at
    except WireError as error:
        if error.reason in (Reason.BAD_HOP_SIZE, Reason.UNKNOWN_INSTRUCTIONS):
            buf.at = at
            md = _unread(buf, shim, dialect, report_version)
            if md is not None:
                row |= row_fields(shim, md, at)
        raise


def _unread(buf: Buffer, shim: Shim, dialect: Dialect, report_version: int) -> Md | None:
    """The header of INT whose hop size or instructions are not understood; None where its lengths do not
    agree: it may be ordinary traffic.
    """
    old, geneve = shim.old, shim.carrier == Carrier.GENEVE
    nibble = buf.raw[buf.at] >> 4
    version = 0 if old else _layouts(dialect, True, report_version)[nibble]
    version = version or (_layouts(dialect, False, report_version)[nibble] if old or geneve else 0)
    tail = has_tail(shim, version)
    start = buf.at
    md = _md_2_0(buf, dialect) if version == 20 else _md_old(buf, version)
    stack, buf.at = buf.at, start
    md.instructions = _meaning(md.instructions, dialect)
    if version in COUNTED and md.hop_words == md.instructions.bit_count():
        md.hop_words = layout.metadata_size(*form_of(md, dialect)) // 4
    words = shim.length - overhead(shim, version, dialect) - tail
    hops = md.total_hops if version in COUNTED else md.hop_words
    fits = words >= 0 and stack + 4 * words <= min(buf.end, buf.limit)
    whole = words == 0 if hops == 0 else words % hops == 0
    return md if fits and whole and not is_open(shim, dialect) else None


def pull_stack(buf: Buffer, shim: Shim, md: Md, dialect: Dialect = DEFAULT) -> tuple[list[Hop], Tail | None]:
    """(hops in path order, tail), and move behind all that the shim's length counts.

    Domain-specific metadata is skipped, in each hop and (what the source alone adds) in the last record of
    the stack, the source's.  INT-MX has no hops, unless the dialect has the node's record behind its header.
    Raises WireError: `bad_length` where the stack is no whole number of hops, truncated, `too_many_hops`,
    and `bad_bottom` where the bottom-of-stack bit of 2015 is not on the last word alone.
    """
    start, place = buf.at, Place.INT_STACK
    hops, sizes = records_of(buf, shim, md, dialect)
    size = sum(sizes)
    buf.need(size + 4 * shim.numbered, place, "INT stack")
    if hops > MAX_HOPS:
        raise WireError(Reason.TOO_MANY_HOPS, place, start, f"{hops} hops, at most {MAX_HOPS} are read")
    if md.version == 1:
        _check_bottom(buf, size)
    items, bitmap = form_of(md, dialect)
    path = [
        pull_metadata(buf.raw, start + i * 4 * md.hop_words, items, bitmap, sizes[i], bottom=md.version == 1)
        for i in range(hops)
    ]
    buf.at = start + size + 4 * shim.numbered
    counted = overhead(shim, md.version, dialect) + size // 4
    tail = None
    if has_tail(shim, md.version) and (is_open(shim, dialect) or shim.length > counted):
        tail = pull_tail(buf)
    return path[::-1], tail


def _check_bottom(buf: Buffer, size: int) -> None:
    for at in range(buf.at, buf.at + size, 4):
        last = at + 4 == buf.at + size
        if bool(buf.raw[at] & 0x80) != last:
            what = (
                "the last word lacks the bottom-of-stack bit"
                if last
                else "the stack ends before its last word"
            )
            raise WireError(Reason.BAD_BOTTOM, Place.INT_STACK, at, what)


def pull_metadata(
    raw: bytes, at: int, items: tuple[Item, ...], bitmap: int, size: int, *, bottom: bool = False
) -> Hop:
    """The values that `bitmap` names, from `size` bytes at `at` that are known to be there.

    `bottom`: the most significant bit of each word is no part of its value (2015).  A value that is wider
    than its column in HOP saturates.
    """
    hop = Hop()
    end = at + size
    known = 0
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        # INT 2.1 5.7: the checksum complement is the last word, behind domain-specific metadata
        start = end - item.size if item.have == layout.CHECKSUM.have else at
        number = int.from_bytes(raw[start : start + item.size], "big")
        at += item.size
        if item.have:
            hop.present |= item.have
            if (number | _BOTTOM if bottom else number) != (1 << 8 * item.size) - 1:
                known |= item.have
            for name, shift, mask in item.fields.shifts:
                if name in HOP_MAX:
                    setattr(hop, name, min(number >> shift & mask, HOP_MAX[name]))
    hop.null = hop.present & ~known
    return hop


def pull_tail(buf: Buffer) -> Tail:
    """The tail of 0.4 and 0.5. Raises WireError where it is cut."""
    return Tail(**buf.pull(layout.TAIL_0_5, Place.INT_TAIL))
