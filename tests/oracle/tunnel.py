"""The headers of tunnels."""

from __future__ import annotations

from hopscope.wire import layout, rules
from hopscope.wire.buffer import Buffer
from hopscope.wire.errors import WireError
from hopscope.wire.headers.tunnel import Found, Table, _by_nibble, _is_frame, by_ethertype
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.rules import Next

_ERSPAN_OPTIONAL = 8
_VNI_VALID = 0x08
_GPE_VERSION, _GPE_NEXT_PRESENT, _GPE_CONTROL = 0x30, 0x04, 0x01
_ERSPAN_FRAME, _ERSPAN_IP = 0, 2


def pull_gre(buf: Buffer, table: Table) -> Found:
    """GRE with checksum, key and sequence number (RFC 2784, 2890)."""
    head = buf.pull(layout.GRE, Place.TUNNEL)
    if head["version"] or head["routing_present"]:
        return Next.NOTHING, None
    size = 4 * (head["checksum_present"] + head["key_present"] + head["sequence_present"])
    at = buf.skip(size, Place.TUNNEL, "GRE with options") + 4 * head["checksum_present"]
    key = int.from_bytes(buf.raw[at : at + 4], "big") if head["key_present"] else None
    if head["type"] == int.from_bytes(table[rules.GRE_PROTOCOL : rules.GRE_PROTOCOL + 2].tobytes(), "big"):
        return (Next.INT if head["type"] else Next.NOTHING), key
    if head["type"] == layout.ETHERTYPE_ERSPAN_2:
        return (Next.ERSPAN_2 if head["sequence_present"] else Next.ERSPAN_1), key
    if head["type"] == layout.ETHERTYPE_ERSPAN_3:
        return Next.ERSPAN_3, key
    return by_ethertype(head["type"]), key


def pull_erspan_1(buf: Buffer, table: Table) -> Found:
    """A mirrored frame without a header of its own."""
    return Next.ETHERNET, None


def pull_erspan_2(buf: Buffer, table: Table) -> Found:
    """ERSPAN type II."""
    version = buf.pull(layout.ERSPAN_2, Place.TUNNEL)["version"]
    return (Next.ETHERNET if version == 1 else Next.NOTHING), None


def pull_erspan_3(buf: Buffer, table: Table) -> Found:
    """ERSPAN type III: an Ethernet frame or an IP packet."""
    head = buf.pull(layout.ERSPAN_3, Place.TUNNEL)
    if head["version"] != 2:
        return Next.NOTHING, None
    if head["optional"]:
        buf.skip(_ERSPAN_OPTIONAL, Place.TUNNEL, "ERSPAN's optional part")
    if head["frame_type"] == _ERSPAN_IP:
        return _by_nibble(buf), None
    return (Next.ETHERNET if head["frame_type"] == _ERSPAN_FRAME else Next.NOTHING), None


def pull_vxlan(buf: Buffer, table: Table) -> Found:
    """VXLAN."""
    head = buf.pull(layout.VXLAN, Place.TUNNEL)
    return (Next.ETHERNET, head["vni"]) if head["flags"] & _VNI_VALID else (Next.NOTHING, None)


def pull_vxlan_gpe(buf: Buffer, table: Table) -> Found:
    """VXLAN-GPE; without a next protocol it carries Ethernet, as VXLAN does."""
    head = buf.pull(layout.VXLAN_GPE, Place.TUNNEL)
    if head["flags"] & (_GPE_VERSION | _GPE_CONTROL):
        return Next.NOTHING, None
    following = by_gpe(head["next_protocol"], table)
    early = following == Next.INT and not _is_frame(buf, buf.at)  # INT before there was a P flag
    if not head["flags"] & _GPE_NEXT_PRESENT and not early:
        following = Next.ETHERNET
    return following, head["vni"] if head["flags"] & _VNI_VALID else None


def pull_geneve(buf: Buffer, table: Table) -> tuple[Next, int | None, tuple[int, int] | None]:
    """Geneve with its options; of these, where the first that holds INT begins and ends.

    Raises WireError: truncated, and `bad_length` where an option is longer than the header leaves.
    """
    head = buf.pull(layout.GENEVE, Place.TUNNEL)
    if head["version"]:
        return Next.NOTHING, None, None
    start = buf.skip(4 * head["option_words"], Place.TUNNEL, "Geneve options")
    raw = table[rules.GENEVE_CLASSES : rules.GENEVE_CLASSES + 8].tobytes()
    classes = {int.from_bytes(raw[at : at + 2], "big") for at in range(0, 8, 2)} - {0}
    options, found = Buffer(buf.raw, start, buf.at), None
    while options.left:
        at = options.at
        option = options.pull(layout.GENEVE_OPTION, Place.TUNNEL)
        stop = options.at + 4 * option["words"]
        if stop > options.end:
            raise WireError(
                Reason.BAD_LENGTH, Place.TUNNEL, at,
                f"Geneve option of {4 * option['words']} bytes, its header leaves {options.left}",
            )  # fmt: skip
        if found is None and option["class"] in classes:
            found = (at, stop)
        options.at = stop
    return (Next.NOTHING if head["control"] else by_ethertype(head["type"])), head["vni"], found


def pull_gtp_u(buf: Buffer, table: Table) -> Found:
    """GTP-U with its optional fields and chain of extension headers, where it carries a user's packet.

    Raises WireError: truncated, and `bad_length` for an extension header of no length.
    """
    head = buf.pull(layout.GTP_U, Place.TUNNEL)
    if (head["version"], head["protocol"], head["message"]) != (1, 1, layout.GTP_U_USER_PACKET):
        return Next.NOTHING, None
    if head["extension"] or head["sequence_present"] or head["npdu_present"]:
        following = buf.pull(layout.GTP_U_OPTIONAL, Place.TUNNEL)["next_extension"] * head["extension"]
        while following:
            buf.need(1, Place.TUNNEL, "GTP-U extension")
            size = 4 * buf.raw[buf.at]
            if size == 0:
                raise WireError(Reason.BAD_LENGTH, Place.TUNNEL, buf.at, "GTP-U extension of no length")
            following = buf.raw[buf.skip(size, Place.TUNNEL, "GTP-U extension") + size - 1]
    return _by_nibble(buf), head["teid"]


def by_gpe(next_protocol: int, table: Table) -> Next:
    """What a next protocol of VXLAN-GPE announces."""
    return Next(int(table[rules.GPE_NEXT + next_protocol]))
