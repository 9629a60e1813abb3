"""Valid frames of every version, mode, carrier and layer that a dialect can say: what fuzzing starts from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from hopscope.capture.pcap.reader import PcapReader
from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.int_stack import CARRIERS
from hopscope.wire.craft.keys import CraftError
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.records import Layer, Link

_HOP: dict[str, Any] = {
    "node_id": 9, "ingress_port": 1, "egress_port": 2, "hop_latency": 300, "queue_id": 3,
    "queue_occupancy": 4, "ingress_time": 1000, "egress_time": 1300, "tx_utilization": 5,
}  # fmt: skip
_OF_2015 = {name: value for name, value in _HOP.items() if name not in ("egress_time", "queue_id")}
_OF_IOAM = {name: value for name, value in _HOP.items() if name in ("node_id", "ingress_port", "hop_latency")}
_REPORTS = (None, "0.5", "1.0", "2.0")
_MD_VERSIONS = ("2015", "0.4", "0.5", "1.0", "2")
_V4, _V6 = {"src": "10.0.0.1", "dst": "10.0.0.2"}, {"src": "2001:db8::5", "dst": "2001:db8::6"}
_IN_REPORT, _IN_FRAME = 42, 12
"""Bytes in front of what is worth changing: the headers of a report's datagram; MAC addresses."""


class Seed(NamedTuple):
    """A frame to start from."""

    raw: bytes
    link: Link
    start: int
    """Byte from which on most changes are made."""


@lru_cache(64)
def corpus(dialect: Dialect = DEFAULT) -> tuple[Seed, ...]:
    """The frames of a dialect, and those of the specifications; each once, in one order always.

    Reports of every version, as they are and in other link layers, and packets alone.
    """
    seeds = dict.fromkeys(_seeds(dialect))
    if dialect != DEFAULT:
        seeds |= dict.fromkeys(corpus(DEFAULT))
    return tuple(seeds)


def captured(folder: Path) -> tuple[Seed, ...]:
    """The packets of all captures below a folder, each once."""
    seeds: dict[Seed, None] = {}
    for path in sorted(folder.rglob("*.pcap*")):
        with path.open("rb") as file:
            for batch in PcapReader(file):
                for frame in batch.frames:
                    at = int(frame["offset"])
                    raw = batch.arena[at : at + int(frame["length"])].tobytes()
                    link = Link(int(frame["link"]))
                    seeds[Seed(raw, link, _IN_FRAME if link == Link.ETHERNET else 0)] = None
    return tuple(seeds)


def _seeds(dialect: Dialect) -> Iterator[Seed]:
    for number, objects in enumerate(_objects()):
        raw = _frame(objects, dialect)
        if not raw:
            continue
        report = "report" in objects[0]
        yield Seed(raw, Link.ETHERNET, _IN_REPORT if report else _IN_FRAME)
        if report and number % 3 == 0:
            yield Seed(raw[_IN_REPORT:], Link.UDP_PAYLOAD, 0)
        if number % 7 == 0:
            yield from _other_links(raw)
        if dialect.marker and not report:
            yield from _marked(raw, dialect.marker)


def _frame(objects: list[dict[str, Any]], dialect: Dialect) -> bytes:
    """The frame of objects; empty where the dialect has no such thing."""
    try:
        return craft(objects, dialect).arena.tobytes()
    except (CraftError, ValueError):
        return b""


