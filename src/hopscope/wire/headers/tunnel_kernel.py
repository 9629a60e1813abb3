"""Tunnels on the way into a packet, for the batch decoder: with the checks of tunnel.py, in the same order.

Each reader returns (code, offset after the header, what follows, tunnel id, whether there is an id); with a
code, the offset is that of the rejected header.
"""

from ...base.kernels.jit import U64, be16, be32, kernel
from .. import layout, rules
from ..reasons import Place, Reason
from ..rules import Next
from ..telemetry.variant_kernel import UDP
from .packet_kernel import ETHERNET_TYPE, IPV4, IPV6, NONE, code, get, is_tag, lacks, word

TUNNEL = U64(Place.TUNNEL)
BAD_TUNNEL = code(Reason.BAD_LENGTH, Place.TUNNEL)
NOTHING, IN_IFA = U64(Next.NOTHING), U64(Next.IFA)
FRAME, FOUR, SIX = U64(Next.ETHERNET), U64(Next.IPV4), U64(Next.IPV6)
LABELS, IN_GRE, L4, SHIM = U64(Next.MPLS), U64(Next.GRE), U64(Next.L4), U64(Next.INT)
MIRROR_1, MIRROR_2, MIRROR_3 = U64(Next.ERSPAN_1), U64(Next.ERSPAN_2), U64(Next.ERSPAN_3)
IN_VXLAN, IN_GPE, IN_GENEVE, IN_GTP_U = (
    U64(Next.VXLAN), U64(Next.VXLAN_GPE), U64(Next.GENEVE), U64(Next.GTP_U),
)  # fmt: skip
(ROLE_0, NEXT_0), (ROLE_1, NEXT_1), (ROLE_2, NEXT_2), (ROLE_3, NEXT_3) = (
    (U64(role), U64(following)) for role, following in rules.TUNNEL_ROLES
)
TUNNEL_ROLES = ROLE_0 | ROLE_1 | ROLE_2 | ROLE_3
UDP_ROLE, GPE_NEXT = U64(rules.UDP_ROLE), U64(rules.GPE_NEXT)
GRE_PROTOCOL, GENEVE_CLASSES = U64(rules.GRE_PROTOCOL), U64(rules.GENEVE_CLASSES)

MPLS_0, MPLS_1 = (U64(type_) for type_ in layout.ETHERTYPE_MPLS)
TEB, ERSPAN_2, ERSPAN_3 = (
    U64(layout.ETHERTYPE_TEB), U64(layout.ETHERTYPE_ERSPAN_2), U64(layout.ETHERTYPE_ERSPAN_3),
)  # fmt: skip
PROTOCOL_IPV4, PROTOCOL_IPV6 = U64(layout.PROTOCOL_IPV4), U64(layout.PROTOCOL_IPV6)
PROTOCOL_GRE, PROTOCOL_MPLS = U64(layout.PROTOCOL_GRE), U64(layout.PROTOCOL_MPLS)
PROTOCOL_TCP = U64(layout.PROTOCOL_TCP)
MAX_LABELS, USER_PACKET = U64(layout.MAX_LABELS), U64(layout.GTP_U_USER_PACKET)
BOTTOM = word(layout.MPLS, "bottom")
CHECKSUM, ROUTING, KEY, SEQUENCE = (
    word(layout.GRE, f"{name}_present") for name in ("checksum", "routing", "key", "sequence")
)
GRE_VERSION, GRE_TYPE = word(layout.GRE, "version"), word(layout.GRE, "type")
VERSION_2, VERSION_3 = word(layout.ERSPAN_2, "version"), word(layout.ERSPAN_3, "version")
FRAME_TYPE, OPTIONAL = word(layout.ERSPAN_3, "frame_type"), word(layout.ERSPAN_3, "optional")
FLAGS, VNI = word(layout.VXLAN, "flags"), word(layout.VXLAN, "vni")
NEXT_PROTOCOL = word(layout.VXLAN_GPE, "next_protocol")
assert layout.VXLAN_GPE.word("flags") == layout.VXLAN.word("flags")
assert layout.VXLAN_GPE.word("vni") == layout.VXLAN.word("vni") == layout.GENEVE.word("vni")
GENEVE_VERSION, OPTION_WORDS = word(layout.GENEVE, "version"), word(layout.GENEVE, "option_words")
CONTROL, GENEVE_TYPE = word(layout.GENEVE, "control"), word(layout.GENEVE, "type")
OPTION_CLASS, WORDS = word(layout.GENEVE_OPTION, "class"), word(layout.GENEVE_OPTION, "words")
GTP_VERSION, GTP_PROTOCOL = word(layout.GTP_U, "version"), word(layout.GTP_U, "protocol")
MESSAGE, TEID = word(layout.GTP_U, "message"), word(layout.GTP_U, "teid")
GTP_FLAGS = tuple(word(layout.GTP_U, name) for name in ("extension", "sequence_present", "npdu_present"))
NEXT_EXTENSION = word(layout.GTP_U_OPTIONAL, "next_extension")


