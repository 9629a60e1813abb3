"""Reading report metadata."""

from __future__ import annotations

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.reasons import Place
from hopscope.wire.records import Have, Hop
from hopscope.wire.telemetry.report_metadata import _FORM_BITS, _FORM_KINDS, _FORMS, ReportMetadata

from .int_header import pull_metadata


def pull_metadata_0_5(buf: Buffer, form: int, dialect: Dialect = DEFAULT) -> ReportMetadata:
    """The drop header (form 1) or the switch-local header (form 2). Raises WireError where it is cut."""
    header, items = _FORMS[form], dialect.alternatives(_FORM_KINDS[form])[0]
    start = buf.at
    head = buf.pull(header, Place.REPORT_METADATA)
    hop = pull_metadata(buf.raw, start + 4, items, _FORM_BITS[form], header.size - 4)
    _set_node(hop, head["node_id"])
    queue_id = hop.queue_id if form == 2 else head["queue_id"]
    return ReportMetadata(hop, queue_id, head.get("drop_reason"), start, header.size)


def _set_node(hop: Hop, node_id: int) -> None:
    hop.node_id = node_id
    hop.present |= Have.NODE_ID
    if node_id == 0xFFFFFFFF:
        hop.null |= Have.NODE_ID


def pull_report_metadata(
    buf: Buffer, items: tuple[layout.Item, ...], bitmap: int, node_id: int
) -> ReportMetadata:
    """A report's own metadata, by a dialect's items of `OWN_OF_1_0` or `OWN_OF_2_0`, with the node id of its
    header.

    Raises WireError where it is cut.
    """
    size = layout.metadata_size(items, bitmap)
    at = buf.skip(size, Place.REPORT_METADATA, "optional metadata")
    hop = pull_metadata(buf.raw, at, items, bitmap, size)
    _set_node(hop, node_id)
    own = ReportMetadata(hop, hop.queue_id if hop.present & Have.QUEUE_OCCUPANCY else None, at=at, size=size)
    for bit, item in enumerate(items):
        if bitmap >> (15 - bit) & 1:
            if item is layout.DROP:
                own.queue_id, own.drop_reason = buf.raw[at], buf.raw[at + 1]
            at += item.size
    return own
