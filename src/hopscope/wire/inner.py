"""The packet that a report is about, by the scalar codecs: its flow, and its INT."""

from __future__ import annotations

from . import ethernet, int_header, layout, report, rules
from .buffer import Buffer
from .dialect import Dialect
from .errors import WireError
from .ethernet import Ip
from .reasons import Place, Reason
from .records import Carried, Carrier, Flag
from .row import Row

LOW = (1 << 64) - 1


def read_inner(buf: Buffer, inner_type: int, row: Row, dialect: Dialect) -> None:
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
    row.set(src_hi=ip.source >> 64, src_lo=ip.source & LOW, dst_hi=ip.destination >> 64,
            dst_lo=ip.destination & LOW,
            proto=ip.protocol, ip_version=version, inner_length=ip.length)  # fmt: skip
    row.carry(Carried.FLOW)
    if ip.fragment:
        raise WireError(Reason.FRAGMENT, Place.INNER_IP, start, "the inner packet is a fragment")
    if ip.protocol not in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        return
    ports = buf.peek(layout.PORTS, Place.INNER_L4)
    row.set(**ports)
    row.carry(Carried.PORTS)
    by_port = ip.protocol == layout.PROTOCOL_UDP and dialect.table()[rules.UDP_ROLE + ports["dport"]] & 2
    if by_port or dialect.table()[rules.INT_DSCP + ip.dscp]:
        _int(buf, ip, row, dialect)


def _int(buf: Buffer, ip: Ip, row: Row, dialect: Dialect) -> None:
    tracked = row.fields.get("flags", 0) & Flag.TRACKED
    try:
        if ip.protocol == layout.PROTOCOL_TCP:
            ethernet.pull_tcp(buf, Place.INNER_L4)
        else:
            ethernet.pull_udp(buf, Place.INNER_L4)
        carrier = Carrier.TCP if ip.protocol == layout.PROTOCOL_TCP else Carrier.UDP
        shim = int_header.pull_shim(buf, carrier, dialect)
        md_at = buf.at
        md = int_header.pull_md(buf, shim, dialect, row.fields.get("version", 0))
    except WireError as error:
        if tracked or (error.place == Place.INT_HEADER and error.reason == Reason.TRUNCATED):
            raise
        return  # ordinary traffic that has this DSCP
    row.set(**int_header.row_fields(shim, md, md_at))
    hops, tail = int_header.pull_stack(buf, shim, md, dialect)
    if tail is not None:
        if tail.protocol == ip.protocol:  # programs that do not fill it leave 0
            row.set(dport=tail.dport)
    elif shim.npt == 1:
        row.set(dport=shim.original)
    elif shim.npt == 2:
        _original_l4(buf, shim.original, row)
    row.hops = hops


def _original_l4(buf: Buffer, protocol: int, row: Row) -> None:
    """NPT 2: the UDP header was added with INT; the packet's own follows the stack."""
    if protocol in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP):
        row.set(**buf.peek(layout.PORTS, Place.INNER_L4), proto=protocol)
        return
    row.set(proto=protocol, sport=0, dport=0)
    row.fields["carried"] &= ~Carried.PORTS
