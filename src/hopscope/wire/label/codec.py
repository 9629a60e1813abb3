"""INT-label: labels in packets, and in the datagrams in which last hops send them on.

As in the paper (section 2, Fig. 2), an option and items of 32 bytes are between the IP header and its
payload; the IP header's protocol announces them, and the option keeps the original protocol. The published
code puts the same option after an EtherType, with other items. The newest item comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .. import layout
from ..buffer import Buffer, push
from ..errors import WireError
from ..headers.ethernet import ip_version_of, pull_link
from ..reasons import Place, Reason
from ..records import Link
from .item import Form, LabelFlow, Labelled
from .layout import (
    ETHERTYPE_LABEL,
    ETHERTYPE_LABEL_ROUTE,
    LABEL_FLOW,
    LABEL_FLOW_VERSION,
    LABEL_ITEM,
    LABEL_OPTION,
    LABEL_ROUTE,
    LABEL_ROUTE_ENTRY,
    LABEL_STATE,
    PROTOCOL_LABEL,
    LabelItem,
    PublishedItem,
)

__all__ = [
    "MAX_HOP", "MAX_ITEMS", "Form", "LabelFlow", "LabelItem", "Labelled", "PublishedItem", "push_flow",
    "push_item", "push_label", "read_blocks", "read_labels", "restore",
]  # fmt: skip

MAX_HOP = 5
"""MAX_hop of a fat tree: counts above it are those of tracked flows (section 3.3)."""
MAX_ITEMS = 255
"""Maximum of the option's count."""
_ONES_16 = (1 << 16) - 1
_PLACE = Place.LABEL


@dataclass(slots=True)
class _Found:
    """Place of labels in a frame, or the place to insert them."""

    form: Form
    ip: int
    """Offset of the IP header."""
    version: int
    protocol: int
    at: int
    """Offset of the option, or the place to insert it."""
    limit: int
    """End of the IP packet according to its header; in the published form, end of the frame."""


def read_labels(
    frame: bytes, *, max_hop: int = MAX_HOP, protocol: int = PROTOCOL_LABEL, link: int = Link.ETHERNET
) -> Labelled | None:
    """The labels of a frame, None if it carries none.

    `protocol` is that of the labelled IP packet. Labels directly follow the IPv4 header with its
    options or the 40 bytes of IPv6's, in every fragment. Raises WireError if the frame
    announces labels that cannot be read.
    """
    found = _find(frame, link)
    if found is None or (found.form is Form.PAPER and found.protocol != protocol):
        return None
    return replace(_pull(_buffer(frame, found), found.form, max_hop), ip=found.ip)


def read_blocks(datagram: bytes, *, max_hop: int = MAX_HOP) -> tuple[list[Labelled], WireError | None]:
    """The labels that a last hop forwards, packet by packet, and why the rest could not be read.

    A block consists of a packet's option and items (LABEL_STATE); a block without items is rejected. The
    packet's flow may precede the option; its first byte is a version, and it has 0 in place of an option's
    count.
    """
    buf = Buffer(datagram)
    blocks: list[Labelled] = []
    try:
        while buf.left or not blocks:
            start = buf.at
            flow = _pull_flow(buf)
            block = _pull(buf, Form.EXPORT, max_hop)
            if not block.items:
                raise WireError(Reason.BAD_LENGTH, _PLACE, start, "a block without items")
            if flow is not None:
                words = flow["source"], flow["destination"], block.next_header
                labelled_flow = LabelFlow(*words, flow["source_port"], flow["destination_port"])
                block = replace(block, flow=labelled_flow)
            blocks.append(block)
    except WireError as error:
        return blocks, error
    return blocks, None