# ------------------------------------------------------------------------------------------ what is announced


@kernel
def by_ethertype(type_):
    """What an EtherType announces."""
    if type_ == IPV4:
        return FOUR
    if type_ == IPV6:
        return SIX
    if type_ == TEB:
        return FRAME
    return LABELS if type_ == MPLS_0 or type_ == MPLS_1 else NOTHING


@kernel
def by_protocol(protocol):
    """What an IP protocol announces."""
    if protocol == PROTOCOL_TCP or protocol == UDP:
        return L4
    if protocol == PROTOCOL_IPV4:
        return FOUR
    if protocol == PROTOCOL_IPV6:
        return SIX
    if protocol == PROTOCOL_GRE:
        return IN_GRE
    return LABELS if protocol == PROTOCOL_MPLS else NOTHING


@kernel
def by_port(dport, table):
    """The tunnel that a UDP destination port announces."""
    role = U64(table[UDP_ROLE + dport])
    if role & ROLE_0:
        return NEXT_0
    if role & ROLE_1:
        return NEXT_1
    if role & ROLE_2:
        return NEXT_2
    return NEXT_3 if role & ROLE_3 else NOTHING


@kernel
def by_nibble(buf, at, end, limit):
    """(code, what the version of an IP header announces)."""
    why = lacks(at, U64(1), end, limit)
    if why:
        return why | TUNNEL, NOTHING
    version = U64(buf[at]) >> U64(4)
    if version == U64(4):
        return NONE, FOUR
    return NONE, SIX if version == U64(6) else NOTHING


# ---------------------------------------------------------------------------------------------------- readers


@kernel
def mpls(buf, at, end, limit):
    """MPLS."""
    bottom, count = NONE, NONE
    while bottom == NONE:
        if count == MAX_LABELS:
            return NONE, at, NOTHING, NONE, False
        why = lacks(at, U64(4), end, limit)
        if why:
            return why | TUNNEL, at, NOTHING, NONE, False
        bottom = get(buf, at, BOTTOM)
        at += U64(4)
        count += U64(1)
    why, following = by_nibble(buf, at, end, limit)
    if why:
        return why, at, NOTHING, NONE, False
    nibble = U64(buf[at]) >> U64(4)
    if following != NOTHING or nibble == U64(1):
        return NONE, at, following, NONE, False
    if nibble == NONE and (not is_frame(buf, at, limit) or is_frame(buf, at + U64(4), limit)):
        why = lacks(at, U64(4), end, limit)
        if why:
            return why | TUNNEL, at, NOTHING, NONE, False
        at += U64(4)
    return NONE, at, FRAME, NONE, False


@kernel
def is_frame(buf, at, limit):
    """Whether the EtherType of a frame at `at` can be read."""
    at += ETHERNET_TYPE
    if at + U64(2) > limit:
        return False
    type_ = be16(buf, at)
    return type_ == IPV4 or type_ == IPV6 or is_tag(type_) or type_ == MPLS_0 or type_ == MPLS_1


