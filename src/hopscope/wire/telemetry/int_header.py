"""INT in a packet: shim, INT-MD or INT-MX header. Hops and the tail of 0.4 and 0.5 are in `hop_stack`.

It handles five versions of the header, five carriers of the shim, and the changes of a `Dialect`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout, rules
from ..buffer import Buffer, push
from ..dialect import DEFAULT, Dialect
from ..errors import WireError
from ..fields import Header
from ..layout import Item
from ..reasons import Place, Reason
from ..records import Carrier
from ..versions import COUNTED, NIBBLES, REPORT_INDEX

MODE_MD = 1
MODE_DESTINATION = 2
MODE_MX = 3

KIND_OF: dict[int, int] = {
    1: layout.INT_2015, 4: layout.INT_0_4, 5: layout.INT_0_5, 10: layout.INT_1_0, 20: layout.INT_2_0,
}  # fmt: skip
"""Kind of metadata of an INT version."""
_IN_L4 = (Carrier.TCP, Carrier.UDP, Carrier.UDP_INSERTED)
_NPT_MASKS = (0x3F, 0xFFFF, 0xFF)


@dataclass(slots=True)
class Shim:
    """The shim of any version and carrier."""

    old: bool
    """The shim of INT 0.5 and 1.0; otherwise 2.x. Over Geneve the header after it decides: False."""
    type: int = MODE_MD
    length: int = 0
    """Length in words: including the shim (and the tail in 0.4 and 0.5), in 2.x without; Geneve: option's
    body.
    """
    npt: int = 0
    """2.x over TCP and UDP: kind of `original`: 0 DSCP, 1 UDP destination port, 2 IP protocol."""
    original: int = 0
    """DSCP, port or protocol of the packet before INT was added; over TCP and UDP only."""
    next_protocol: int = 0
    """GRE: EtherType of the packet after INT; VXLAN-GPE: its next protocol."""
    added: bool = False
    """GRE and VXLAN-GPE of 2.x: the G bit, that is, the INT source added the tunnel."""
    carrier: int = Carrier.UDP
    """`records.Carrier`."""
    numbered: bool = False
    """Whether the flow's sequence number, 4 bytes that Length includes, follows the stack (Host INT)."""


@dataclass(slots=True)
class Md:
    """The INT-MD header of any version (1, 4, 5, 10, 20), and INT-MX (20)."""

    version: int
    hop_words: int = 0
    """Words of a hop. Up to 0.5 the header counts instructions, which is the same unless a dialect has wider
    items. 0 in INT-MX without a record.
    """
    remaining_hops: int = 0
    instructions: int = 0
    """The bitmap in the order of the specifications: swapped back if a dialect swaps it."""
    hops_exceeded: bool = False
    mtu_exceeded: bool = False
    copy: bool = False
    discard: bool = False
    total_hops: int = 0
    """Up to 0.5 only."""
    domain_id: int = 0
    ds_instruction: int = 0
    ds_flags: int = 0


# ------------------------------------------------------------------------------------------------------ shim


def pull_shim(buf: Buffer, carrier: int = Carrier.UDP, dialect: Dialect = DEFAULT) -> Shim:
    """Read the shim; its first byte (Geneve: the option's type) gives the mode, and distinguishes 0.5 and 1.0
    from 2.x.

    Raises WireError: truncated, or `unknown_type` for a type that neither specification nor dialect defines.
    """
    place, start = Place.INT_SHIM, buf.at
    header, rule, kind = _shim_header(buf, carrier, dialect)
    if rule & 15 == 0:
        raise WireError(Reason.UNKNOWN_TYPE, place, start, f"{header.name} of type 0x{kind:02x}")
    head = buf.pull(header, place)
    length = head["words"] if carrier == Carrier.GENEVE else head["length"]
    shim = Shim(bool(rule & 16), rule & 15, length, carrier=carrier, numbered=bool(rule & 32))
    shim.next_protocol = head.get("next_protocol", 0)
    shim.added = bool(head.get("gre_added", 0) or head.get("gpe_added", 0))
    if header is layout.SHIM_OLD:
        shim.original = head["dscp"]
    elif header is layout.SHIM_2_0:
        shim.npt = head["next_protocol_type"]
        if shim.npt < len(_NPT_MASKS):
            shim.original = head["original"] >> dialect.npt_shifts[shim.npt] & _NPT_MASKS[shim.npt]
        if shim.npt == 1 and carrier == Carrier.UDP_INSERTED:
            shim.carrier = Carrier.UDP  # only the port differs (INT 2.1 section 4.6.2)
    return shim


