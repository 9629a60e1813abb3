"""Frames to reports by the scalar codecs: the readable truth that the batch decoder must equal, and what
small captures are read with, since it compiles nothing.

What is known before a refusal stays in the row: each header is written when it has been read without error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hopscope.wire import layout, rules
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import HOP, REPORT, Carried, FrameBatch, Have, Kind, Link, ReportBatch
from hopscope.wire.telemetry.report import kind_of, main_form
from hopscope.wire.telemetry.report_metadata import ReportMetadata

from . import report
from .datagram import find_datagram
from .inner import LOW, read_inner, read_packet
from .report import (
    bare_report,
    check_end,
    check_types,
    pull_group,
    pull_main,
    pull_report_0_5,
    pull_report_1_0,
    pull_report_2_0,
)
from .report_metadata import pull_metadata_0_5, pull_report_metadata
from .row import Row

_REPORT_NAMES: tuple[str, ...] = REPORT.names or ()
_HOP_NAMES: tuple[str, ...] = HOP.names or ()


def decode_scalar(batch: FrameBatch, dialect: Dialect = DEFAULT) -> ReportBatch:
    """Decode every frame of `batch` in pure Python. Frames that are no reports are counted in `other`."""
    arena = batch.arena
    rows: list[tuple[int, ...]] = []
    hops: list[tuple[int, ...]] = []
    other = 0
    for packet, frame in enumerate(batch.frames):
        start = int(frame["offset"])
        raw = arena[start : start + int(frame["length"])].tobytes()
        found = False
        for row in read_frame(raw, frame, packet, dialect):
            found = True
            row.set(first_hop=len(hops), hop_count=len(row.hops))
            mine = row.hops if row.own is None else [*row.hops, row.own]
            hops.extend(tuple(getattr(hop, name) for name in _HOP_NAMES) for hop in mine)
            rows.append(tuple(row.fields.get(name, 0) for name in _REPORT_NAMES))
        other += not found
    return ReportBatch(np.array(rows, REPORT), np.array(hops, HOP), batch.first_packet, other)


def read_frame(raw: bytes, frame: np.void, packet: int, dialect: Dialect) -> Iterator[Row]:
    """The reports of one frame; where it is no report, itself if the dialect looks for INT in packets and it
    carries some. A refused report is a row with `error`.
    """
    base = {"packet": packet, "time_ns": int(frame["time_ns"])}
    found = False
    for row in _reports(raw, frame, base, dialect):
        found = True
        yield row
    if not found and dialect.packets and frame["link"] != Link.UDP_PAYLOAD:
        row = Row(base)
        if read_packet(Buffer(raw), int(frame["link"]), row, dialect):
            yield row


def _reports(raw: bytes, frame: np.void, base: dict[str, int], dialect: Dialect) -> Iterator[Row]:
    if frame["link"] == Link.UDP_PAYLOAD:
        base |= {"source_hi": int(frame["source_hi"]), "source_lo": int(frame["source_lo"])}
        yield from _payload(Buffer(raw), len(raw), base, dialect)
        return
    found = find_datagram(raw, int(frame["link"]), dialect)
    if found is None:
        return
    base |= {"source_hi": found.source >> 64, "source_lo": found.source & LOW}
    if found.error is not None:
        row = Row(base)
        row.refuse(found.error)
        yield row
        return
    body = Buffer(raw, found.start, min(found.announced, len(raw)))
    yield from _payload(body, found.announced, base, dialect)


def _payload(buf: Buffer, announced: int, base: dict[str, int], dialect: Dialect) -> Iterator[Row]:
    row = Row(base)
    try:
        buf.need(1, Place.REPORT_HEADER, "report")
        first = buf.raw[buf.at]
        version = int(dialect.table()[rules.FIRST_BYTE + first])
        if version == 0:
            raise WireError(
                Reason.UNKNOWN_VERSION, Place.REPORT_HEADER, buf.at, f"report begins with 0x{first:02x}"
            )
        row.set(version=version)
        if version == 5:
            _report_0_5(buf, row, dialect)
        elif version == 10:
            _report_1_0(buf, row, dialect)
        else:
            group = pull_group(buf)
            row.set(hw_id=group.hw_id, sequence=group.sequence, node_id=group.node_id)
            row.carry(Carried.NODE_ID)
            yield from _reports_2_0(buf, announced, row.fields, dialect)
            return
    except WireError as error:
        row.refuse(error)
    yield row


def _report_0_5(buf: Buffer, row: Row, dialect: Dialect) -> None:
    head = pull_report_0_5(buf, dialect)
    form = report.form_0_5(head.next_protocol, dialect)
    row.set(
        flags=head.flags,
        hw_id=head.hw_id,
        sequence=head.sequence,
        ingress_time=head.ingress_time,
        kind=form.kind(head.flags),
    )
    row.carry(Carried.INGRESS_TIME)
    if form.form == 3:
        row.set(own_at=buf.skip(form.size, Place.REPORT_METADATA, "the form's header"))
    elif form.form:
        own = pull_metadata_0_5(buf, form.form, dialect)
        row.set(node_id=own.hop.node_id)
        row.carry(Carried.NODE_ID)
        _keep(row, own)
    read_inner(buf, form.inner_type, row, dialect)


def _report_1_0(buf: Buffer, row: Row, dialect: Dialect) -> None:
    head = pull_report_1_0(buf, dialect)
    row.set(flags=head.flags, hw_id=head.hw_id, node_id=head.node_id, sequence=head.sequence,
            ingress_time=head.ingress_time, kind=kind_of(head.flags))  # fmt: skip
    row.carry(Carried.INGRESS_TIME | Carried.NODE_ID)
    if head.metadata_bits:
        items = dialect.alternatives(layout.OWN_OF_1_0)[0]
        _keep(row, pull_report_metadata(buf, items, head.metadata_bits << 10, head.node_id))
    read_inner(buf, report.inner_type_1_0(head.next_protocol, dialect), row, dialect)


def _reports_2_0(buf: Buffer, announced: int, group: dict[str, int], dialect: Dialect) -> Iterator[Row]:
    if bare := bare_report(dialect, announced):
        yield _bare_2_0(buf, bare, group, dialect)
        return
    index = spent = 0
    while index == 0 or buf.at + layout.REPORT_2_0.size <= announced:  # less is padding
        row = Row(group)
        row.set(index=index)
        start = buf.at
        try:
            head = pull_report_2_0(buf, announced, dialect)
        except WireError as error:  # where the next report begins is unknown
            row.refuse(error)
            yield row
            return
        part = Buffer(buf.raw, buf.at, head.end)
        buf.at = head.end
        form, size = main_form(head.report_type, dialect)
        row.set(flags=head.flags, kind=kind_of(head.flags) if form else Kind.INNER)
        try:
            form, inner_type = check_types(head, start, dialect)
            if form == 1:
                _main_2_0(part, head, row, dialect)
            elif form == 3:
                row.set(own_at=part.skip(size, Place.REPORT_METADATA, "main contents"))
            read_inner(part, inner_type, row, dialect)
        except WireError as error:
            row.refuse(error)
        if not (row.hops or row.own or row.fields.get("carried", 0) & Carried.FLOW):
            spent += 1 if row.fields.get("reason") else 8
        if spent > 64:
            text = "more than 8 reports of the datagram hold neither a packet nor metadata"
            row.refuse(WireError(Reason.EMPTY_REPORTS, Place.REPORT_HEADER, start, text))
            yield row
            return
        yield row
        index += 1


def _bare_2_0(buf: Buffer, head: report.Report20, group: dict[str, int], dialect: Dialect) -> Row:
    row = Row(group)
    try:
        check_end(head, buf, buf.at)
        read_inner(Buffer(buf.raw, buf.at, head.end), head.inner_type, row, dialect)
    except WireError as error:
        row.refuse(error)
    return row


def _main_2_0(part: Buffer, head: report.Report20, row: Row, dialect: Dialect) -> None:
    items = dialect.alternatives(layout.OWN_OF_2_0)[0]
    main, own = pull_main(part, head, row.fields["node_id"], items)
    if own.size:
        row.set(own_at=own.at)
    if main.metadata_bits:
        _keep(row, own)
    if own.hop.present & Have.INGRESS_TIME:
        row.set(ingress_time=own.hop.ingress_time)
        row.carry(Carried.INGRESS_TIME)


def _keep(row: Row, own: ReportMetadata) -> None:
    row.own = own.hop
    row.set(own_at=own.at)
    row.carry(Carried.OWN_HOP)
    if own.queue_id is not None:
        row.set(queue_id=own.queue_id)
        row.carry(Carried.QUEUE_ID)
    if own.drop_reason is not None:
        row.set(drop_reason=own.drop_reason)
        row.carry(Carried.DROP_REASON)