def _objects() -> Iterator[list[dict[str, Any]]]:
    """The objects of one packet, again and again."""
    for report, carrier, (head, hops) in product(_REPORTS, CARRIERS, list(_telemetry())):
        yield [_about(report, _V4) | {"int": {**head, "carrier": carrier}, "hops": hops}]
    for report, (head, hops) in product(_REPORTS, list(_ioam())):
        yield [_about(report, _V6) | {"int": head, "hops": hops}]
        yield [_about(report, _V4 | {"layers": ["ip_in_ip", "vlan"]}) | {"int": head, "hops": hops}]
    for report, proto, ends in product((None, "2.0"), (6, 17), (_V4, _V6)):
        hops = [{**_OF_IOAM, "node_id": node, "queue_occupancy": node} for node in range(3)]
        yield [_about(report, {**ends, "proto": proto}) | {"int": {"version": "ifa"}, "hops": hops}]
    for report, layer, proto, ends in product(_REPORTS, Layer, (6, 17), (_V4, _V6)):
        flow = {**ends, "proto": proto, "layers": [layer.name.lower()]}
        yield [_about(report, flow) | {"int": {}, "hops": [_HOP]}]
    layers = [layer.name.lower() for layer in (Layer.QINQ, Layer.MPLS, Layer.GRE, Layer.VXLAN, Layer.GTP_U)]
    for report, ends in product(_REPORTS, (_V4, _V6)):
        yield [_about(report, ends | {"layers": layers, "tunnel_id": 7}) | {"int": {}, "hops": [_HOP] * 2}]
    for report, npt, proto in product(_REPORTS, (0, 1, 2), (6, 17, 1)):
        head = {"version": "2", "npt": npt, "ds_instruction": "0x8000", "hop_words": 14}
        yield [_about(report, _V4 | {"proto": proto}) | {"int": head, "hops": [_HOP]}]
    yield from _own()


def _about(report: str | None, flow: dict[str, Any]) -> dict[str, Any]:
    return {"flow": flow} if report is None else {"flow": flow, "report": {"version": report}}


def _telemetry() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for version, mode, count in product(_MD_VERSIONS, ("md", "mx"), (0, 1, 3)):
        hop = _OF_2015 if version == "2015" else _HOP
        head: dict[str, Any] = {"version": version, "mode": mode}
        if count == 0 and mode == "md":
            head["instructions"] = "0xa000"
        yield head, [{**hop, "node_id": node} for node in range(count)]


def _ioam() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for mode, count in product(("preallocated", "incremental"), (0, 1, 3)):
        head: dict[str, Any] = {"version": "ioam", "mode": mode, "remaining_hops": 2}
        yield head, [{**_OF_IOAM, "node_id": node} for node in range(count)]
    hop = {**_OF_IOAM, "extras": {"schema": 5, "snapshot": "01020304"}}
    yield {"version": "ioam"}, [hop, hop]
    yield {"version": "ioam", "mode": "dex", "flow_id": 4, "sequence": 5}, []


def _own() -> Iterator[list[dict[str, Any]]]:
    """Reports with metadata of their own, with and without INT, and groups of them."""
    metadata = {name: value for name, value in _HOP.items() if name not in ("node_id", "tx_utilization")}
    of_0_5 = {name: metadata[name] for name in ("ingress_port", "egress_port", "queue_id", "queue_occupancy")}
    with_int: list[dict[str, Any]] = [{}, {"int": {}, "hops": [_HOP]}]
    for kind, more in product(("int", "drop", "queue", "inner"), with_int):
        group: list[dict[str, Any]] = []
        for version, own in (("0.5", of_0_5), ("1.0", metadata), ("2.0", metadata)):
            report: dict[str, Any] = {"version": version, "kind": kind, "node_id": 7}
            if kind == "drop":
                report["drop_reason"] = 3
            for one in (report, report | {"metadata": own}):
                group = [{"flow": _V4, "report": one, **more}]
                yield group
        yield [{**one, "packet": 0, "index": index} for index, one in enumerate(group * 3)]


def _other_links(raw: bytes) -> Iterator[Seed]:
    type_ = raw[12:14]
    if type_ not in (b"\x08\x00", b"\x86\xdd"):
        return
    packet = raw[14:]
    yield Seed(packet, Link.RAW_IP, 0)
    yield Seed((b"\x02" if type_ == b"\x08\x00" else b"\x1e") + bytes(3) + packet, Link.NULL, 4)
    yield Seed(bytes(14) + type_ + packet, Link.LINUX_SLL, 14)
    yield Seed(type_ + bytes(18) + packet, Link.LINUX_SLL2, 0)


def _marked(raw: bytes, marker: bytes) -> Iterator[Seed]:
    """With a probe marker behind UDP in IPv4, and lengths that tell of it."""
    if raw[12:15] != b"\x08\x00\x45" or raw[23] != 17:
        return
    out = bytearray(raw[:42] + marker + raw[42:])
    for at in (16, 38):
        out[at : at + 2] = (int.from_bytes(out[at : at + 2], "big") + len(marker)).to_bytes(2, "big")
    yield Seed(bytes(out), Link.ETHERNET, _IN_FRAME)
