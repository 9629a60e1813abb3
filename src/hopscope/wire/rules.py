"""A dialect in the decoders' form: one uint8 table, and the offset of each rule in it.

`Dialect.table()` writes it; the scalar codecs and the kernels read it by these offsets. Kernels get nothing
else about a dialect, so a dialect is only data.
"""

from enum import IntEnum

from .layout import KINDS

FIRST_BYTE = 0
"""256: the report's layout (5, 10, 20; 0 unknown) by the first byte of the datagram's payload."""
INT_DSCP = FIRST_BYTE + 256
"""64: 1 if this DSCP announces INT after TCP or UDP."""
UDP_ROLE = INT_DSCP + 64
"""65536: roles of a UDP destination port, bits of `ROLE_…`."""
SHIM = UDP_ROLE + 65536
"""256: by a shim's first byte: 0 unknown, else mode (1 MD, 2 destination, 3 MX), + 16 for the shim of 0.5 and
1.0, + 32 if a sequence number of 4 bytes follows the stack, + 64 if the batch decoder may read INT-MD 2.x
after it, over TCP or UDP, on its fast path.
"""
INT_LAYOUT = SHIM + 256
"""[shim: 0 old, 1 new][report: 0 none, 1 0.5, 2 1.0, 3 2.0][version nibble of the INT header]: `int_version`
(1, 4, 5, 10, 20), 0 unknown.
"""
FORM_0_5 = INT_LAYOUT + 2 * 4 * 16
"""[NProto of 0.5]: (form, bytes of the form's header, InType of the packet after it); form 0 none, 1 drop, 2
switch-local, 3 other, whose bytes are skipped, 255 unknown.
"""
INNER_1_0 = FORM_0_5 + 16 * 3
"""[NProt of 1.0]: InType, 255 unknown."""
INNER_2_0 = INNER_1_0 + 8
"""[InType of 2.0]: InType, 255 unknown."""
MAIN_2_0 = INNER_2_0 + 16
"""[RepType of 2.0]: (form of the main contents, bytes that are skipped); form 0 none, 1 INT, 2 not defined, 3
other, whose bytes are skipped, 255 unknown.
"""
BARE_2_0 = MAIN_2_0 + 16 * 2
"""InType of the packet that directly follows the group header of 2.0; 0: an individual header follows."""
GPE_NEXT = BARE_2_0 + 1
"""[next protocol of VXLAN-GPE]: what follows (`Next`), 0 unknown."""
ASSUME_INT = GPE_NEXT + 256
"""1: TCP and UDP packets of all reports that are not about a drop carry INT, whatever their DSCP and port."""
TCP_PORTS = ASSUME_INT + 1
"""1: ROLE_INT applies to TCP ports, too."""
PACKETS = TCP_PORTS + 1
"""1: frames that are not reports are searched for INT."""
ANY_REPORT_LENGTH = PACKETS + 1
"""1: Length of Report 1.0 is not compared with the length that the metadata bits imply, and Report Length of
2.0 is not read.
"""
ANY_SHIM_LENGTH = ANY_REPORT_LENGTH + 1
"""1: a shim's Length of 0 means that the header's hop counts give the size of the stack."""
SWAPPED = ANY_SHIM_LENGTH + 1
"""1: the two bytes of the instruction bitmap are swapped; 2: its 16 bits are reversed."""
SOURCE_WORDS = SWAPPED + 1
"""Words that only the source adds at the bottom of a stack of 2.x if DS Flags is not 0 and the hop size does
not imply them.
"""
FIXED_TCP = SOURCE_WORDS + 1
"""1: INT follows the first 20 bytes of a TCP header, before its options."""
ANY_IP_LENGTH = FIXED_TCP + 1
"""1: a total length of 0 in the inner IPv4 header is ignored: the packet reaches to the end."""
MX_RECORD = ANY_IP_LENGTH + 1
"""1: the node's metadata, as named by the bitmap, follows the MX header."""
LENGTH_WITH_SHIM = MX_RECORD + 1
"""1: Length of a 2.x shim counts the shim itself."""
NPT_SHIFTS = LENGTH_WITH_SHIM + 1
"""[NPT]: right shift of the shim's 16 bits to the original DSCP (0), port (1), protocol (2)."""
MD_SHIFTS = NPT_SHIFTS + 3
"""Right shifts in the first word of INT-MD 2.x to D, E and M."""
DS_OFFSETS = MD_SHIFTS + 3
"""Byte offsets in INT-MD 2.x of domain id, DS instruction and DS flags."""
MD_CHANGED = DS_OFFSETS + 3
"""1: MD_SHIFTS or DS_OFFSETS are not the specification's."""
GRE_PROTOCOL = MD_CHANGED + 1
"""2: the GRE protocol type of INT, big-endian; 0 none."""
GENEVE_CLASSES = GRE_PROTOCOL + 2
"""4 × 2: Geneve option classes of INT, big-endian; 0 none."""
MARKER = GENEVE_CLASSES + 8
"""1 + 8: bytes of the probe marker after TCP or UDP (0 none), then the marker."""
UNMARKED = MARKER + 9
"""1: DSCP and UDP port do not announce all INT over TCP and UDP: ASSUME_INT, TCP_PORTS or MARKER is set."""
PLAIN_DSCP = UNMARKED + 1
"""64: replacement of a DSCP that announces INT if the packet's own is unknown: the DSCP without the bit that
announces INT, else 0.
"""
VXLAN_PORT = PLAIN_DSCP + 64
"""2: the UDP port of a VXLAN that the INT source made VXLAN-GPE, big-endian; 0 none."""
IFA_PROTOCOL = VXLAN_PORT + 2
"""IP protocol of IFA; 0 none."""
ITEMS = IFA_PROTOCOL + 1
"""[kind of metadata][alternative][bit of the bitmap][ITEM]: how hops and report metadata are read."""
ALTERNATIVES = 2
ITEM = 12
"""Bytes of an item: size, `have` bit (255: none), flags (1: as in the specification, 2: the drop word),
number of parts; then for each of two parts: field of HOP, right shift of the item as one number, width in
bits; then 2 bytes of padding.
"""
TABLE = ITEMS + KINDS * ALTERNATIVES * 16 * ITEM

