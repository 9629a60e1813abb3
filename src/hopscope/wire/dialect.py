"""How to read the reports and packets that a listener receives: data, not code. There is one profile per
implementation that differs from the specifications, and one table of lookups that codecs and kernels read
(`rules` has the offset of each rule).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt

from . import layout, rules
from .layout import Item
from .records import HOP
from .versions import REPORT_INDEX

ReportVersion = Literal["auto", "0.5", "1.0", "2.0"]
REPORT_PORTS = (32766, 54321, 8090, 8086, 5900, 1234, 556)
"""Destination ports on which reports were seen; IANA assigned none."""
SFLOW_PORTS, IPFIX_PORTS = (6343,), (4739, 2055, 9995, 9996)
"""Destination ports of sFlow, and of IPFIX (4739) and NetFlow 9, for which IANA assigned none."""
_HOP_FIELDS = {name: code for code, name in enumerate(HOP.names or ())}
_SLOW = ("any_shim_length", "length_with_shim", "source_words")
"""Fields that keep INT-MD 2.x off the decoder's fast path if a dialect changes them."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Meaning of a source's times; INT carries numbers without units."""

    unit_ns: int = 1
    """Length of one unit of timestamps and latencies, ns."""
    bits: int = 0
    """Bits after which timestamps wrap; 0: the width of their field."""
    epoch: Literal["none", "unix"] = "none"
    """Zero of timestamps: the node's start (none), or 1970."""
    latency: Literal["reported", "timestamps"] = "reported"
    """Whether hop latency is a field, or must be computed as egress minus ingress time."""
    comparable: bool = False
    """Whether the clocks of different nodes are synchronised."""
    ioam: Literal["ptp", "ntp", "posix"] = "posix"
    """Format of IOAM timestamps: fraction in ns, in 2^-32 s, in us (RFC 9197 5)."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Domain-specific metadata of INT 2.x: meaning of the bits of DS Instruction (and DSMdBits)."""

    domain_id: int
    fields: tuple[tuple[int, str, int], ...]
    """(bit, 0 the most significant; name; bytes in a hop), in bit order."""
    source_only: tuple[tuple[int, str, int], ...] = ()
    """The same for DS Flags: metadata that only the source adds, once, at the bottom of the stack."""


FLOW_OF_HOP = (
    (0, "latency_sum", 8), (1, "occupancy_sum", 8), (2, "utilization_sum", 8), (3, "latency_latest", 4),
    (4, "occupancy_latest", 4), (5, "utilization_latest", 4), (6, "samples", 4),
)  # fmt: skip
"""Values after the averages of each hop in a report about a flow rather than a packet."""
FLOW_OF_REPORT = (
    (7, "flow_packets", 8), (8, "flow_first_ns", 8), (9, "flow_last_ns", 8), (10, "flow_latency_sum", 8),
    (11, "flow_latency_samples", 8), (12, "flow_latency_latest", 8), (13, "flow_path_hash", 8),
    (14, "flow_id", 8), (15, "flow_part", 4),
)  # fmt: skip
"""… and in its main contents; `flow_part` has, in one byte each, the reason for which it was sent (0: the
flow is live), the first hop of this part, the number of hops of the path, and 0.
"""
FLOW_DOMAIN = Domain(0x4853, FLOW_OF_HOP + FLOW_OF_REPORT)
"""Domain of the aggregates that `hopscope sink` sends; "HS"."""


