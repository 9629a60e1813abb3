"""Reports to frames by the scalar codecs: the readable truth that the batch encoder must equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.wire import layout
from hopscope.wire.headers import ethernet
from hopscope.wire.headers.ethernet import Ethernet, Ip, Tcp, Udp
from hopscope.wire.layout import SOURCE_MAC, TARGET_MAC
from hopscope.wire.records import FRAME, HOP, Carried, FrameBatch, Hop, IntFlag, Kind, Link, Mode, ReportBatch
from hopscope.wire.telemetry import hop_stack, int_header, report_metadata
from hopscope.wire.telemetry.hop_stack import Tail
from hopscope.wire.telemetry.int_header import Md, Shim
from hopscope.wire.telemetry.report_metadata import ReportMetadata

from . import report

_MAPPED_PREFIX = 0xFFFF


def encode_scalar(
    batch: ReportBatch,
    *,
    link: Link = Link.ETHERNET,
    port: int = 32766,
    sport: int = 32766,
    collector: int = 0xFFFF_C000_02FE,
    dscp: int = 0x17,
    inner_ip: bool = False,
    udp_checksum: bool = False,
) -> FrameBatch:
    """`encode.encode_reports` in pure Python; see there."""
    rows = batch.reports
    out = bytearray()
    frames: list[tuple[int, ...]] = []
    first = 0
    while first < len(rows):
        last = first + 1
        while last < len(rows) and rows[last]["index"] > 0:
            last += 1
        payload = _payload(batch, first, last, dscp, inner_ip)
        row = rows[first]
        source = int(row["source_hi"]) << 64 | int(row["source_lo"])
        start = len(out)
        if link == Link.UDP_PAYLOAD:
            out += payload
        else:
            push_outer(out, source, collector, sport, port, payload, udp_checksum)
        length = len(out) - start
        frames.append(
            (start, int(row["time_ns"]), source >> 64, source & (1 << 64) - 1, length, length, port, link, 0)
        )
        first = last
    return FrameBatch(np.frombuffer(bytes(out), np.uint8), np.array(frames, FRAME))


def push_outer(
    out: bytearray, source: int, collector: int, sport: int, port: int, payload: bytes, check: bool
) -> None:
    """Append Ethernet, IP, UDP and a payload; addresses are 128-bit numbers. A checksum over IPv6 always."""
    version = 4 if source >> 32 == collector >> 32 == _MAPPED_PREFIX else 6
    segment = bytearray()
    udp = Udp(sport, port, 8 + len(payload))
    ethernet.push_udp(segment, udp)
    segment += payload
    size = 20 if version == 4 else 40
    ip = Ip(version, source, collector, layout.PROTOCOL_UDP, size + len(segment), dont_fragment=True)
    if check or version == 6:  # RFC 8200 8.1: not optional over IPv6
        udp.checksum = ethernet.udp_checksum(ip, bytes(segment))
    type_ = layout.ETHERTYPE_IPV4 if version == 4 else layout.ETHERTYPE_IPV6
    ethernet.push_ethernet(out, Ethernet(TARGET_MAC, SOURCE_MAC, type_))
    ethernet.push_ip(out, ip)
    ethernet.push_udp(out, udp)
    out += payload


def _payload(batch: ReportBatch, first: int, last: int, dscp: int, inner_ip: bool) -> bytes:
    out = bytearray()
    row = batch.reports[first]
    if row["version"] == 20:
        report.push_group(
            out, report.Group20(int(row["hw_id"]), int(row["sequence"]) & 0x3FFFFF, int(row["node_id"]))
        )
        for one in range(first, last):
            _report_2_0(out, batch, one, dscp, inner_ip, final=one == last - 1)
        return bytes(out)
    if last - first > 1:
        raise ValueError(
            f"report {first + 1} has index {batch.reports[first + 1]['index']}: only 2.0 has groups"
        )
    common: dict[str, Any] = {
        "flags": int(row["flags"]) & 7, "hw_id": int(row["hw_id"]), "sequence": int(row["sequence"]),
        "ingress_time": int(row["ingress_time"]) & 0xFFFFFFFF,
    }  # fmt: skip
    own = _own(batch, row)
    if row["version"] == 5:
        form = {Kind.DROP: 1, Kind.QUEUE: 2}.get(Kind(int(row["kind"])), 0)
        report.push_report_0_5(out, report.Report05(next_protocol=form, **common))
        if form:
            own.hop.egress_time &= 0xFFFFFFFF
            report_metadata.push_metadata_0_5(out, form, own)
        inner_ip = False
    elif row["version"] == 10:
        bits = sum(
            0x8000 >> bit
            for bit, item in enumerate(layout.OWN_1_0)
            if item.have and own.hop.present & item.have
        )
        bits |= 0x0800 * bool(row["carried"] & Carried.DROP_REASON)
        length = 4 + layout.metadata_size(layout.OWN_1_0, bits) // 4
        kind = _inner_type(row, inner_ip)
        report.push_report_1_0(
            out, report.Report10(length, max(kind - 3, 0), bits >> 10, node_id=int(row["node_id"]), **common)
        )
        own.hop.egress_time &= 0xFFFFFFFF
        report_metadata.push_report_metadata(out, layout.OWN_1_0, bits, own)
        inner_ip = kind > report.INNER_ETHERNET
    else:
        raise ValueError(f"report {first} has version {row['version']}, not 5, 10 or 20")
    _inner(out, batch, row, dscp, inner_ip)
    return bytes(out)


def _report_2_0(
    out: bytearray, batch: ReportBatch, at: int, dscp: int, inner_ip: bool, *, final: bool
) -> None:
    row = batch.reports[at]
    body = bytearray()
    size = 0
    typed = int(row["kind"] != Kind.INNER)
    if typed:
        own = _own(batch, row)
        bits = sum(
            0x8000 >> bit
            for bit, item in enumerate(layout.OWN_2_0)
            if item.have and own.hop.present & item.have
        )
        bits |= bool(row["carried"] & Carried.DROP_REASON)
        size = layout.metadata_size(layout.OWN_2_0, bits)
        report.push_main(body, report.Main20(bits), own)
    kind = _inner_type(row, inner_ip)
    if kind:
        _inner(body, batch, row, dscp, kind > report.INNER_ETHERNET)
    body += bytes(-len(body) % 4)
    words = len(body) // 4
    if words >= 0xFF and not final:
        raise ValueError(f"report {at} takes {words} words: only the last of a group may take 255 or more")
    report.push_report_2_0(out, report.Report20(typed, kind, min(words, 0xFF), size // 4, int(row["flags"])))
    out += body


def _own(batch: ReportBatch, row: Any) -> ReportMetadata:
    hop = Hop()
    if row["carried"] & Carried.OWN_HOP:
        record = batch.hops[int(row["first_hop"]) + int(row["hop_count"])]
        hop = _hop(record)
    hop.node_id = int(row["node_id"])
    return ReportMetadata(hop, int(row["queue_id"]), int(row["drop_reason"]))


def _hop(record: Any) -> Hop:
    return Hop(**{name: int(record[name]) for name in HOP.names or ()})


def _inner_type(row: Any, inner_ip: bool) -> int:
    if not row["carried"] & Carried.FLOW:
        return report.INNER_NONE
    if not inner_ip:
        return report.INNER_ETHERNET
    return report.INNER_IPV4 if row["ip_version"] == 4 else report.INNER_IPV6


def _inner(out: bytearray, batch: ReportBatch, row: Any, dscp: int, bare_ip: bool) -> None:
    if not row["carried"] & Carried.FLOW:
        ethernet.push_ethernet(out, Ethernet(TARGET_MAC, SOURCE_MAC, ethernet.ETHERTYPE_LOCAL))
        return
    version = int(row["ip_version"])
    stack = _int(batch, row) if row["int_version"] else b""
    proto = int(row["proto"])
    l4 = {layout.PROTOCOL_TCP: 20, layout.PROTOCOL_UDP: 8}.get(proto, 0)
    head = 20 if version == 4 else 40
    length = max(int(row["inner_length"]), head + l4 + len(stack))
    if not bare_ip:
        type_ = layout.ETHERTYPE_IPV4 if version == 4 else layout.ETHERTYPE_IPV6
        ethernet.push_ethernet(out, Ethernet(TARGET_MAC, SOURCE_MAC, type_))
    ethernet.push_ip(out, Ip(
        version, int(row["src_hi"]) << 64 | int(row["src_lo"]), int(row["dst_hi"]) << 64 | int(row["dst_lo"]),
        proto, length, dscp=dscp if stack else 0, ttl=int(row["ttl"]) or 64,
        identification=int(row["packet_id"]) & 0xFFFF,
    ))  # fmt: skip
    if proto == layout.PROTOCOL_TCP:
        ethernet.push_tcp(out, Tcp(int(row["sport"]), int(row["dport"])))
    elif proto == layout.PROTOCOL_UDP:
        ethernet.push_udp(out, Udp(int(row["sport"]), int(row["dport"]), length - head))
    out += stack


def _int(batch: ReportBatch, row: Any) -> bytes:
    version, bitmap, count = int(row["int_version"]), int(row["instructions"]), int(row["hop_count"])
    mode = Mode.MX if row["int_mode"] == Mode.MX else Mode.MD
    items = layout.KIND_ITEMS[int_header.KIND_OF[version]]
    words = int(row["hop_words"]) or layout.metadata_size(items, bitmap) // 4
    md = Md(version, words, int(row["remaining_hops"]), bitmap,
    bool(row["int_flags"] & IntFlag.HOPS_EXCEEDED),
            bool(row["int_flags"] & IntFlag.MTU_EXCEEDED), bool(row["int_flags"] & IntFlag.COPY),
            bool(row["int_flags"] & IntFlag.DISCARD), count, int(row["domain_id"]),
            int(row["ds_instruction"]),
            int(row["ds_flags"]))  # fmt: skip
    length = words * count + {5: 4, 10: 3, 20: 3}[version]
    if length > 0xFF:
        raise ValueError(f"{count} hops of {words} words do not fit the shim's length (255 words)")
    out = bytearray()
    int_header.push_shim(out, Shim(version != 20, mode, length))
    int_header.push_md(out, md, mode=mode)
    if mode == Mode.MX:
        return bytes(out)
    first = int(row["first_hop"])
    hops = [_hop(record) for record in batch.hops[first : first + count]]
    if version != 20:
        for hop in hops:
            hop.ingress_time &= 0xFFFFFFFF
            hop.egress_time &= 0xFFFFFFFF
    hop_stack.push_stack(out, md, hops)
    if version == 5:
        hop_stack.push_tail(out, Tail(int(row["proto"]), int(row["dport"])))
    return bytes(out)