def _shim_header(buf: Buffer, carrier: int, dialect: Dialect) -> tuple[Header, int, int]:
    """(its layout, row of `rules.SHIM`, the byte with the type) of the shim at this position."""
    buf.need(4, Place.INT_SHIM, "INT shim")
    table = dialect.table()
    if carrier == Carrier.GENEVE:
        kind = buf.raw[buf.at + 2]
        return layout.GENEVE_OPTION, kind if kind in (MODE_MD, MODE_DESTINATION, MODE_MX) else 0, kind
    kind = buf.raw[buf.at]
    if carrier == Carrier.GRE or (carrier == Carrier.VXLAN_GPE and kind >= 16):
        # these have G and reserved bits in place of the next protocol type over TCP and UDP
        rule = int(table[rules.SHIM + (kind & 0xF0)])
        header = layout.SHIM_GRE_2_0 if carrier == Carrier.GRE else layout.SHIM_GPE_2_0
        return header, 0 if rule & 16 else rule, kind
    rule = int(table[rules.SHIM + kind])
    if carrier == Carrier.VXLAN_GPE:
        return layout.SHIM_GPE_OLD, rule if rule & 16 else 0, kind
    return layout.SHIM_OLD if rule & 16 else layout.SHIM_2_0, rule, kind


def push_shim(out: bytearray, shim: Shim, dialect: Dialect = DEFAULT, first: int | None = None) -> None:
    """Append the shim; `first`: its first byte, if a dialect differs from the specifications."""
    start = len(out)
    values = {"type": shim.type, "length": shim.length, "next_protocol": shim.next_protocol}
    if shim.carrier == Carrier.GENEVE:
        class_ = dialect.geneve_classes[0]
        push(out, layout.GENEVE_OPTION, {"class": class_, "type": shim.type, "words": shim.length})
        return
    if shim.carrier == Carrier.GRE:
        push(out, layout.SHIM_GRE_2_0, {**values, "gre_added": shim.added})
    elif shim.carrier == Carrier.VXLAN_GPE:
        if shim.old:
            push(out, layout.SHIM_GPE_OLD, values)
        else:
            push(out, layout.SHIM_GPE_2_0, {**values, "gpe_added": shim.added})
    elif shim.old:
        push(out, layout.SHIM_OLD, {**values, "dscp": shim.original})
    else:
        original = shim.original << dialect.npt_shifts[shim.npt]
        push(out, layout.SHIM_2_0, {**values, "next_protocol_type": shim.npt, "original": original})
    if first is not None:
        out[start] = first


# ---------------------------------------------------------------------------------------------------- header