@dataclass(frozen=True)  # without slots: its table is kept
class Dialect:
    """One way of reading reports and packets. The defaults are the specifications'."""

    name: str
    about: str = ""
    """Sender, and differences from the specifications, in one line."""

    # -- reports
    ports: tuple[int, ...] = REPORT_PORTS
    """UDP ports that reports are sent to (captures only: a listener has its own)."""
    sflow_ports: tuple[int, ...] = SFLOW_PORTS
    """UDP ports that sFlow is sent to (captures only)."""
    ipfix_ports: tuple[int, ...] = IPFIX_PORTS
    """UDP ports that IPFIX and NetFlow 9 are sent to (captures only)."""
    report_version: ReportVersion = "auto"
    """Layout of the report header; auto decides by the first byte."""
    first_bytes: tuple[tuple[int, int], ...] = ()
    """(first byte, layout 5, 10 or 20): first bytes that mean another layout."""
    any_report_length: bool = False
    """Length of a Report 1.0 is not compared with the length that the metadata bits imply, and a Report 2.0
    reaches to the end of the datagram, whatever its Report Length.
    """
    next_protocols: tuple[tuple[int, int, int], ...] = ()
    """Report 0.5: (NProto, bytes of a header that is skipped, InType of what follows)."""
    inner_types: tuple[tuple[int, int], ...] = ()
    """Report 2.0: (InType, InType of the specification that it means)."""
    report_types: tuple[tuple[int, int], ...] = ()
    """Report 2.0: (RepType whose main contents have another form, bytes of these contents, which are
    skipped).
    """
    bare_group: int = 0
    """Report 2.0: InType of the data that directly follows the group header; 0: individual reports follow."""

    # -- where INT is
    packets: bool = False
    """Frames that are not reports are searched for INT."""
    assume_int: bool = False
    """Every TCP and UDP packet in a report that is not about a drop carries INT, even if nothing indicates
    it.
    """
    int_dscp: tuple[int, ...] = (0x17, 0x20, 0x01)
    """DSCP values of packets that carry INT after TCP or UDP."""
    int_dscp_bit: int = 0
    """A bit (1 to 32) of the DSCP that also marks packets that carry INT; 0: none."""
    int_ports: tuple[int, ...] = ()
    """UDP destination ports of packets that carry INT."""
    tcp_ports: bool = False
    """`int_ports` are also TCP ports."""
    fixed_tcp: bool = False
    """INT follows the first 20 bytes of a TCP header, before its options."""
    any_ip_length: bool = False
    """A total length of 0 in the inner IPv4 header is ignored: the packet reaches to the end."""
    marker: bytes = b""
    """Probe marker (1 to 8 bytes) between the TCP or UDP header and the shim."""
    inserted_udp_ports: tuple[int, ...] = (0x1000,)
    """UDP ports of a header that is followed by INT and then by the packet's own TCP header; with NPT 1, they
    replace a UDP packet's own port.
    """
    gre_protocol: int = 0x88B6
    """GRE protocol type of INT; the specification's number was never assigned."""
    vxlan_ports: tuple[int, ...] = (4789,)
    """UDP ports of VXLAN."""
    gpe_ports: tuple[int, ...] = (4790,)
    """UDP ports of VXLAN-GPE."""
    gpe_protocols: tuple[int, ...] = (0x05, 0x08, 0x80, 0x82)
    """Next protocols of VXLAN-GPE that are INT (0.5, 1.0, 2.0, 2.1)."""
    geneve_ports: tuple[int, ...] = (6081,)
    """UDP ports of Geneve."""
    geneve_classes: tuple[int, ...] = (0x0103, 0x00AB)
    """Geneve option classes of INT, at most four."""
    gtpu_ports: tuple[int, ...] = (2152,)
    """UDP ports of GTP-U."""
    ifa_protocol: int = layout.PROTOCOL_IFA
    """IP protocol of IFA; 0: none."""

    # -- INT
    shims: tuple[tuple[int, int, bool, bool], ...] = ()
    """Exceptions: (first byte, mode, whether the shim is that of 0.5 and 1.0, whether a sequence number of 4
    bytes follows the stack).
    """
    int_layouts: tuple[tuple[int, int, int], ...] = ()
    """Exceptions: (report version 0, 5, 10, 20; version nibble of the INT header; INT version 1, 4, 5, 10,
    20).
    """
    any_shim_length: bool = False
    """A shim's Length of 0 means that the header's hop counts give the size of the stack."""
    length_with_shim: bool = False
    """Length of a 2.x shim counts the shim itself."""
    swapped: bool = False
    """The two bytes of the instruction bitmap are swapped."""
    source_words: int = 0
    """Words that only the source adds at the bottom of a stack of 2.x if DS Flags is not 0, and that cannot
    be derived from the remainder of the stack, since a hop takes one word.
    """
    reversed: bool = False
    """Bit 0 of the instruction bitmap is the least significant one."""
    mx_record: bool = False
    """The node's metadata follows the MX header."""
    npt_shifts: tuple[int, int, int] = (2, 0, 0)
    """Right shifts of the shim's 16 bits to the original DSCP (NPT 0), port (1) and protocol (2)."""
    md_shifts: tuple[int, int, int] = (27, 26, 25)
    """Right shifts of the first word of INT-MD 2.x to D, E and M."""
    ds_offsets: tuple[int, int, int] = (6, 8, 10)
    """Byte offsets of domain id, DS instruction and DS flags in INT-MD 2.x."""
    items: tuple[tuple[int, tuple[Item, ...]], ...] = ()
    """Exceptions: (kind of metadata as in `layout`, items by bit). The first one of a kind replaces the
    specification's items, a second one is the alternative, chosen by the hop size.
    """
    domains: tuple[Domain, ...] = ()
    """Domain-specific metadata whose sizes are known."""
    clock: Clock = Clock()
    """Meaning of times."""

    def table(self) -> npt.NDArray[np.uint8]:
        """The lookup table of the decoders, uint8 [rules.TABLE]; read-only."""
        return self._table

    @cached_property
    def _table(self) -> npt.NDArray[np.uint8]:
        table = np.zeros(rules.TABLE, np.uint8)
        _write_reports(table, self)
        _write_places(table, self)
        _write_int(table, self)
        _write_items(table, self)
        table.flags.writeable = False
        return table

    def alternatives(self, kind: int) -> tuple[tuple[Item, ...], ...]:
        """Items by bit for a kind of metadata: the usual ones, and alternatives by hop size; at most two."""
        own = tuple(items for one, items in self.items if one == kind)
        return own or (layout.KIND_ITEMS[kind],)


