"""Report metadata about the switch that sent the report: forms of 0.5, optional metadata of 1.0 and 2.0."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .. import layout
from ..buffer import push
from ..dialect import DEFAULT, Dialect
from ..records import Hop
from .hop_stack import push_metadata

_FORMS = {1: layout.DROP_0_5, 2: layout.SWITCH_LOCAL_0_5}
_FORM_KINDS = {1: layout.DROP_OF_0_5, 2: layout.LOCAL_OF_0_5}
_FORM_BITS = {1: 0x4000, 2: 0x7000}
"""Bitmaps of the items after the node id by form; the drop header's last word is not a hop value."""


@dataclass(slots=True)
class ReportMetadata:
    """Report metadata about the switch that sent the report."""

    hop: Hop = field(default_factory=Hop)
    queue_id: int | None = None
    drop_reason: int | None = None
    at: int = 0
    """Offset of its first byte."""
    size: int = 0
    """Size including domain-specific metadata, bytes."""


def push_metadata_0_5(
    out: bytearray, form: int, metadata: ReportMetadata, dialect: Dialect = DEFAULT
) -> None:
    """Append the drop header (form 1) or the switch-local header (form 2)."""
    items, bits = dialect.alternatives(_FORM_KINDS[form])[0], _FORM_BITS[form]
    hop = replace(metadata.hop, queue_id=metadata.queue_id or 0)
    out += hop.node_id.to_bytes(4, "big")
    push_metadata(out, items, bits, hop, layout.metadata_size(items, bits))
    if form == 1:
        push(out, layout.DROP.fields, {"queue_id": hop.queue_id, "drop_reason": metadata.drop_reason or 0})


def push_report_metadata(
    out: bytearray, items: tuple[layout.Item, ...], bitmap: int, metadata: ReportMetadata
) -> None:
    """Append a report's metadata."""
    for bit, item in enumerate(items):
        if not bitmap >> (15 - bit) & 1:
            continue
        if item is layout.DROP:
            push(
                out,
                item.fields,
                {"queue_id": metadata.queue_id or 0, "drop_reason": metadata.drop_reason or 0},
            )
        else:
            push_metadata(out, (item,), 0x8000, metadata.hop, item.size)