ROLE_REPORT, ROLE_INT, ROLE_VXLAN, ROLE_GPE, ROLE_GENEVE, ROLE_GTPU, ROLE_INSERTED = (
    1, 2, 4, 8, 16, 32, 64,
)  # fmt: skip
"""Bits of UDP_ROLE: reports arrive here; INT follows UDP; VXLAN; VXLAN-GPE; Geneve; GTP-U; a UDP header that
was inserted with INT before TCP.
"""


class Next(IntEnum):
    """The header after another one, on the way into a packet; 3, 4 and 5 are as InType of Report 2.0."""

    NOTHING = 0
    """Nothing that can be read."""
    ETHERNET = 3
    IPV4 = 4
    IPV6 = 5
    MPLS = 6
    GRE = 7
    L4 = 8
    """TCP or UDP."""
    INT = 9
    """The shim of INT over GRE and VXLAN-GPE."""
    ERSPAN_1 = 10
    """A mirrored frame without a header of its own."""
    ERSPAN_2 = 11
    ERSPAN_3 = 12
    VXLAN = 13
    VXLAN_GPE = 14
    GENEVE = 15
    GTP_U = 16
    IFA = 17


TUNNEL_ROLES = (
    (ROLE_VXLAN, Next.VXLAN), (ROLE_GPE, Next.VXLAN_GPE), (ROLE_GENEVE, Next.GENEVE), (ROLE_GTPU, Next.GTP_U),
)  # fmt: skip
"""Header after UDP by role of its port; if a port has several roles, the first counts."""