def version_of(first: int, rule: ReportVersion) -> int:
    """Report version (5, 10, 20; 0 unknown) for the first byte of a payload.

    Ver 1 is ambiguous: Report 1.0, or the layout of 0.5, whose specification never states a number. The
    second nibble decides: Length is 4 words or more in 1.0, NProto is 2 or less in 0.5.
    """
    version, second = first >> 4, first & 15
    if rule == "0.5":
        return 5 if version <= 1 else 0
    if rule == "1.0":
        return 10 if version == 1 else 0
    if rule == "2.0":
        return 20 if version == 2 else 0
    if version == 1:
        return 10 if second >= 4 else 5 if second <= 2 else 0
    return {0: 5, 2: 20}.get(version, 0)


def _write_reports(table: npt.NDArray[np.uint8], dialect: Dialect) -> None:
    first = rules.FIRST_BYTE
    table[first : first + 256] = [version_of(byte, dialect.report_version) for byte in range(256)]
    for byte, version in dialect.first_bytes:
        table[first + byte] = version
    forms = [(0, 0, 3), (1, layout.DROP_0_5.size, 3), (2, layout.SWITCH_LOCAL_0_5.size, 3)]
    forms += [(255, 0, 0)] * 13
    for protocol, size, inner in dialect.next_protocols:
        forms[protocol] = (3, size, inner)
    _put(table, rules.FORM_0_5, [number for form in forms for number in form])
    _put(table, rules.INNER_1_0, [3, 4, 5, *[255] * 5])
    types = [*range(6), *[255] * 10]
    for one, meaning in dialect.inner_types:
        types[one] = meaning
    _put(table, rules.INNER_2_0, types)
    mains = [(0, 0), (1, 0), (2, 0), *[(255, 0)] * 13]
    for report_type, size in dialect.report_types:
        mains[report_type] = (3, size)
    _put(table, rules.MAIN_2_0, [number for main in mains for number in main])
    table[rules.BARE_2_0] = dialect.bare_group
    table[rules.ANY_REPORT_LENGTH] = dialect.any_report_length


