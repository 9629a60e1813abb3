"""Frames to reports by the scalar codecs: the readable truth that the batch decoder must equal, and what
small captures are read with, since it compiles nothing.

What is known before a refusal stays in the row: each header is written when it has been read without error.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import dialect as d
from . import ethernet, int_header, layout, own_metadata, report
from .buffer import Buffer
from .errors import WireError
from .ethernet import Ip
from .int_header import Hop, Md
from .own_metadata import Own
from .reasons import Place, Reason
from .records import HOP, REPORT, Carried, Flag, FrameBatch, Have, IntFlag, Kind, Link, ReportBatch

Table = np.ndarray[tuple[int], np.dtype[np.uint8]]
_LOW = (1 << 64) - 1
_REPORT_NAMES: tuple[str, ...] = REPORT.names or ()
_HOP_NAMES: tuple[str, ...] = HOP.names or ()


class Row:
    """One report while it is read: fields as in REPORT (those not set are 0), its hops and its own
    metadata.
    """

    def __init__(self, fields: dict[str, int]) -> None:
        self.fields = dict(fields)
        self.hops: list[Hop] = []
        self.own: Hop | None = None
        self.error: WireError | None = None

    def set(self, **fields: int) -> None:
        """Set fields."""
        self.fields.update(fields)

    def carry(self, bits: int) -> None:
        """Set bits of `carried`."""
        self.fields["carried"] = self.fields.get("carried", 0) | bits

    def refuse(self, error: WireError) -> None:
        """Write why this report is refused."""
        self.error = error
        self.set(reason=error.reason, place=error.place, reason_at=error.at)


def decode_scalar(batch: FrameBatch, dialect: d.Dialect = d.DEFAULT) -> ReportBatch:
    """Decode every frame of `batch` in pure Python. Frames that are no reports are counted in `other`."""
    table = dialect.table()
    arena = batch.arena
    rows: list[tuple[int, ...]] = []
    hops: list[tuple[int, ...]] = []
    other = 0
    for packet, frame in enumerate(batch.frames):
        start = int(frame["offset"])
        raw = arena[start : start + int(frame["length"])].tobytes()
        found = False
        for row in read_frame(raw, frame, packet, table):
            found = True
            row.set(first_hop=len(hops), hop_count=len(row.hops))
            mine = row.hops if row.own is None else [*row.hops, row.own]
            hops.extend(tuple(getattr(hop, name) for name in _HOP_NAMES) for hop in mine)
            rows.append(tuple(row.fields.get(name, 0) for name in _REPORT_NAMES))
        other += not found
    return ReportBatch(np.array(rows, REPORT), np.array(hops, HOP), batch.first_packet, other)


def read_frame(raw: bytes, frame: np.void, packet: int, table: Table) -> Iterator[Row]:
    """The reports of one frame; none where it is no report. A refused report is a row with `error`."""
    base = {"packet": packet, "time_ns": int(frame["time_ns"])}
    if frame["link"] == Link.UDP_PAYLOAD:
        base |= {"source_hi": int(frame["source_hi"]), "source_lo": int(frame["source_lo"])}
        yield from _payload(Buffer(raw), len(raw), base, table)
        return
    buf = Buffer(raw)
    try:
        version = ethernet.pull_link(buf, int(frame["link"]))
        if version == 0:
            return
        ip_at = buf.at
        ip = ethernet.pull_ip(buf, version, Place.OUTER_IP)
        if ip.protocol != layout.PROTOCOL_UDP or ip.fragment_offset:
            return
        if not table[d.PORTS + buf.peek(layout.PORTS, Place.OUTER_UDP)["dport"]] & 1:
            return
    except WireError:
        return  # what is cut before its port is no report to anybody
    base |= {"source_hi": ip.source >> 64, "source_lo": ip.source & _LOW}
    udp_at = buf.at
    try:
        if ip.more_fragments:
            raise WireError(Reason.FRAGMENT, Place.OUTER_IP, ip_at, "first fragment of a datagram")
        udp = ethernet.pull_udp(buf, Place.OUTER_UDP)
        announced = udp_at + udp.length
        if udp.length < layout.UDP.size or announced > ip_at + ip.length:
            raise WireError(
                Reason.BAD_LENGTH, Place.OUTER_UDP, udp_at,
                f"UDP length {udp.length}, the IP length leaves {ip_at + ip.length - udp_at}",
            )  # fmt: skip
    except WireError as error:
        row = Row(base)
        row.refuse(error)
        yield row
        return
    yield from _payload(Buffer(raw, buf.at, min(announced, len(raw))), announced, base, table)


def _payload(buf: Buffer, announced: int, base: dict[str, int], table: Table) -> Iterator[Row]:
    row = Row(base)
    try:
        buf.need(1, Place.REPORT_HEADER, "report")
        first = buf.raw[buf.at]
        version = int(table[d.FIRST_BYTE + first])
        if version == 0:
            raise WireError(
                Reason.UNKNOWN_VERSION, Place.REPORT_HEADER, buf.at, f"report begins with 0x{first:02x}"
            )
        row.set(version=version)
        if version == 5:
            _report_0_5(buf, row, table)
        elif version == 10:
            _report_1_0(buf, row, table)
        else:
            group = report.pull_group(buf)
            row.set(hw_id=group.hw_id, sequence=group.sequence, node_id=group.node_id)
            row.carry(Carried.NODE_ID)
            yield from _reports_2_0(buf, announced, row.fields, table)
            return
    except WireError as error:
        row.refuse(error)
    yield row


def _report_0_5(buf: Buffer, row: Row, table: Table) -> None:
    head = report.pull_report_0_5(buf)
    row.set(
        flags=head.flags,
        hw_id=head.hw_id,
        sequence=head.sequence,
        ingress_time=head.ingress_time,
        kind=head.kind,
    )
    row.carry(Carried.INGRESS_TIME)
    if head.next_protocol:
        own = own_metadata.pull_own_0_5(buf, head.next_protocol)
        row.set(node_id=own.hop.node_id)
        row.carry(Carried.NODE_ID)
        _keep(row, own)
    _inner(buf, report.INNER_ETHERNET, row, table)


def _report_1_0(buf: Buffer, row: Row, table: Table) -> None:
    head = report.pull_report_1_0(buf)
    row.set(flags=head.flags, hw_id=head.hw_id, node_id=head.node_id, sequence=head.sequence,
            ingress_time=head.ingress_time, kind=report.kind_of(head.flags))  # fmt: skip
    row.carry(Carried.INGRESS_TIME | Carried.NODE_ID)
    if head.metadata_bits:
        _keep(row, own_metadata.pull_own(buf, layout.OWN_1_0, head.metadata_bits << 10, head.node_id))
    _inner(buf, report.INNER_ETHERNET + head.next_protocol, row, table)


def _reports_2_0(buf: Buffer, announced: int, group: dict[str, int], table: Table) -> Iterator[Row]:
    index = 0
    while index == 0 or buf.at + layout.REPORT_2_0.size <= announced:  # less is padding
        row = Row(group)
        row.set(index=index)
        start = buf.at
        try:
            head = report.pull_report_2_0(buf, announced)
        except WireError as error:  # where the next report begins is unknown
            row.refuse(error)
            yield row
            return
        part = Buffer(buf.raw, buf.at, head.end)
        buf.at = head.end
        row.set(flags=head.flags, kind=report.kind_of(head.flags) if head.report_type else Kind.INNER)
        try:
            report.check_types(head, start)
            if head.report_type == 1:
                main, own = report.pull_main(part, head, row.fields["node_id"])
                if main.metadata_bits:
                    _keep(row, own)
                if own.hop.present & Have.INGRESS_TIME:
                    row.set(ingress_time=own.hop.ingress_time)
                    row.carry(Carried.INGRESS_TIME)
            _inner(part, head.inner_type, row, table)
        except WireError as error:
            row.refuse(error)
        yield row
        index += 1


def _keep(row: Row, own: Own) -> None:
    row.own = own.hop
    row.carry(Carried.OWN_HOP)
    if own.queue_id is not None:
        row.set(queue_id=own.queue_id)
        row.carry(Carried.QUEUE_ID)
    if own.drop_reason is not None:
        row.set(drop_reason=own.drop_reason)
        row.carry(Carried.DROP_REASON)


def _inner(buf: Buffer, inner_type: int, row: Row, table: Table) -> None:
    """The inner packet: its flow, and its INT."""
    if inner_type == report.INNER_TLV:
        found = report.pull_tlvs(buf)
        if found is None:
            return
        inner_type, start, end = found
        buf = Buffer(buf.raw, start, end)
    if inner_type == report.INNER_ETHERNET:
        version = ethernet.ip_version_of(ethernet.pull_ethernet(buf, Place.INNER_ETHERNET).type)
    else:
        version = {report.INNER_IPV4: 4, report.INNER_IPV6: 6}.get(inner_type, 0)
    if version == 0:
        return
    start = buf.at
    ip = ethernet.pull_ip(buf, version, Place.INNER_IP)
    row.set(src_hi=ip.source >> 64, src_lo=ip.source & _LOW, dst_hi=ip.destination >> 64,
    dst_lo=ip.destination & _LOW,
            proto=ip.protocol, ip_version=version, inner_length=ip.length)  # fmt: skip
    row.carry(Carried.FLOW)
    if ip.fragment:
        raise WireError(Reason.FRAGMENT, Place.INNER_IP, start, "the inner packet is a fragment")
    if ip.protocol not in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        return
    ports = buf.peek(layout.PORTS, Place.INNER_L4)
    row.set(**ports)
    row.carry(Carried.PORTS)
    by_port = ip.protocol == layout.PROTOCOL_UDP and table[d.PORTS + ports["dport"]] & 2
    if by_port or table[d.INT_DSCP + ip.dscp]:
        _int(buf, ip, row)


def _int(buf: Buffer, ip: Ip, row: Row) -> None:
    tracked = row.fields.get("flags", 0) & Flag.TRACKED
    try:
        if ip.protocol == layout.PROTOCOL_TCP:
            ethernet.pull_tcp(buf, Place.INNER_L4)
        else:
            ethernet.pull_udp(buf, Place.INNER_L4)
        shim_at = buf.at
        shim = int_header.pull_shim(buf)
        if shim.type != int_header.MODE_MD:
            mode = {2: "destination-type INT", 3: "INT-MX"}[shim.type]
            raise WireError(Reason.UNSUPPORTED, Place.INT_SHIM, shim_at, f"{mode} is not decoded")
        md = int_header.pull_md(buf, shim)
    except WireError as error:
        if tracked or (error.place == Place.INT_HEADER and error.reason == Reason.TRUNCATED):
            raise
        return  # ordinary traffic that has this DSCP
    row.set(int_version=md.version, int_mode=shim.type, instructions=md.instructions, hop_words=md.hop_words,
            remaining_hops=md.remaining_hops, int_flags=_int_flags(md), domain_id=md.domain_id,
            ds_instruction=md.ds_instruction, ds_flags=md.ds_flags)  # fmt: skip
    hops = int_header.pull_stack(buf, shim, md)
    if md.version == 5:
        tail = int_header.pull_tail(buf)
        if tail.protocol == ip.protocol:  # programs that do not fill it leave 0
            row.set(dport=tail.dport)
    elif shim.npt == 1:
        row.set(dport=shim.original)
    elif shim.npt == 2:
        _original_l4(buf, shim.original & 0xFF, row)
    row.hops = hops


def _original_l4(buf: Buffer, protocol: int, row: Row) -> None:
    """NPT 2: the UDP header was added with INT; the packet's own follows the stack."""
    if protocol in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        row.set(**buf.peek(layout.PORTS, Place.INNER_L4), proto=protocol)
        return
    row.set(proto=protocol, sport=0, dport=0)
    row.fields["carried"] &= ~Carried.PORTS


def _int_flags(md: Md) -> int:
    return (
        IntFlag.HOPS_EXCEEDED * md.hops_exceeded
        | IntFlag.MTU_EXCEEDED * md.mtu_exceeded
        | IntFlag.DISCARD * md.discard
        | IntFlag.COPY * md.copy
    )