@kernel
def gre(buf, at, end, limit, table):
    """GRE."""
    why = lacks(at, U64(4), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    if get(buf, at, GRE_VERSION) or get(buf, at, ROUTING):
        return NONE, at, NOTHING, NONE, False
    checksum, has_key, sequence = get(buf, at, CHECKSUM), get(buf, at, KEY), get(buf, at, SEQUENCE)
    type_ = get(buf, at, GRE_TYPE)
    at += U64(4)
    size = (checksum + has_key + sequence) << U64(2)
    why = lacks(at, size, end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    key = be32(buf, at + (checksum << U64(2))) if has_key else NONE
    following = by_ethertype(type_)
    if type_ == be16(table, GRE_PROTOCOL):
        following = SHIM if type_ else NOTHING
    elif type_ == ERSPAN_2:
        following = MIRROR_2 if sequence else MIRROR_1
    elif type_ == ERSPAN_3:
        following = MIRROR_3
    return NONE, at + size, following, key, has_key != NONE


@kernel
def erspan_2(buf, at, end, limit):
    """ERSPAN type II."""
    why = lacks(at, U64(8), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    following = FRAME if get(buf, at, VERSION_2) == U64(1) else NOTHING
    return NONE, at + U64(8), following, NONE, False


@kernel
def erspan_3(buf, at, end, limit):
    """ERSPAN type III."""
    why = lacks(at, U64(12), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    if get(buf, at, VERSION_3) != U64(2):
        return NONE, at, NOTHING, NONE, False
    type_, optional = get(buf, at, FRAME_TYPE), get(buf, at, OPTIONAL)
    at += U64(12)
    if optional:
        why = lacks(at, U64(8), end, limit)
        if why:
            return why | TUNNEL, at, NOTHING, NONE, False
        at += U64(8)
    following = FRAME if type_ == NONE else NOTHING
    if type_ == U64(2):
        why, following = by_nibble(buf, at, end, limit)
    return why, at, following, NONE, False


@kernel
def vxlan(buf, at, end, limit):
    """VXLAN."""
    why = lacks(at, U64(8), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    if not get(buf, at, FLAGS) & U64(0x08):
        return NONE, at, NOTHING, NONE, False
    return NONE, at + U64(8), FRAME, get(buf, at, VNI), True


@kernel
def vxlan_gpe(buf, at, end, limit, table):
    """VXLAN-GPE. Without P it carries Ethernet; early INT has a next protocol without P, too."""
    why = lacks(at, U64(8), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    flags = get(buf, at, FLAGS)
    if flags & U64(0x31):
        return NONE, at, NOTHING, NONE, False
    following = U64(table[GPE_NEXT + get(buf, at, NEXT_PROTOCOL)])
    if not flags & U64(0x04) and (following != SHIM or is_frame(buf, at + U64(8), limit)):
        following = FRAME
    return NONE, at + U64(8), following, get(buf, at, VNI), flags & U64(0x08) != NONE


@kernel
def is_int_class(class_, table):
    """Whether a Geneve option of this class is INT."""
    for i in range(4):
        if class_ and class_ == be16(table, GENEVE_CLASSES + U64(2 * i)):
            return True
    return False


@kernel
def geneve(buf, at, end, limit, table):
    """Geneve, and where the first option that holds INT begins and ends (0: there is none)."""
    why = lacks(at, U64(8), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False, NONE, NONE
    if get(buf, at, GENEVE_VERSION):
        return NONE, at, NOTHING, NONE, False, NONE, NONE
    following = NOTHING if get(buf, at, CONTROL) else by_ethertype(get(buf, at, GENEVE_TYPE))
    vni, size = get(buf, at, VNI), get(buf, at, OPTION_WORDS) << U64(2)
    at += U64(8)
    why = lacks(at, size, end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False, NONE, NONE
    behind, option, option_end = at + size, NONE, NONE
    while at < behind:
        stop = at + U64(4) + (get(buf, at, WORDS) << U64(2))
        if stop > behind:
            return BAD_TUNNEL, at, NOTHING, NONE, False, NONE, NONE
        if option_end == NONE and is_int_class(get(buf, at, OPTION_CLASS), table):
            option, option_end = at, stop
        at = stop
    return NONE, behind, following, vni, True, option, option_end


@kernel
def gtp_u(buf, at, end, limit):
    """GTP-U."""
    why = lacks(at, U64(8), end, limit)
    if why:
        return why | TUNNEL, at, NOTHING, NONE, False
    version, protocol = get(buf, at, GTP_VERSION), get(buf, at, GTP_PROTOCOL)
    if version != U64(1) or protocol != U64(1) or get(buf, at, MESSAGE) != USER_PACKET:
        return NONE, at, NOTHING, NONE, False
    extended, teid = get(buf, at, GTP_FLAGS[0]), get(buf, at, TEID)
    optional = extended | get(buf, at, GTP_FLAGS[1]) | get(buf, at, GTP_FLAGS[2])
    at += U64(8)
    if optional:
        why = lacks(at, U64(4), end, limit)
        if why:
            return why | TUNNEL, at, NOTHING, NONE, False
        extension = get(buf, at, NEXT_EXTENSION) * extended
        at += U64(4)
        while extension:
            why = lacks(at, U64(1), end, limit)
            if why:
                return why | TUNNEL, at, NOTHING, NONE, False
            size = U64(buf[at]) << U64(2)
            if size == NONE:
                return BAD_TUNNEL, at, NOTHING, NONE, False
            why = lacks(at, size, end, limit)
            if why:
                return why | TUNNEL, at, NOTHING, NONE, False
            at += size
            extension = U64(buf[at - U64(1)])
    why, following = by_nibble(buf, at, end, limit)
    return why, at, following, teid, True


@kernel
def read_tunnel(buf, at, end, limit, here, table):
    """The reader of a tunnel without INT in its own header."""
    if here == LABELS:
        return mpls(buf, at, end, limit)
    if here == IN_GRE:
        return gre(buf, at, end, limit, table)
    if here == IN_VXLAN:
        return vxlan(buf, at, end, limit)
    if here == IN_GPE:
        return vxlan_gpe(buf, at, end, limit, table)
    if here == IN_GTP_U:
        return gtp_u(buf, at, end, limit)
    if here == MIRROR_2:
        return erspan_2(buf, at, end, limit)
    if here == MIRROR_3:
        return erspan_3(buf, at, end, limit)
    return NONE, at, FRAME, NONE, False  # a mirrored frame without a header of its own