def _write_places(table: npt.NDArray[np.uint8], dialect: Dialect) -> None:
    bit = dialect.int_dscp_bit
    _put(table, rules.INT_DSCP, [dscp in dialect.int_dscp or bool(dscp & bit) for dscp in range(64)])
    plain = [0 if dscp in dialect.int_dscp and not dscp & bit else dscp & ~bit for dscp in range(64)]
    _put(table, rules.PLAIN_DSCP, plain)
    _put(table, rules.VXLAN_PORT, next(iter(dialect.vxlan_ports), 0).to_bytes(2, "big"))
    roles = (
        (dialect.ports, rules.ROLE_REPORT), (dialect.int_ports, rules.ROLE_INT),
        (dialect.vxlan_ports, rules.ROLE_VXLAN), (dialect.gpe_ports, rules.ROLE_GPE),
        (dialect.geneve_ports, rules.ROLE_GENEVE), (dialect.gtpu_ports, rules.ROLE_GTPU),
        (dialect.inserted_udp_ports, rules.ROLE_INSERTED),
    )  # fmt: skip
    for ports, role in roles:
        table[rules.UDP_ROLE + np.array(ports, np.int64)] |= np.uint8(role)
    following = rules.Next
    usual = ((1, following.IPV4), (2, following.IPV6), (3, following.ETHERNET))
    for next_protocol, inner in (*usual, *((one, following.INT) for one in dialect.gpe_protocols)):
        table[rules.GPE_NEXT + next_protocol] = inner
    table[rules.ASSUME_INT] = dialect.assume_int
    table[rules.TCP_PORTS] = dialect.tcp_ports
    table[rules.FIXED_TCP] = dialect.fixed_tcp
    table[rules.ANY_IP_LENGTH] = dialect.any_ip_length
    table[rules.PACKETS] = dialect.packets
    table[rules.IFA_PROTOCOL] = dialect.ifa_protocol
    _put(table, rules.GRE_PROTOCOL, dialect.gre_protocol.to_bytes(2, "big"))
    classes = b"".join(one.to_bytes(2, "big") for one in dialect.geneve_classes)
    _put(table, rules.GENEVE_CLASSES, classes)
    _put(table, rules.MARKER, [len(dialect.marker), *dialect.marker])
    table[rules.UNMARKED] = dialect.assume_int or dialect.tcp_ports or bool(dialect.marker)


def _write_int(table: npt.NDArray[np.uint8], dialect: Dialect) -> None:
    for byte in range(16, 256):
        if 1 <= byte >> 4 <= 3 and byte & 12 != 12:
            table[rules.SHIM + byte] = byte >> 4
    for byte, mode, old, longer in ((1, 1, True, False), (2, 2, True, False), *dialect.shims):
        table[rules.SHIM + byte] = mode | 16 * old | 32 * longer
    usual = Dialect("")
    if all(getattr(dialect, name) == getattr(usual, name) for name in _SLOW):
        shims = table[rules.SHIM : rules.SHIM + 256]
        shims[shims == 1] = 1 | 64
    for report in range(4):
        for new, nibble, version in ((0, 0, 5), (0, 1, 10), (0, 4, 4), (1, 2, 20)):
            table[rules.INT_LAYOUT + (new * 4 + report) * 16 + nibble] = version
    for report_version, nibble, version in dialect.int_layouts:
        at = ((version == 20) * 4 + REPORT_INDEX.get(report_version, 0)) * 16 + nibble
        table[rules.INT_LAYOUT + at] = version
    table[rules.ANY_SHIM_LENGTH] = dialect.any_shim_length
    table[rules.SWAPPED] = 2 if dialect.reversed else dialect.swapped
    table[rules.LENGTH_WITH_SHIM] = dialect.length_with_shim
    table[rules.SOURCE_WORDS] = dialect.source_words
    table[rules.MX_RECORD] = dialect.mx_record
    _put(table, rules.NPT_SHIFTS, dialect.npt_shifts)
    _put(table, rules.MD_SHIFTS, dialect.md_shifts)
    _put(table, rules.DS_OFFSETS, dialect.ds_offsets)
    table[rules.MD_CHANGED] = (dialect.md_shifts, dialect.ds_offsets) != (usual.md_shifts, usual.ds_offsets)


def _write_items(table: npt.NDArray[np.uint8], dialect: Dialect) -> None:
    for kind in range(layout.KINDS):
        tables = dialect.alternatives(kind)
        for alternative in range(rules.ALTERNATIVES):
            items = tables[min(alternative, len(tables) - 1)]
            plain = layout.KIND_ITEMS[kind]
            for bit, item in enumerate(items):
                at = ((kind * rules.ALTERNATIVES + alternative) * 16 + bit) * rules.ITEM
                usual = item is plain[bit] and kind != layout.INT_2015
                _put(table, rules.ITEMS + at, _item(item, usual | 2 * (item is layout.DROP)))