def pull_md(buf: Buffer, shim: Shim, dialect: Dialect = DEFAULT, report_version: int = 0) -> Md:
    """Read the INT-MD or INT-MX header after `shim`, in a packet from a report of `report_version` (5, 10,
    20; 0 none).

    Raises WireError: truncated, `unsupported` for destination-type INT, `unknown_version`, `bad_length` if
    the shim leaves no room for it, `unknown_instructions` if all bits of the instruction bitmap are reserved,
    and `bad_hop_size` if the hop size is zero or contradicts the bitmap.
    """
    start, place = buf.at, Place.INT_HEADER
    if shim.type == MODE_DESTINATION:
        raise WireError(Reason.UNSUPPORTED, Place.INT_SHIM, start - 4, "destination-type INT is not decoded")
    geneve = shim.carrier == Carrier.GENEVE
    buf.need(8 if shim.old or geneve else 12, place, "INT header")
    nibble = buf.raw[start] >> 4
    version = 0 if shim.old else _layouts(dialect, True, report_version)[nibble]
    if version == 0 and (shim.old or geneve):
        version = _layouts(dialect, False, report_version)[nibble]
    if version == 0 or (shim.type == MODE_MX and version != 20):
        behind = "0.5 or 1.0" if shim.old else "2.x"
        raise WireError(
            Reason.UNKNOWN_VERSION, place, start, f"INT version {nibble} behind a shim of {behind}"
        )
    if version == 20:
        buf.need(12, place, "INT header")
    least = overhead(shim, version, dialect) + (has_tail(shim, version) and not shim.numbered)
    if shim.length < least and not is_open(shim, dialect):
        raise WireError(
            Reason.BAD_LENGTH,
            Place.INT_SHIM,
            start - 4,
            f"shim length {shim.length}, at least {least} words are needed",
        )
    if shim.type == MODE_MX:
        return _mx(buf, shim, dialect)
    md = _md_2_0(buf, dialect) if version == 20 else _md_old(buf, version)
    md.instructions = _meaning(md.instructions, dialect)
    items, bits = form_of(md, dialect)
    words = layout.metadata_size(items, bits) // 4
    if version in COUNTED and md.hop_words == md.instructions.bit_count():
        md.hop_words = words  # the header counts instructions, some of which are wider in this dialect
    domain = md.ds_instruction != 0 and md.hop_words > words
    if md.instructions and not bits & ~_reserved(items) and (not domain or md.hop_words == 0):
        raise WireError(
            Reason.UNKNOWN_INSTRUCTIONS,
            place,
            start,
            f"all bits of 0x{md.instructions:04x} are reserved: perhaps its bytes are swapped",
        )
    if md.hop_words == 0 or (md.hop_words != words and not domain):
        raise WireError(
            Reason.BAD_HOP_SIZE,
            place,
            start,
            f"{md.hop_words} words a hop, 0x{md.instructions:04x} implies {words}",
        )
    return md


def _layouts(dialect: Dialect, new: bool, report_version: int) -> list[int]:
    """INT versions by version nibble."""
    at = rules.INT_LAYOUT + (new * 4 + REPORT_INDEX[report_version]) * 16
    return dialect.table()[at : at + 16].tolist()


def _meaning(bitmap: int, dialect: Dialect) -> int:
    """An instruction bitmap of the wire in the order of the specifications, or the reverse."""
    if dialect.reversed:
        return int(f"{bitmap:016b}"[::-1], 2)
    return (bitmap << 8 | bitmap >> 8) & 0xFFFF if dialect.swapped else bitmap


def _md_old(buf: Buffer, version: int) -> Md:
    header = layout.MD_1_0 if version == 10 else layout.MD_0_5 if version == 5 else layout.MD_0_4
    head = buf.pull(header, Place.INT_HEADER)
    md = Md(version, head["hop_words"], 0, head["instructions"], bool(head["hops_exceeded"]),
            copy=bool(head["copy"]))  # fmt: skip
    if version == 10:
        md.remaining_hops, md.mtu_exceeded = head["remaining_hops"], bool(head["mtu_exceeded"])
    else:
        md.remaining_hops = max(head["max_hops"] - head["total_hops"], 0)
        md.total_hops = head["total_hops"]
    return md


def _md_2_0(buf: Buffer, dialect: Dialect) -> Md:
    start = buf.at
    head = buf.pull(layout.MD_2_0, Place.INT_HEADER)
    word = int.from_bytes(buf.raw[start : start + 4], "big")
    discard, exceeded, mtu = (bool(word >> shift & 1) for shift in dialect.md_shifts)
    domain = (int.from_bytes(buf.raw[start + at : start + at + 2], "big") for at in dialect.ds_offsets)
    return Md(20, head["hop_words"], head["remaining_hops"], head["instructions"], exceeded, mtu, False,
              discard, 0, *domain)  # fmt: skip


def _mx(buf: Buffer, shim: Shim, dialect: Dialect) -> Md:
    md = _md_2_0(buf, dialect)
    md.instructions = _meaning(md.instructions, dialect)
    md.remaining_hops, md.hops_exceeded, md.mtu_exceeded, md.hop_words = 0, False, False, 0
    if dialect.mx_record and md.instructions:
        md.hop_words = max(shim.length - overhead(shim, 20, dialect), 0)  # selects its form
        md.hop_words = layout.metadata_size(*form_of(md, dialect)) // 4
    return md


