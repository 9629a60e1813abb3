"""The `int` and `hops` of an object as bytes: shims, INT headers, stacks, tails, by the dialect's table."""

from __future__ import annotations

from dataclasses import dataclass

from . import int_header, layout, rules
from .buffer import push
from .craft_keys import CraftError, Keys
from .craft_metadata import bitmap_of, hop_of
from .dialect import Dialect
from .int_header import Md
from .layout import Item
from .records import MAX_HOPS

VERSIONS = {"2015": 1, "0.4": 4, "0.5": 5, "1.0": 10, "2": 20}
MODES = {"md": 1, "destination": 2, "mx": 3}
CARRIERS = ("tcp", "udp", "gre", "vxlan_gpe", "geneve", "udp_inserted")
_KINDS = {
    1: layout.INT_2015, 4: layout.INT_0_4, 5: layout.INT_0_5, 10: layout.INT_1_0, 20: layout.INT_2_0,
}  # fmt: skip
_REPORTS = {0: 0, 5: 1, 10: 2, 20: 3}
_NIBBLES = {1: 0, 4: 4, 5: 0, 10: 1, 20: 2}
_USUAL = {0: "2", 5: "0.5", 10: "1.0", 20: "2"}
_HOPS = 8
_UNSAID = 0x8000
"""DS instruction of hops that are longer than their instructions imply, where none is given."""


@dataclass(slots=True)
class Telemetry:
    """INT of one packet, ready to be carried."""

    version: int
    mode: int
    carrier: str
    """A word of CARRIERS; empty: the packet's own L4 protocol."""
    npt: int
    body: bytes
    """The header and the stack."""
    report: int
    """Version of the report that brings the packet; 0 for none."""

    @property
    def old(self) -> bool:
        """Whether the shim is that of 0.5 and 1.0."""
        return self.version < 20


def telemetry_of(keys: Keys, report: int, dialect: Dialect) -> Telemetry | None:
    """The INT that an object describes by `int` and `hops`; None where it has neither."""
    if not keys.has("int") and not keys.raw("hops"):
        return None
    head, hops = keys.part("int"), [one for one in keys.parts("hops") if not one.flag("in_report")]
    version = VERSIONS[head.word("version", VERSIONS, _USUAL[report])]
    mode = MODES[head.word("mode", MODES, "md")]
    if len(hops) > MAX_HOPS:
        raise CraftError("hops", f"found {len(hops)}, expected {MAX_HOPS} at most")
    names = {name for hop in hops for name in hop.names()}
    items, bitmap, words, implied = _size(head, version, mode, names, dialect)
    md = Md(
        version, words, instructions=bitmap, total_hops=len(hops),
        remaining_hops=head.number("remaining_hops", 255, max(_HOPS - len(hops), 0)),
        hops_exceeded=head.flag("hops_exceeded"),
    )  # fmt: skip
    if version not in (1, 4, 5):
        md.mtu_exceeded = head.flag("mtu_exceeded")
    if version == 20:
        md.domain_id = head.number("domain_id", 0xFFFF, 0)
        md.ds_instruction = head.number("ds_instruction", 0xFFFF, _UNSAID * (mode != 3 and words > implied))
        md.ds_flags = head.number("ds_flags", 0xFFFF, 0)
    npt = head.number("npt", 2, 0) if version == 20 else 0
    carrier = head.word("carrier", CARRIERS, "")
    head.close(f"INT {head.raw('version') or _USUAL[report]}")
    path = [hop_of(hop, items, bitmap) for hop in hops]
    for hop in hops:
        hop.close(f"a hop of instructions 0x{bitmap:04x}")
    body = bytearray()
    _push_header(body, md, mode, report, dialect)
    for one in reversed(path):
        int_header.push_metadata(body, items, bitmap, one, 4 * words)
    return Telemetry(version, mode, carrier, npt, bytes(body), report)


def _size(
    head: Keys, version: int, mode: int, names: set[str], dialect: Dialect
) -> tuple[tuple[Item, ...], int, int, int]:
    """What the bits stand for, the bitmap, the words of a hop, and those that the bitmap implies."""
    choices = dialect.alternatives(_KINDS[version])
    bitmap = head.number("instructions", 0xFFFF, max(bitmap_of(items, names) for items in choices))
    sizes = [layout.metadata_size(items, bitmap) // 4 for items in choices]
    words = head.number("hop_words", 31, sizes[0])
    if mode == 3:
        return choices[0], bitmap, words, sizes[0]
    at = sizes.index(words) if words in sizes else 0
    if words < sizes[at] or (words > sizes[at] and version != 20):
        raise head.wrong("hop_words", f"{sizes[at]}, as the instructions 0x{bitmap:04x} imply")
    if words == 0:
        raise CraftError("hops", "no key of a hop is given, and no instructions")
    return choices[at], bitmap, words, sizes[at]


def _push_header(out: bytearray, md: Md, mode: int, report: int, dialect: Dialect) -> None:
    start = len(out)
    int_header.push_md(out, md)
    table = dialect.table()
    row = rules.INT_LAYOUT + ((md.version == 20) * 4 + _REPORTS[report]) * 16
    wanted = [_NIBBLES[md.version], *range(16)]
    for nibble in wanted:
        if table[row + nibble] == md.version:
            out[start] = out[start] & 15 | nibble << 4
            break
    else:
        raise CraftError("int.version", f"dialect {dialect.name} has no such INT here")


def push_l4(out: bytearray, one: Telemetry, original: int, tail: tuple[int, int], dialect: Dialect) -> None:
    """Append the INT behind a TCP or UDP header: marker, shim, header, stack, tail.

    `original` is what the shim says of the packet as it was before (by NPT: DSCP, port, protocol); `tail`
    the protocol and port that 0.5 repeats.
    """
    out += dialect.marker
    words = len(one.body) // 4
    if one.old:
        words += 2 if one.version in (4, 5) else 1
        head, shift = layout.SHIM_OLD, 0
    else:
        head, shift = layout.SHIM_2_0, int(dialect.npt_shifts[one.npt])
    if words > 255:
        raise CraftError("hops", f"the stack takes {words} words, a shim can say 255 at most")
    byte = _first_of_shim(one, dialect)
    push(out, head, {"length": words})
    out[-4] = byte
    if not one.old:
        out[-2:] = (original << shift & 0xFFFF).to_bytes(2, "big")
    if dialect.table()[rules.SHIM + byte] & 32:
        out += bytes(4)
    out += one.body
    if one.version in (4, 5):
        int_header.push_tail(out, int_header.Tail(*tail))


def _first_of_shim(one: Telemetry, dialect: Dialect) -> int:
    shims = dialect.table()[rules.SHIM : rules.SHIM + 256]
    usual = one.mode if one.old else one.mode << 4 | one.npt << 2
    wanted = one.mode | 16 * one.old
    for byte in (usual, *range(256)):
        if shims[byte] & 31 == wanted and (one.old or byte >> 2 & 3 == one.npt):
            return int(byte)
    raise CraftError("int.mode", f"dialect {dialect.name} has no shim for it")