def _item(item: Item, flags: int) -> list[int]:
    """A row of `rules.ITEMS`."""
    parts = [
        (_HOP_FIELDS[name], shift, mask.bit_length())
        for name, shift, mask in item.fields.shifts
        if item.have and name in _HOP_FIELDS
    ]
    row = [item.size, item.have.bit_length() - 1 if item.have else 255, flags, len(parts)]
    return row + [number for part in parts for number in part]


def _put(table: npt.NDArray[np.uint8], at: int, values: object) -> None:
    numbers = np.array(list(values), np.uint8)  # type: ignore[call-overload]
    table[at : at + len(numbers)] = numbers


def _with(items: tuple[Item, ...], changes: dict[int, Item]) -> tuple[Item, ...]:
    """Items by bit with some replaced."""
    return tuple(changes.get(bit, item) for bit, item in enumerate(items))


_WIDE_TIMES = {4: layout.INGRESS_64, 5: layout.EGRESS_64}
_INTCOLLECTOR = (
    (layout.INT_0_5, _with(layout.HOP_0_5, {3: layout.QUEUE_16_16, 6: layout.CONGESTION_16_16})),
    (layout.INT_1_0, _with(layout.HOP_1_0, {3: layout.QUEUE_16_16, 6: layout.L2_PORTS_16})),
)
_GEANT_32 = _with(layout.HOP_1_0, {6: layout.L2_PORTS_16})
_GEANT = ((layout.INT_1_0, _GEANT_32), (layout.INT_1_0, _with(_GEANT_32, _WIDE_TIMES)))
_SYNCHRONOUS = Clock(epoch="unix", comparable=True)
_US = Clock(unit_ns=1000)
_LOW_32 = Clock(bits=32)
"""The low 32 bits of a Tofino's ns."""
_FIRST_SIX = (10, 0, 0)
"""The original DSCP is in the first 6 of the shim's 16 bits."""
_VER_1_IS_2_0 = tuple((byte, 20) for byte in range(0x10, 0x20))
_ETHERNET = ((4, 3), (5, 3))
"""InType IPv4 and IPv6, although Ethernet follows."""

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(
            "spec", "The specifications; the report's version by its first byte.",
            domains=(FLOW_DOMAIN,),
        ),
        Dialect("report-0.5", "As spec, but every report is a 0.5.", report_version="0.5"),
        Dialect("report-1.0", "As spec, but every report is a 1.0.", report_version="1.0"),
        Dialect(
            "report-2.0", "As spec, but every report is a 2.0.", report_version="2.0", domains=(FLOW_DOMAIN,)
        ),
        Dialect(
            "intcollector",
            "INTCollector's generators: queue words 16+16, INT 1.0 as version 0 with bit 6 in 4 bytes, "
            "Length 1, no DSCP.",
            first_bytes=((0x10, 5), (0x11, 10)), any_report_length=True, assume_int=True, fixed_tcp=True,
            int_layouts=((5, 0, 5), (10, 0, 10)), any_shim_length=True, items=_INTCOLLECTOR,
        ),
        Dialect(
            "geant",
            "GEANT int-platforms and its collector's generator: INT 1.0 with timestamps of 32 or 64 bits, "
            "bit 6 in 4 bytes.",
            first_bytes=((0x11, 10),), any_report_length=True, assume_int=True, fixed_tcp=True,
            int_layouts=((10, 0, 10),), items=_GEANT, clock=_SYNCHRONOUS,
        ),
        Dialect(
            "geant-0.4",
            "GEANT int-platforms, INT 0.4: Report 1.0, 64-bit timestamps, a hop count of instructions, DSCP "
            "0x20.",
            int_dscp=(0x20,), fixed_tcp=True, int_layouts=tuple((report, 0, 4) for report in (0, 5, 10, 20)),
            items=((layout.INT_0_4, _with(layout.HOP_0_5, _WIDE_TIMES)),),
            clock=_SYNCHRONOUS,
        ),
        Dialect(
            "geant-dpdk",
            "GEANT int-platform-dpdk: packets with INT 1.0, instruction bitmap with its bytes swapped, "
            "64-bit timestamps.",
            packets=True, int_dscp=(0x20,), fixed_tcp=True, swapped=True, items=_GEANT, clock=_SYNCHRONOUS,
        ),
        Dialect(
            "geant-dpdk-0.4",
            "As geant-dpdk with INT 0.4: packets, a bitmap with its bytes swapped, 64-bit timestamps, a hop "
            "count of instructions.",
            packets=True, int_dscp=(0x20,), fixed_tcp=True, swapped=True,
            int_layouts=tuple((report, 0, 4) for report in (0, 5, 10, 20)),
            items=((layout.INT_0_4, _with(layout.HOP_0_5, _WIDE_TIMES)),), clock=_SYNCHRONOUS,
        ),
        Dialect(
            "geant-collector",
            "As GEANT's collector reads it: of the queue word 8 bits of id and the low 16 of occupancy.",
            first_bytes=((0x11, 10),), any_report_length=True, assume_int=True, fixed_tcp=True,
            int_layouts=((10, 0, 10),),
            items=((layout.INT_1_0, _with(_GEANT_32, {3: layout.QUEUE_8_16})),), clock=_SYNCHRONOUS,
        ),
        Dialect(
            "amlight",
            "AmLight (Tofino): INT 1.0 though F=0, a VLAN tag, INT before TCP options; hop latency is "
            "never filled in.",
            int_dscp=(0x17,), fixed_tcp=True, clock=Clock(latency="timestamps", bits=32),
        ),
        Dialect(
            "bmv2", "Programs for bmv2 (ruimmpires, davidcc73): Report 2.0 with lengths 0, times in us.",
            int_dscp=(0x17,), fixed_tcp=True, npt_shifts=_FIRST_SIX, clock=_US,
        ),
        Dialect(
            "laofan13",
            "laofan13 (bmv2), INT-MX: Report 2.0 with version 1, Ethernet under InType 4, metadata after "
            "the MX header.",
            first_bytes=_VER_1_IS_2_0, inner_types=_ETHERNET, int_dscp=(0x17,), fixed_tcp=True,
            mx_record=True, npt_shifts=_FIRST_SIX, clock=_US,
        ),
        Dialect(
            "mandaryoshi",
            "mandaryoshi (Tofino), INT-MD 1.0 and 2.1: of Report 2.0 only the group header, shim type 3 "
            "on MD.",
            bare_group=3, int_dscp=(0x17,), fixed_tcp=True,
            shims=tuple((0x30 | npt << 2, 1, False, False) for npt in range(3)), npt_shifts=_FIRST_SIX,
            clock=_LOW_32,
        ),
        Dialect(
            "mandaryoshi-mx",
            "mandaryoshi (Tofino), INT-MX and INT-XD: Report 2.0 with version 1 and sequence 0, metadata "
            "after the MX header.",
            first_bytes=_VER_1_IS_2_0, inner_types=_ETHERNET, int_dscp=(0x17,), fixed_tcp=True,
            mx_record=True, npt_shifts=_FIRST_SIX, clock=_LOW_32,
        ),
        Dialect(
            "elavinal",
            "elavinal (bmv2): packets only; bits of the instruction bitmap reversed, DS fields in the order "
            "flags, instruction, id.",
            packets=True, int_dscp=(0x17,), reversed=True, npt_shifts=(0, 0, 0), ds_offsets=(10, 8, 6),
            clock=_US,
        ),
        Dialect(
            "scapy",
            "Scapy's INT layers: packets on port 0x4568 of UDP and TCP, NPT 2 with the protocol in the first "
            "byte.",
            packets=True, int_ports=(0x4568,), tcp_ports=True, gre_protocol=0x4569, npt_shifts=(2, 0, 8),
            int_layouts=((0, 0, 20),),
        ),
        Dialect(
            "cablelabs",
            "cablelabs transparent-security (Tofino): INT on UDP port 555, reports on 556 with 24 bytes of "
            "header, the source's MAC address at the bottom.",
            ports=(556,), report_types=((0, 12),), inner_types=_ETHERNET, any_report_length=True, int_dscp=(),
            int_ports=(555,), length_with_shim=True, md_shifts=(25, 24, 23), source_words=2,
            domains=(Domain(0x5453, (), ((1, "source_mac", 6), (1, "padding", 2))),),
        ),
        Dialect(
            "host-int",
            "Intel Host-INT: Report 0.5 with NProto 3 (drop summary) and 4 (latency), INT 0.5 with shim "
            "type 3 and a sequence number.",
            next_protocols=((3, 24, 4), (4, 4, 4)), assume_int=True, int_ports=(33122,), fixed_tcp=True,
            any_ip_length=True, shims=((3, 1, True, True),), clock=Clock(bits=32),
        ),
        Dialect(
            "fabric-tna",
            "Stratum fabric-tna: Report 0.5 without INT in the packet, queue occupancy of 19 bits.",
            int_dscp=(), items=((layout.LOCAL_OF_0_5, _with(layout.LOCAL_FORM, {2: layout.QUEUE_8_19})),),
            clock=_LOW_32,
        ),
        Dialect(
            "h3c", "H3C switches: INT after a probe marker of 8 bytes.",
            packets=True, marker=bytes.fromhex("aaaaaaaabbbbbbbb"),
        ),
        Dialect(
            "int-0.4", "INT 0.4: the version has 2 bits.", packets=True,
            int_layouts=tuple((report, 0, 4) for report in (0, 5, 10, 20)),
        ),
        Dialect(
            "int-2015",
            "INT of 2015 over VXLAN-GPE (Netronome): a bottom-of-stack bit in each word, values of 31 bits.",
            packets=True, int_layouts=tuple((report, 0, 1) for report in (0, 5, 10, 20)),
        ),
    )
}  # fmt: skip
"""The dialects by name."""
DEFAULT = DIALECTS["spec"]
"""The specifications."""

