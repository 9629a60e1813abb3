"""Writing transmit slots of the software switch: a packet with another label, restored, or in two fragments.
Offsets are array indices; all numbers are uint64 unless noted.

`origin` and `end` bound a frame in `buf`, `ip` and `payload` its IP header; `to` is the start of its slot in
`out`.
"""

from ..base.kernels.jit import U64, be16, inlined
from ..wire.headers.checksum_kernel import ONES_16, copy
from ..wire.headers.packet_kernel import IPV4_FRAGMENT, SIZE_IPV4, byte, get, word
from ..wire.headers.put_kernel import put8, put16, put32, put64
from ..wire.label import label_kernel as label
from ..wire.layout import IPV4
from .records import SwitchAt
from .route_kernel import MAX_HOP, PROTOCOL

FRAGMENT, NOW, QUEUED = int(SwitchAt.FRAGMENT), int(SwitchAt.NOW), int(SwitchAt.QUEUED)
MTU, ROOM = int(SwitchAt.MTU), int(SwitchAt.ROOM)
IPV4_TOTAL, IPV4_FLAGS = byte(IPV4, "total_length"), U64(6)
IPV4_TTL, IPV4_CHECK = byte(IPV4, "ttl"), byte(IPV4, "checksum")
IPV6_PAYLOAD, IPV6_NEXT_AT = U64(4), U64(6)
IPV4_WHOLE = word(IPV4, "dont_fragment")
MORE_BIT = U64(0x2000)
ONES_32 = U64(0xFFFFFFFF)
EIGHT = U64(8)


@inlined
def replace16(out, ip, place, value):
    """Write 16 bits of an IPv4 header, and update its checksum (RFC 1624)."""
    old, check = be16(out, ip + place), be16(out, ip + IPV4_CHECK)
    put16(out, ip + place, value)
    put16(out, ip + IPV4_CHECK, (check + old + (ONES_16 - value)) % ONES_16)


@inlined
def amend(out, ip, version, protocol, length):
    """Set the protocol and the total length in an IP header."""
    if version == label.SIX:
        put16(out, ip + IPV6_PAYLOAD, length - U64(40))
        put8(out, ip + IPV6_NEXT_AT, protocol)
        return
    replace16(out, ip, IPV4_TOTAL, length)
    replace16(out, ip, IPV4_TTL, (U64(out[ip + IPV4_TTL]) << U64(8)) | protocol)


@inlined
def put_item(out, to, node, ingress, egress, received, at):
    """Write the port's own item (LABEL_STATE)."""
    waited = at[NOW] - received if received < at[NOW] else label.ZERO
    put32(out, to + label.STATE_DEVICE, node)
    put16(out, to + label.STATE_INGRESS, ingress)
    put16(out, to + label.STATE_EGRESS, egress)
    put64(out, to + label.STATE_TIME, at[NOW])
    put32(out, to + label.STATE_LATENCY, min(waited, ONES_32))
    put32(out, to + label.STATE_OCCUPANCY, min(at[QUEUED], ONES_32))
    put64(out, to + label.ITEM - U64(8), label.ZERO)


@inlined
def fit(buf, origin, ip, version, payload, ip_bytes, size, added_bytes, labelled, spare, at):
    """IP bytes of the first fragment if a label adds `added_bytes` to a packet of `ip_bytes`; `ip_bytes`: no
    fragmentation; 0: no label. `size` is the frame's; `spare`: a second slot is free.

    As in the simulation: a packet is fragmented only at its first label, leaving room for MAX_hop
    labels, so that it is not fragmented again; a tracked packet continues with the labels that fit. Packets
    with DF or options, and IPv6, which the simulation does not have, are never fragmented.
    """
    mtu, room = min(at[MTU], ONES_16), at[ROOM]
    if ip_bytes + added_bytes <= mtu:
        return ip_bytes if size + added_bytes <= room else label.ZERO
    if (
        at[FRAGMENT] == label.ZERO or labelled or not spare or version == label.SIX
        or payload - ip != SIZE_IPV4 or get(buf, ip, IPV4_WHOLE) != label.ZERO
    ):  # fmt: skip
        return label.ZERO
    first = SIZE_IPV4 + (mtu - min(mtu, SIZE_IPV4 + label.OPTION + at[MAX_HOP] * label.ITEM)) // EIGHT * EIGHT
    # a fragment that ends beyond the longest packet is forged: a larger offset would run into its flags
    ends = get(buf, ip, IPV4_FRAGMENT) * EIGHT + ip_bytes
    if first == SIZE_IPV4 or ip_bytes <= first or ip - origin + first + added_bytes > room or ends > ONES_16:
        return label.ZERO
    return first


@inlined
def label_into(
    out, to, buf, origin, ip, version, payload, end, option, next_, count, ip_bytes, kept_bytes, node,
    ingress, egress, received, at,
):  # fmt: skip
    """Write a packet with the port's label before its others; returns the bytes of the frame. Of the
    IP packet, `kept_bytes` are written; fewer than `ip_bytes` make a first fragment.
    """
    head, own_ip = payload - origin, to + ip - origin
    added_bytes = label.OPTION - option + label.ITEM
    copy(out, to, buf, origin, payload)
    put8(out, to + head + label.NEXT, next_)
    put8(out, to + head + label.COUNT, count)
    put_item(out, to + head + label.OPTION, node, ingress, egress, received, at)
    if kept_bytes < ip_bytes:
        end = ip + kept_bytes
        replace16(out, own_ip, IPV4_FLAGS, be16(out, own_ip + IPV4_FLAGS) | MORE_BIT)
    copy(out, to + head + label.OPTION + label.ITEM, buf, payload + option, end)
    amend(out, own_ip, version, at[PROTOCOL], kept_bytes + added_bytes)
    return end - origin + added_bytes


@inlined
def second_fragment(out, to, buf, origin, ip, payload, ip_bytes, kept_bytes):
    """Write the rest after `label_into` as an IPv4 packet without a label (RFC 791); returns the bytes of the
    frame.
    """
    head, own_ip = payload - origin, to + ip - origin
    copy(out, to, buf, origin, payload)
    copy(out, to + head, buf, ip + kept_bytes, ip + ip_bytes)
    replace16(out, own_ip, IPV4_FLAGS, be16(buf, ip + IPV4_FLAGS) + (kept_bytes - SIZE_IPV4) // EIGHT)
    replace16(out, own_ip, IPV4_TOTAL, ip_bytes - kept_bytes + SIZE_IPV4)
    return head + ip_bytes - kept_bytes


@inlined
def restore_into(out, to, buf, origin, ip, version, payload, end, removed, next_, ip_bytes):
    """Write a packet without the `removed` bytes of labels after its IP header; returns the bytes of the
    frame.
    """
    copy(out, to, buf, origin, payload)
    copy(out, to + payload - origin, buf, payload + removed, end)
    amend(out, to + ip - origin, version, next_, ip_bytes - removed)
    return end - origin - removed