def push_label(
    frame: bytes,
    item: LabelItem | PublishedItem,
    *,
    max_hop: int = MAX_HOP,
    tracked: bool = False,
    protocol: int = PROTOCOL_LABEL,
) -> bytes:
    """The Ethernet frame with one more label; `tracked`: the flow of a packet without labels is tracked.

    Raises WireError if it is damaged, is not an IP packet, is full (MAX_hop labels, or 255 by its count),
    would be longer than 65,535 bytes, or has an IPv4 checksum of 0xFFFF, which no sender writes, and which
    `restore` could not restore.
    """
    found = _find(frame, Link.ETHERNET)
    published = found is not None and found.form is Form.PUBLISHED
    if found is None or published != isinstance(item, PublishedItem):
        detail = "not a packet that carries labels of this form"
        raise WireError(Reason.UNKNOWN_TYPE, Place.OUTER_ETHERNET, 0, detail)
    buf = _buffer(frame, found)
    _be_whole(frame, found)
    old = _pull(buf, found.form, max_hop) if published or found.protocol == protocol else None
    count = len(old.items) if old else 0
    tracked = tracked if not count or old is None else old.tracked
    if published:
        tracked, full = False, MAX_ITEMS
    else:
        full = MAX_ITEMS - max_hop if tracked else max_hop
    if count >= full:
        raise WireError(Reason.TOO_MANY_HOPS, _PLACE, found.at, f"{count} labels, at most {full}")
    option, body = bytearray(), bytearray()
    next_header = old.next_header if old else found.protocol
    push(option, LABEL_OPTION, {"next_header": next_header, "count": count + 1 + tracked * max_hop})
    push_item(body, item)
    rest = found.at + (LABEL_OPTION.size if old else 0)
    out = bytearray(frame[: found.at]) + option + body + frame[rest:]
    if not published:
        _amend(out, found, found.protocol, protocol, len(out) - len(frame))
    return bytes(out)


def restore(frame: bytes, *, max_hop: int = MAX_HOP, protocol: int = PROTOCOL_LABEL) -> bytes:
    """The Ethernet frame as it was before its first label; a frame without labels is returned unchanged.

    The published form keeps its Ethernet type and an option that counts no items, as its sender wrote it.
    Raises WireError if it is damaged.
    """
    labels = read_labels(frame, max_hop=max_hop, protocol=protocol)
    found = _find(frame, Link.ETHERNET)
    if labels is None or found is None:
        return frame
    _be_whole(frame, found)
    if labels.form is Form.PUBLISHED:
        return frame[: labels.at + 1] + b"\0" + frame[labels.end :]
    out = bytearray(frame[: labels.at]) + frame[labels.end :]
    _amend(out, found, protocol, labels.next_header, len(out) - len(frame))
    return bytes(out)


def push_item(out: bytearray, item: LabelItem | PublishedItem) -> None:
    """Append an item; raises ValueError if a value is wider than its field."""
    out += (LABEL_ITEM if isinstance(item, PublishedItem) else LABEL_STATE).pack_object(item)


def push_flow(out: bytearray, flow: LabelFlow) -> None:
    """Append a flow, before its packet's option; raises ValueError if a value is wider than its field."""
    push(out, LABEL_FLOW, {
        "version": LABEL_FLOW_VERSION, "source": flow.source, "destination": flow.destination,
        "source_port": flow.source_port, "destination_port": flow.destination_port,
    })  # fmt: skip


def _find(frame: bytes, link: int) -> _Found | None:
    """The place of labels; None for a frame that is neither an IP packet nor of the published form, or that
    is cut too early. Raises WireError if a source route is damaged.
    """
    buf = Buffer(frame)
    try:
        type_, _ = pull_link(buf, link)
    except WireError:
        return None
    if type_ == ETHERTYPE_LABEL_ROUTE:
        return _after_route(buf)
    if type_ == ETHERTYPE_LABEL:
        return _Found(Form.PUBLISHED, 0, 0, 0, buf.at, len(frame))
    version, ip = ip_version_of(type_), buf.at
    header = layout.IPV6 if version == 6 else layout.IPV4
    if version == 0 or len(frame) < ip + header.size or frame[ip] >> 4 != version:
        return None
    head = buf.peek(header, Place.OUTER_IP)
    if version == 6:
        end = ip + layout.IPV6.size
        return _Found(Form.PAPER, ip, 6, head["next_header"], end, end + head["payload_length"])
    size = head["header_words"] * 4
    if size < layout.IPV4.size:
        return None
    return _Found(Form.PAPER, ip, 4, head["protocol"], ip + size, ip + head["total_length"])