def push_md(out: bytearray, md: Md, dialect: Dialect = DEFAULT, mode: int = MODE_MD) -> None:
    """Append the header, with the version nibble that stands for its version in `dialect`."""
    start = len(out)
    _push_md(out, md, dialect, mode)
    versions = _layouts(dialect, md.version == 20, 0)
    known = [nibble for nibble in (0, 1, 2, 4, *range(16)) if versions[nibble] == md.version]
    usual = NIBBLES[md.version]
    nibble = usual if usual in known or not known else known[0]
    out[start] = out[start] & 0x0F | nibble << 4


def _push_md(out: bytearray, md: Md, dialect: Dialect, mode: int) -> None:
    words, bitmap = md.hop_words, _meaning(md.instructions, dialect)
    if md.version in COUNTED and layout.metadata_size(*form_of(md, dialect)) > 4 * bitmap.bit_count():
        words = bitmap.bit_count()
    common = {"hop_words": words, "instructions": bitmap, "hops_exceeded": md.hops_exceeded}
    if md.version in COUNTED:
        most = min(md.remaining_hops + md.total_hops, 255)
        push(out, layout.MD_0_5 if md.version == 5 else layout.MD_0_4, {
            **common, "copy": md.copy, "max_hops": most, "total_hops": md.total_hops,
        })  # fmt: skip
        return
    common |= {"remaining_hops": md.remaining_hops, "mtu_exceeded": md.mtu_exceeded}
    if md.version == 10:
        push(out, layout.MD_1_0, {**common, "copy": md.copy})
        return
    start = len(out)
    if mode == MODE_MX:
        push(out, layout.MX_2_1, {"instructions": bitmap})
    else:
        push(out, layout.MD_2_0, {
            "hop_words": words, "remaining_hops": md.remaining_hops, "instructions": bitmap,
        })  # fmt: skip
    path = mode != MODE_MX  # without a path there are no hops to exceed
    flags = (md.discard, path and md.hops_exceeded, path and md.mtu_exceeded)
    word = sum(flag << shift for flag, shift in zip(flags, dialect.md_shifts, strict=True))
    word |= int.from_bytes(out[start : start + 4], "big")
    out[start : start + 4] = word.to_bytes(4, "big")
    values = (md.domain_id, md.ds_instruction, md.ds_flags)
    for at, value in zip(dialect.ds_offsets, values, strict=True):
        out[start + at : start + at + 2] = value.to_bytes(2, "big")


# ----------------------------------------------------------------------------------------- form and lengths


def form_of(md: Md, dialect: Dialect = DEFAULT) -> tuple[tuple[Item, ...], int]:
    """Form of the hops of this header: (items by bit, bits of the bitmap that take room).

    It is the first form, among the dialect's alternatives and then these without the reserved bits, whose
    size is the hop size; otherwise the usual one. (INT 1.0, 4.7: a node that does not know a bit adds 4 bytes
    of ones, or nothing.)
    """
    alternatives = dialect.alternatives(KIND_OF[md.version])
    forms = [(items, md.instructions) for items in alternatives]
    forms += [(items, md.instructions & ~_reserved(items)) for items in alternatives]
    for form in forms:
        if md.hop_words and layout.metadata_size(*form) == 4 * md.hop_words:
            return form
    return forms[0]


def _reserved(items: tuple[Item, ...]) -> int:
    return sum(0x8000 >> bit for bit, item in enumerate(items) if not item.have)


def overhead(shim: Shim, version: int, dialect: Dialect) -> int:
    """Words of the shim's length that are neither stack nor tail."""
    if shim.carrier == Carrier.GENEVE:
        words = 3 if version == 20 else 2
    else:
        words = 3 + (version == 20 and dialect.length_with_shim)
    return words + shim.numbered


def has_tail(shim: Shim, version: int) -> bool:
    """Whether INT of this version has a tail after this shim (Host INT may lack it)."""
    return version in (4, 5) and shim.carrier in _IN_L4


def is_open(shim: Shim, dialect: Dialect) -> bool:
    """Whether Length is 0 in a dialect in which this means that the length is not stated."""
    return dialect.any_shim_length and shim.length == 0 and shim.carrier != Carrier.GENEVE
