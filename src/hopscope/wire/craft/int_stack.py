"""The `int` and `hops` of an object as bytes: shims, INT headers, stacks, tails, by the dialect's table."""

from __future__ import annotations

from dataclasses import dataclass

from .. import layout, rules
from ..dialect import Dialect
from ..records import MAX_HOPS, Carrier
from ..telemetry import hop_stack, int_header
from ..telemetry.int_header import Md, Shim
from ..versions import COUNTED, IFA, INT_VERSIONS, IOAM, NIBBLES, REPORT_INDEX
from . import ifa as craft_ifa
from . import ioam as craft_ioam
from .extras import domain_bytes, domain_fields, push_records
from .keys import CraftError, Keys
from .metadata import bitmap_of, hop_of
from .tunnel import Shimmed, next_protocol

MODES = {"md": int_header.MODE_MD, "mx": int_header.MODE_MX}
IN_OPTION, OWN_PROTOCOL = Carrier.IPV6_OPTION.name.lower(), Carrier.IP_PROTOCOL.name.lower()
_OWN_CARRIER = {IOAM: IN_OPTION, IFA: OWN_PROTOCOL}
"""Carriers of what is no INT, by version."""
CARRIERS = tuple(carrier.name.lower() for carrier in Carrier if carrier != Carrier.NONE)
_USUAL = {0: "2", 5: "0.5", 10: "1.0", 20: "2"}
_GPE_PROTOCOLS = {1: 0x05, 4: 0x05, 5: 0x05, 10: 0x08, 20: 0x82}
_GRE_ADDED = 0x08
_HOPS = 8
"""Default hop limit of a packet."""
_UNSAID = 0x8000
"""Default DS Instruction of hops that are longer than their instructions imply."""


@dataclass(slots=True)
class Telemetry:
    """INT of one packet, ready to be carried."""

    carrier: str
    """One of CARRIERS; empty: the packet's own L4 protocol."""
    shim: Shim
    version: int
    body: bytes
    """The header and the stack; for IOAM the whole option."""
    report: int = 0
    """Version of the report that contains the packet; 0: none."""
    ifa: craft_ifa.Stack | None = None
    """IFA in place of a body: it is around the packet's own TCP or UDP header."""


def telemetry_of(keys: Keys, report: int, dialect: Dialect) -> Telemetry | None:
    """The INT that an object describes with `int` and `hops`, in a packet inside a report of this version (0:
    not in a report); None if it has neither key.
    """
    if not keys.has("int") and not keys.raw("hops"):
        return None
    head, hops = keys.part("int"), [hop for hop in keys.parts("hops") if not hop.flag("in_report")]
    usual = _USUAL[report]
    version = INT_VERSIONS[head.word("version", INT_VERSIONS, usual)]
    carrier = head.word("carrier", CARRIERS, "")
    own = _OWN_CARRIER.get(version, "")
    if carrier and carrier != own and (own or carrier in _OWN_CARRIER.values()):
        raise head.wrong("carrier", f"{IN_OPTION} with IOAM, {OWN_PROTOCOL} with IFA, others with INT")
    if version == IFA:
        return Telemetry(OWN_PROTOCOL, Shim(False), version, b"", report, craft_ifa.stack_of(head, hops))
    if version == IOAM:
        return Telemetry(IN_OPTION, Shim(False), version, craft_ioam.option_of(head, hops))
    mode = MODES[head.word("mode", MODES, "md")]
    shim = Shim(version < 20 and carrier != "geneve", mode, carrier=_carrier(carrier))
    if version == 20 and carrier in ("", "tcp", "udp", "udp_inserted"):
        shim.npt = head.number("npt", 2, 0)
    if mode == int_header.MODE_MX and version != 20:
        raise head.wrong("mode", f"md: there is no MX of version {head.raw('version') or usual}")
    if mode == int_header.MODE_MX and hops and not dialect.mx_record:
        raise CraftError("hops", "a packet of INT-MX holds none; a node's record is its report's metadata")
    if len(hops) > MAX_HOPS:
        raise CraftError("hops", f"found {len(hops)}, expected {MAX_HOPS} at most")
    md = _header(head, version, mode, hops, dialect)
    source = b""
    if not hops and version == 20:
        source = domain_bytes(head, md, dialect)[1]
        if md.ds_flags and not source and mode != int_header.MODE_MX:
            source = bytes(4 * dialect.source_words)
    head.close(f"INT {head.raw('version') or usual}")
    items, bitmap = int_header.form_of(md, dialect)
    path = [hop_of(hop, items, bitmap) for hop in hops]
    body = bytearray()
    int_header.push_md(body, md, dialect, mode)
    body[0] = body[0] & 15 | _nibble(shim, version, report, dialect) << 4
    if version == 20:
        push_records(body, md, path, hops, dialect)
        body += source + bytes(-len(source) % 4)
    else:
        hop_stack.push_stack(body, md, path, dialect)
    for hop in hops:
        hop.close(f"a hop of instructions 0x{md.instructions:04x}")
    return Telemetry(carrier, shim, version, bytes(body), report)


