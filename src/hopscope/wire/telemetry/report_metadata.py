"""What a report itself carries of the switch that sent it: forms of 0.5, optional metadata of 1.0 and 2.0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .. import layout
from ..buffer import Buffer, push
from ..dialect import DEFAULT, Dialect
from ..reasons import Place
from ..records import Have
from .int_header import Hop, pull_metadata, push_metadata

_FORMS = {1: layout.DROP_0_5, 2: layout.SWITCH_LOCAL_0_5}
_FORM_KINDS = {1: layout.DROP_OF_0_5, 2: layout.LOCAL_OF_0_5}
_FORM_BITS = {1: 0x4000, 2: 0x7000}
"""Bitmaps of what follows the node id, and the drop header's last word, which is no hop value."""


@dataclass(slots=True)
class Own:
    """What a report itself carries of the switch that sent it."""

    hop: Hop = field(default_factory=Hop)
    queue_id: int | None = None
    drop_reason: int | None = None
    at: int = 0
    """Offset of its first byte."""
    size: int = 0
    """Bytes, with domain-specific metadata."""


def pull_own_0_5(buf: Buffer, form: int, dialect: Dialect = DEFAULT) -> Own:
    """The drop header (form 1) or the switch-local header (form 2). Raises WireError where it is cut."""
    header, items = _FORMS[form], dialect.alternatives(_FORM_KINDS[form])[0]
    start = buf.at
    head = buf.pull(header, Place.REPORT_METADATA)
    hop = pull_metadata(buf.raw, start + 4, items, _FORM_BITS[form], header.size - 4)
    _set_node(hop, head["node_id"])
    queue_id = hop.queue_id if form == 2 else head["queue_id"]
    return Own(hop, queue_id, head.get("drop_reason"), start, header.size)


def _set_node(hop: Hop, node_id: int) -> None:
    hop.node_id = node_id
    hop.present |= Have.NODE_ID
    if node_id == 0xFFFFFFFF:
        hop.null |= Have.NODE_ID


def push_own_0_5(out: bytearray, form: int, own: Own, dialect: Dialect = DEFAULT) -> None:
    """Append the drop header (form 1) or the switch-local header (form 2)."""
    items, bits = dialect.alternatives(_FORM_KINDS[form])[0], _FORM_BITS[form]
    hop = replace(own.hop, queue_id=own.queue_id or 0)
    out += hop.node_id.to_bytes(4, "big")
    push_metadata(out, items, bits, hop, layout.metadata_size(items, bits))
    if form == 1:
        push(out, layout.DROP.fields, {"queue_id": hop.queue_id, "drop_reason": own.drop_reason or 0})


def pull_own(buf: Buffer, items: tuple[layout.Item, ...], bitmap: int, node_id: int) -> Own:
    """A report's own metadata, by a dialect's items of `OWN_OF_1_0` or `OWN_OF_2_0`, with the node id of its
    header.

    Raises WireError where it is cut.
    """
    size = layout.metadata_size(items, bitmap)
    at = buf.skip(size, Place.REPORT_METADATA, "optional metadata")
    hop = pull_metadata(buf.raw, at, items, bitmap, size)
    _set_node(hop, node_id)
    own = Own(hop, hop.queue_id if hop.present & Have.QUEUE_OCCUPANCY else None, at=at, size=size)
    for bit, item in enumerate(items):
        if bitmap >> (15 - bit) & 1:
            if item is layout.DROP:
                own.queue_id, own.drop_reason = buf.raw[at], buf.raw[at + 1]
            at += item.size
    return own


def push_own(out: bytearray, items: tuple[layout.Item, ...], bitmap: int, own: Own) -> None:
    """Append a report's own metadata."""
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        if item is layout.DROP:
            push(out, item.fields, {"queue_id": own.queue_id or 0, "drop_reason": own.drop_reason or 0})
        else:
            push_metadata(out, (item,), 0x8000, own.hop, item.size)