def _after_route(buf: Buffer) -> _Found:
    buf.pull(LABEL_ROUTE, _PLACE)
    while not buf.pull(LABEL_ROUTE_ENTRY, _PLACE)["last"]:
        pass
    at = buf.skip(2, _PLACE, "Ethernet type")
    type_ = int.from_bytes(buf.raw[at : at + 2], "big")
    if type_ != ETHERTYPE_LABEL:
        detail = f"type 0x{type_:04x} after the source route, expected 0x{ETHERTYPE_LABEL:04x}"
        raise WireError(Reason.UNKNOWN_TYPE, _PLACE, at, detail)
    return _Found(Form.PUBLISHED, 0, 0, 0, buf.at, len(buf.raw))


def _buffer(frame: bytes, found: _Found) -> Buffer:
    """The payload of an IP packet. Raises WireError if its header is cut or states a length below its own."""
    buf = Buffer(frame, found.at)
    buf.at = found.ip
    buf.need(found.at - found.ip, Place.OUTER_IP, "IP header")
    if found.limit < found.at:
        detail = f"IP length {found.limit - found.ip} is below the header's {found.at - found.ip} bytes"
        raise WireError(Reason.BAD_LENGTH, Place.OUTER_IP, found.ip, detail)
    buf.at, buf.limit = found.at, min(found.limit, buf.end)
    return buf


def _be_whole(frame: bytes, found: _Found) -> None:
    if found.limit > len(frame):
        detail = f"an IP packet of {found.limit - found.ip} bytes, {len(frame) - found.ip} are left"
        raise WireError(Reason.TRUNCATED, Place.OUTER_IP, found.ip, detail)


def _pull(buf: Buffer, form: Form, max_hop: int) -> Labelled:
    start = buf.at
    option = buf.pull(LABEL_OPTION, _PLACE)
    count, tracked = option["count"], form is not Form.PUBLISHED and option["count"] > max_hop
    if tracked:
        count -= max_hop
    buf.need(count * LABEL_STATE.size, _PLACE, f"{count} items")
    items: tuple[LabelItem | PublishedItem, ...]
    if form is Form.PUBLISHED:
        items = tuple(PublishedItem(**buf.pull(LABEL_ITEM, _PLACE)) for _ in range(count))
    else:
        items = tuple(LabelItem(**buf.pull(LABEL_STATE, _PLACE)) for _ in range(count))
    return Labelled(form, option["next_header"], tracked, items, start, buf.at)


def _pull_flow(buf: Buffer) -> dict[str, int] | None:
    """The fields of a flow before an option; None if there is none."""
    head = buf.peek(LABEL_OPTION, _PLACE)
    version = head["next_header"]
    if head["count"] or not version:
        return None
    if version != LABEL_FLOW_VERSION:
        detail = f"a flow of version {version}, expected {LABEL_FLOW_VERSION}"
        raise WireError(Reason.UNKNOWN_VERSION, _PLACE, buf.at, detail)
    return buf.pull(LABEL_FLOW, _PLACE)


def _amend(out: bytearray, found: _Found, old: int, new: int, longer: int) -> None:
    """Write an IP header's new length and protocol; IPv4's checksum is updated by the difference (RFC 1624),
    so that a wrong checksum stays wrong, and is restored unchanged.
    """
    ip = found.ip
    length_at, protocol_at = (ip + 4, ip + 6) if found.version == 6 else (ip + 2, ip + 9)
    before = int.from_bytes(out[length_at : length_at + 2], "big")
    after = before + longer
    if after > _ONES_16:
        raise WireError(Reason.BAD_LENGTH, Place.OUTER_IP, ip, f"with a label it has {after:,} bytes")
    if found.version == 4:
        check = int.from_bytes(out[ip + 10 : ip + 12], "big")
        if check == _ONES_16:
            detail = "checksum 0xffff, which could not be restored"
            raise WireError(Reason.UNSUPPORTED, Place.OUTER_IP, ip, detail)
        check = (check + before + old - after - new) % _ONES_16
        out[ip + 10 : ip + 12] = check.to_bytes(2, "big")
    out[length_at : length_at + 2] = after.to_bytes(2, "big")
    out[protocol_at] = new
