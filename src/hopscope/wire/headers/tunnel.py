"""Tunnels on the way into a packet: MPLS, GRE, ERSPAN, VXLAN, VXLAN-GPE, Geneve and GTP-U.

Each `pull_x` reads one header, and returns what follows it (`rules.Next`; NOTHING also for a form that is not
read, such as another version) and the tunnel's id (VNI, GRE key or TEID), if the header has one. All raise
WireError if the header is cut.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import layout, rules
from ..buffer import Buffer
from ..reasons import Place
from ..rules import Next

Found = tuple[Next, int | None]
Table = npt.NDArray[np.uint8]

_BY_TYPE = {
    layout.ETHERTYPE_IPV4: Next.IPV4, layout.ETHERTYPE_IPV6: Next.IPV6, layout.ETHERTYPE_TEB: Next.ETHERNET,
    **dict.fromkeys(layout.ETHERTYPE_MPLS, Next.MPLS),
}  # fmt: skip
_BY_PROTOCOL = {
    layout.PROTOCOL_IPV4: Next.IPV4, layout.PROTOCOL_IPV6: Next.IPV6, layout.PROTOCOL_GRE: Next.GRE,
    layout.PROTOCOL_TCP: Next.L4, layout.PROTOCOL_UDP: Next.L4, layout.PROTOCOL_MPLS: Next.MPLS,
}  # fmt: skip
_IN_A_FRAME = {
    layout.ETHERTYPE_IPV4, layout.ETHERTYPE_IPV6, *layout.ETHERTYPES_VLAN, *layout.ETHERTYPE_MPLS
}  # fmt: skip
_TYPE_AT = layout.ETHERNET.field("type").at // 8
_CONTROL_WORD = 4


def by_ethertype(type_: int) -> Next:
    """What an EtherType announces."""
    return _BY_TYPE.get(type_, Next.NOTHING)


def by_protocol(protocol: int) -> Next:
    """What an IP protocol announces."""
    return _BY_PROTOCOL.get(protocol, Next.NOTHING)


def by_port(dport: int, table: Table) -> Next:
    """The tunnel that a UDP destination port announces."""
    role = int(table[rules.UDP_ROLE + dport])
    return next((following for bit, following in rules.TUNNEL_ROLES if role & bit), Next.NOTHING)


def _by_nibble(buf: Buffer) -> Next:
    buf.need(1, Place.TUNNEL, "IP")
    return {4: Next.IPV4, 6: Next.IPV6}.get(buf.raw[buf.at] >> 4, Next.NOTHING)


def pull_mpls(buf: Buffer, table: Table) -> Found:
    """Read labels to the bottom of their stack. The 4 bits after it tell what follows: IP, or Ethernet with
    or without a control word before it (RFC 4385), which the EtherType decides.
    """
    for _ in range(layout.MAX_LABELS):
        if buf.pull(layout.MPLS, Place.TUNNEL)["bottom"]:
            break
    else:
        return Next.NOTHING, None
    following = _by_nibble(buf)
    nibble = buf.raw[buf.at] >> 4
    if following or nibble == 1:  # 1: an associated channel (RFC 4385)
        return following, None
    if nibble == 0 and (not _is_frame(buf, buf.at) or _is_frame(buf, buf.at + _CONTROL_WORD)):
        buf.skip(_CONTROL_WORD, Place.TUNNEL, "control word")
    return Next.ETHERNET, None


def _is_frame(buf: Buffer, at: int) -> bool:
    at += _TYPE_AT
    return at + 2 <= min(buf.end, buf.limit) and int.from_bytes(buf.raw[at : at + 2], "big") in _IN_A_FRAME