def _carrier(name: str) -> int:
    return Carrier[name.upper()] if name else Carrier.UDP


def _header(head: Keys, version: int, mode: int, hops: list[Keys], dialect: Dialect) -> Md:
    names = {name for hop in hops for name in hop.names()}
    choices = dialect.alternatives(int_header.KIND_OF[version])
    bitmap = head.number(
        "instructions", 0xFFFF, max((bitmap_of(items, names) for items in choices), key=int.bit_count)
    )
    usual = layout.metadata_size(choices[0], bitmap) // 4
    md = Md(version, instructions=bitmap, total_hops=len(hops))
    parts = [part.part("extras") for part in (*hops, head)] if version == 20 else []
    domain_id, ds_instruction, ds_flags, more = domain_fields(parts, dialect)
    if mode == int_header.MODE_MX:
        md.hop_words = usual if dialect.mx_record else 0
        _take_domain(head, md, domain_id, ds_instruction, ds_flags)
        return md
    md.hop_words = head.number("hop_words", 31, usual + more)
    md.remaining_hops = head.number(
        "remaining_hops", 255 - (len(hops) if version in COUNTED else 0), max(_HOPS - len(hops), 0)
    )
    md.hops_exceeded = head.flag("hops_exceeded")
    if version not in COUNTED:
        md.mtu_exceeded = head.flag("mtu_exceeded")
    implied = layout.metadata_size(*int_header.form_of(md, dialect)) // 4
    if version == 20:
        unsaid = _UNSAID * (md.hop_words > implied)
        _take_domain(head, md, domain_id, ds_instruction or unsaid, ds_flags)
    if md.hop_words == 0:
        found = f"found only {', '.join(sorted(names))}" if names else "found no key of a hop"
        raise CraftError("hops", f"{found}, expected metadata, such as node_id, or instructions")
    if md.hop_words < implied or (md.hop_words > implied and version != 20):
        raise head.wrong("hop_words", f"{implied}, as the instructions 0x{bitmap:04x} imply")
    return md


def _take_domain(head: Keys, md: Md, domain_id: int, ds_instruction: int, ds_flags: int) -> None:
    md.domain_id = head.number("domain_id", 0xFFFF, domain_id)
    md.ds_instruction = head.number("ds_instruction", 0xFFFF, ds_instruction)
    md.ds_flags = head.number("ds_flags", 0xFFFF, ds_flags)


def _nibble(shim: Shim, version: int, report: int, dialect: Dialect) -> int:
    """The version nibble of the INT header."""
    table = dialect.table()
    old, new = (rules.INT_LAYOUT + (new * 4 + REPORT_INDEX[report]) * 16 for new in (0, 1))
    for nibble in (NIBBLES[version], *range(16)):
        if version == 20 and not shim.old:
            found = table[new + nibble]
        elif shim.old:
            found = table[old + nibble]
        else:  # over Geneve, only the header decides
            found = table[new + nibble] or table[old + nibble]
        if found == version:
            return int(nibble)
    raise CraftError("int.version", f"dialect {dialect.name} has no such INT here")