_UP_TO_1_0 = (layout.INT_0_4, layout.INT_0_5, layout.INT_1_0)
_CHANGED_ITEMS: dict[str, tuple[tuple[int, ...], dict[int, Item]]] = {
    "times-64": (_UP_TO_1_0, _WIDE_TIMES),
    "times-32": ((layout.INT_2_0,), {4: layout.INGRESS_32, 5: layout.EGRESS_32}),
    "ports-16": ((layout.INT_1_0, layout.INT_2_0), {6: layout.L2_PORTS_16}),
}
"""By name of a layout: the kinds of metadata whose items by bit differ, and these items."""
LAYOUTS: dict[str, str] = {
    "swapped": "the two bytes of the instruction bitmap are swapped",
    "reversed": "the bits of the instruction bitmap are reversed",
    "times-64": "INT up to 1.0 has timestamps of 64 bits",
    "times-32": "INT 2.x has timestamps of 32 bits",
    "ports-16": "L2 port ids have 16 bits each",
}
"""Layouts of INT that any dialect may have, by name: `spec:swapped:times-64`."""


def with_layout(dialect: Dialect, *names: str) -> Dialect:
    """The dialect with these of LAYOUTS; its name is `DIALECT:NAME…`. Raises KeyError."""
    changes: dict[str, object] = {}
    items = dict(dialect.items[::-1])  # the first of a kind's alternatives
    for name in names:
        if name in ("swapped", "reversed"):
            changes[name] = True
            continue
        kinds, changed = _CHANGED_ITEMS[name]
        for kind in kinds:
            items[kind] = _with(items.get(kind, layout.KIND_ITEMS[kind]), changed)
        changes["items"] = tuple(items.items())
    about = "; ".join(LAYOUTS[name] for name in names)
    named = ":".join((dialect.name, *names))
    return replace(dialect, name=named, about=f"As {dialect.name}; {about}.", **changes)  # type: ignore[arg-type]


def layouts(dialect: Dialect) -> Iterator[Dialect]:
    """The dialect in every other layout."""
    orders = ((), ("swapped",), ("reversed",))
    sizes = (
        (),
        ("times-64",),
        ("times-32",),
        ("ports-16",),
        ("times-64", "ports-16"),
        ("times-32", "ports-16"),
    )
    for order, size in product(orders, sizes):
        if order or size:
            yield with_layout(dialect, *order, *size)
