"""A flow's aggregate as a Telemetry Report (SmartNIC INT sink, II-B): EVICTED records to datagrams.

A report contains a synthetic packet of the flow: Ethernet, IP with TTL 0 (which no received packet has), TCP
or UDP, and INT whose hops carry the means. Report 2.0 has room for all other fields: with the domain
FLOW_DOMAIN (`wire.dialect`), the report's main contents carry the number of packets and their times, and each
hop is followed by its sums and latest values, so no number of the record is lost. 0.5 and 1.0 carry the
means, and the time of the last packet in 32 bits. Like the records, reports have at most eight hops; the INT
of a path of several parts says that it is not the whole path (E).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ...wire import layout
from ...wire.dialect import FLOW_DOMAIN, FLOW_OF_HOP, FLOW_OF_REPORT
from ...wire.records import FRAME, FrameBatch, Link, Records
from ..records import PATH_PART
from .records import Measure

_INT_DSCP = 0x17
_BITS = 0xF100
"""Instructions: node id, ports, hop latency, queue, utilisation."""
_NULL, _NULL_24, _NO_PORT = 0xFFFFFFFF, 0xFFFFFF, 0xFFFF
_MACS = bytes.fromhex("020000000002020000000001")
_TRACKED = 1
_INSERTED_PORT = 0x1000
_TCP, _UDP = layout.PROTOCOL_TCP, layout.PROTOCOL_UDP
_Array = npt.NDArray[Any]

_HEAD = {
    5: [("first", ">u4"), ("sequence", ">u4"), ("time", ">u4")],
    10: [("first", ">u4"), ("node", ">u4"), ("sequence", ">u4"), ("time", ">u4")],
    20: [("first", ">u4"), ("node", ">u4"), ("report", ">u4"), ("bits", ">u2"), ("domain", ">u2"),
         ("ds_bits", ">u2"), ("ds_status", ">u2")],
}  # fmt: skip
_IP = {
    4: [("ip_first", ">u2"), ("ip_length", ">u2"), ("ip_id", ">u4"), ("ttl", "u1"), ("proto", "u1"),
        ("check", ">u2"), ("src", ">u4"), ("dst", ">u4")],
    6: [("ip_first", ">u4"), ("ip_length", ">u2"), ("proto", "u1"), ("ttl", "u1"), ("src_hi", ">u8"),
        ("src", ">u8"), ("dst_hi", ">u8"), ("dst", ">u8")],
}  # fmt: skip
_L4 = {
    _TCP: [("sport", ">u2"), ("dport", ">u2"), ("tcp", ">u8"), ("offset", ">u4"), ("urgent", ">u4")],
    _UDP: [("sport", ">u2"), ("dport", ">u2"), ("udp_length", ">u2"), ("udp_check", ">u2")],
}
_MEANS = [("node_id", ">u4"), ("ingress_port", ">u2"), ("port", ">u2"), ("latency", ">u4"),
          ("occupancy", ">u4"), ("utilization", ">u4")]  # fmt: skip
_MEASURES = (
    ("latency", Measure.HOP_LATENCY), ("occupancy", Measure.QUEUE_OCCUPANCY),
    ("utilization", Measure.LINK_UTILIZATION),
)  # fmt: skip


def flow_reports(flows: Records, *, version: int, node_id: int, hw_id: int, sequence: int) -> FrameBatch:
    """One report (version 5, 10 or 20) per EVICTED record, as UDP payloads, in order.

    `sequence` is the sequence number of the first report. In 0.5 and 1.0, reports of flows that are neither
    TCP nor UDP have no INT, since these versions cannot express the protocol.
    """
    numbers = np.uint64(sequence) + np.arange(len(flows), dtype=np.uint64)
    hops = np.minimum(flows["hop_count"].astype(np.int64) - flows["first_hop"], PATH_PART).clip(0)
    l4 = np.where(np.isin(flows["proto"], (_TCP, _UDP)), flows["proto"], 0)
    ip = np.where(flows["ip_version"] == 6, 6, 4)
    forms = np.stack([ip, l4, hops], axis=1)
    blocks: list[_Array] = [np.empty(0, np.uint8)]
    made = np.zeros(len(flows), FRAME)
    at = 0
    for form in np.unique(forms, axis=0):
        rows = np.flatnonzero((forms == form).all(axis=1))
        block = _reports(flows[rows], numbers[rows], version, node_id, hw_id, *form.tolist())
        size = block.dtype.itemsize
        made["offset"][rows] = at + size * np.arange(len(rows))
        made["length"][rows] = size
        blocks.append(block.view(np.uint8))
        at += block.nbytes
    made["wire_length"], made["link"], made["time_ns"] = made["length"], Link.UDP_PAYLOAD, flows["last_ns"]
    return FrameBatch(np.concatenate(blocks), made)


@lru_cache(maxsize=256)
def _form(version: int, ip: int, l4: int, hops: int) -> tuple[np.dtype[Any], int, int]:
    """(dtype of the datagram, start of its packet, end of its packet) for flows of this form."""
    full = version == 20
    fields: list[Any] = list(_HEAD[version])
    if full:
        fields += [(name, f">u{size}") for _, name, size in FLOW_OF_REPORT]
    start = np.dtype(fields).itemsize
    fields += [("macs", "S12"), ("ethertype", ">u2"), *_IP[ip]]
    if l4 or full:
        fields += _L4[l4 or _UDP]
        fields += [("shim", ">u4"), ("int_first", ">u4"), ("instructions", ">u2"), ("int_domain", ">u2")]
        if full:
            fields += [("ds_instruction", ">u2"), ("ds_flags", ">u2")]
        each = _MEANS + [(f"hop_{name}", f">u{size}") for _, name, size in FLOW_OF_HOP if full]
        fields.append(("hops", np.dtype(each), (hops,)))
        if version == 5:
            fields.append(("tail", ">u4"))
    end = np.dtype(fields).itemsize
    if full and end % 4:
        fields.append(("padding", f"S{-end % 4}"))
    return np.dtype(fields), start, end


def _reports(
    flows: Records, numbers: _Array, version: int, node_id: int, hw_id: int, ip: int, l4: int, hops: int
) -> _Array:
    form, start, end = _form(version, ip, l4, hops)
    out: _Array = np.zeros(len(flows), form)
    last = flows["last_ns"].astype(np.uint64) & np.uint64(_NULL)
    if version == 20:
        words = (form.itemsize - 12) // 4
        out["first"] = np.uint64(2 << 28 | hw_id << 22) | numbers & np.uint64(0x3FFFFF)
        metadata = sum(size for _, _, size in FLOW_OF_REPORT) // 4
        out["report"] = 1 << 28 | 3 << 24 | words << 16 | metadata << 8 | _TRACKED << 5
        out["domain"], out["ds_bits"] = FLOW_DOMAIN.domain_id, _bits(FLOW_OF_REPORT)
        for _, name, _ in FLOW_OF_REPORT:
            out[name] = _of_flow(flows, name)
    else:
        first = _TRACKED << 21 | hw_id if version == 5 else 1 << 28 | 4 << 24 | _TRACKED << 6 | hw_id
        out["first"], out["sequence"], out["time"] = first, numbers & np.uint64(_NULL), last
    if version != 5:
        out["node"] = node_id
    out["macs"], out["ethertype"] = _MACS, 0x0800 if ip == 4 else 0x86DD
    carried = bool(l4) or version == 20
    _put_ip(out, flows, ip, l4 or (_UDP if carried else 0), end - start - 14, carried)
    if carried:
        _put_l4(out, flows, l4, end - start - 14 - (20 if ip == 4 else 40))
        _put_int(out, flows, version, l4, hops)
    return out


def _of_flow(flows: Records, name: str) -> _Array:
    if name == "flow_part":
        parts = [flows[field].astype(np.uint32) for field in ("reason", "first_hop", "hop_count")]
        return np.asarray(parts[0] << 24 | parts[1] << 16 | parts[2] << 8)
    return np.asarray(flows[name.removeprefix("flow_") if name != "flow_id" else name].astype(np.uint64))


def _put_ip(out: _Array, flows: Records, ip: int, proto: int, length: int, carried: bool) -> None:
    dscp = _INT_DSCP if carried else 0
    out["proto"] = proto or flows["proto"]
    if ip == 6:
        out["ip_first"], out["ip_length"] = 6 << 28 | dscp << 22, length - 40
        for side in ("src", "dst"):
            out[f"{side}_hi"], out[side] = flows[f"{side}_hi"], flows[f"{side}_lo"]
        return
    out["ip_first"], out["ip_length"] = 0x4500 | dscp << 2, length
    for side in ("src", "dst"):
        out[side] = flows[f"{side}_lo"] & np.uint64(_NULL)
    assert out.dtype.fields is not None
    begin = out.dtype.fields["ip_first"][1]
    raw = out.view(np.uint8).reshape(len(out), -1)[:, begin : begin + 20]
    total = np.ascontiguousarray(raw).view(">u2").sum(axis=1, dtype=np.uint32)
    total = (total & 0xFFFF) + (total >> 16)
    out["check"] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def _put_l4(out: _Array, flows: Records, l4: int, length: int) -> None:
    out["sport"], out["dport"] = flows["sport"], flows["dport"]
    if l4 == _TCP:
        out["offset"] = 5 << 28
        return
    if not l4:
        out["dport"] = _INSERTED_PORT
    out["udp_length"] = length


def _put_int(out: _Array, flows: Records, version: int, l4: int, hops: int) -> None:
    words = out.dtype["hops"].base.itemsize // 4
    # E: the stack is not the whole path
    partial = (flows["hop_count"] > PATH_PART).astype(np.uint32)
    out["instructions"] = _BITS
    if version == 20:
        kind = 1 << 28 | (0 if l4 else 2 << 26) | 3 + words * hops << 16
        out["shim"] = kind if l4 else kind | flows["proto"].astype(np.uint32)
        out["int_first"] = 2 << 28 | partial << 26 | words << 8
        out["int_domain"], out["ds_instruction"] = FLOW_DOMAIN.domain_id, _bits(FLOW_OF_HOP)
    elif version == 10:
        out["shim"] = 1 << 24 | 3 + words * hops << 8
        out["int_first"] = 1 << 28 | partial << 24 | words << 8
    else:
        out["shim"] = 1 << 24 | 4 + words * hops << 8
        out["int_first"] = partial << 24 | words << 16 | hops << 8 | hops
        out["tail"] = flows["proto"].astype(np.uint32) << 24 | flows["dport"].astype(np.uint32) << 8
    for hop in range(hops):
        _put_hop(out["hops"][:, hops - 1 - hop], flows["hops"][:, hop], version == 20)  # newest first


def _put_hop(out: _Array, hop: Records, full: bool) -> None:
    samples = hop["samples"].astype(np.uint64)
    out["node_id"], out["port"] = hop["node_id"], hop["port"]
    out["ingress_port"] = _NO_PORT
    for name, measure in _MEASURES:
        known = (hop["have"] >> measure & 1).astype(bool) & (samples > 0)
        mean = hop[f"{name}_sum"] // np.maximum(samples, 1)
        if name == "occupancy":
            queue = hop["queue_id"].astype(np.uint64) << 24
            out[name] = np.where(known, queue | np.minimum(mean, _NULL_24), np.uint64(_NULL))
        else:
            out[name] = np.where(known, np.minimum(mean, _NULL), np.uint64(_NULL))
    if full:
        for _, name, _ in FLOW_OF_HOP:
            out[f"hop_{name}"] = hop[name]


def _bits(fields: tuple[tuple[int, str, int], ...]) -> int:
    return sum(0x8000 >> bit for bit, _, _ in fields)