def push_l4(
    out: bytearray, telemetry: Telemetry, original: int, tail: tuple[int, ...], dialect: Dialect
) -> None:
    """Append the INT after a TCP or UDP header: marker, shim, header, stack, tail.

    `original` is the packet's value before INT was added, which the shim keeps (DSCP, port or protocol,
    depending on NPT); `tail` has the protocol and port (and DSCP) that 0.4 and 0.5 repeat.
    """
    out += dialect.marker
    shim = telemetry.shim
    shim.original = original
    first = _first_byte(telemetry, dialect)
    numbered = bool(dialect.table()[rules.SHIM + first] & 32)
    following = bytearray(4 * numbered)
    if int_header.has_tail(shim, telemetry.version):
        hop_stack.push_tail(following, hop_stack.Tail(*tail))
    shim.length = _length(telemetry, len(following) // 4, dialect)
    int_header.push_shim(out, shim, dialect, first)
    out += telemetry.body + following


def in_tunnel(telemetry: Telemetry, inside: int, dialect: Dialect) -> Shimmed:
    """The INT in the form for a GRE, VXLAN-GPE or Geneve tunnel, before a packet of EtherType `inside`."""
    out = bytearray()
    shim, first = telemetry.shim, None
    if telemetry.carrier == "geneve":
        shim.length = len(telemetry.body) // 4
        if shim.length > 31:
            raise CraftError("hops", f"INT of {shim.length} words, a Geneve option has 31 at most")
        if not dialect.geneve_classes:
            raise CraftError("int.carrier", f"dialect {dialect.name} has no Geneve class for INT")
        protocol = 0
    else:
        first = _first_byte(telemetry, dialect) | _GRE_ADDED * (shim.added and telemetry.carrier == "gre")
        shim.length = _length(telemetry, 0, dialect)
        shim.next_protocol = inside if telemetry.carrier == "gre" else next_protocol(inside)
        protocol = (
            dialect.gre_protocol if telemetry.carrier == "gre" else _gpe_protocol(telemetry.version, dialect)
        )
    int_header.push_shim(out, shim, dialect, first)
    return Shimmed(protocol, bytes(out) + telemetry.body)


def _gpe_protocol(version: int, dialect: Dialect) -> int:
    known = dialect.gpe_protocols
    if not known:
        raise CraftError("int.carrier", f"dialect {dialect.name} has no next protocol of VXLAN-GPE for INT")
    return _GPE_PROTOCOLS[version] if _GPE_PROTOCOLS[version] in known else known[0]


def _length(telemetry: Telemetry, following: int, dialect: Dialect) -> int:
    """The length in the shim, words."""
    words = len(telemetry.body) // 4 + following + (telemetry.shim.old or dialect.length_with_shim)
    if words > 255:
        raise CraftError("hops", f"the stack takes {words} words, a shim can state at most 255")
    return words


def _first_byte(telemetry: Telemetry, dialect: Dialect) -> int:
    """The first byte of the shim."""
    shims = dialect.table()[rules.SHIM : rules.SHIM + 256]
    shim = telemetry.shim
    in_l4 = telemetry.carrier not in ("gre", "vxlan_gpe")
    if shim.old:
        usual, choices = shim.type, range(256 if in_l4 else 16)
    else:
        usual, choices = shim.type << 4 | shim.npt << 2, range(0, 256, 1 if in_l4 else 16)
    for byte in (usual, *choices):
        rule = int(shims[byte])
        if rule & 15 == shim.type and bool(rule & 16) == shim.old and (shim.old or byte >> 2 & 3 == shim.npt):
            return int(byte)
    raise CraftError("int.mode", f"dialect {dialect.name} has no shim for it")
