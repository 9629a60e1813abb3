"""Reports and packets of any dialect for load: one crafted frame, repeated, with the values of a load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.fabric.load import FIELDS, report_batch
from hopscope.wire import layout
from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect, with_layout
from hopscope.wire.records import FRAME, HOP, FrameBatch, Link, Records

_KINDS = {
    "0.4": layout.INT_0_4, "0.5": layout.INT_0_5, "1.0": layout.INT_1_0, "2": layout.INT_2_0,
    "2015": layout.INT_2015,
}  # fmt: skip
_OUTER = 14 + 20 + 8
"""Bytes of Ethernet, IPv4 and UDP."""
_SEQUENCE = {"0.5": 4, "1.0": 8, "2.0": 0}
"""Where a report has its sequence number; that of 2.0 is the low 22 bits."""


@dataclass(frozen=True, slots=True)
class Format:
    """How reports look: a dialect, and versions of the report (None: packets with INT) and of INT."""

    dialect: Dialect
    report: str | None
    version: str

    def items(self, alternative: int = 0) -> tuple[layout.Item, ...]:
        """What the bits of an instruction bitmap stand for."""
        return self.dialect.alternatives(_KINDS[self.version])[alternative]


def _format(name: str, report: str | None, version: str, *layouts: str) -> Format:
    dialect = with_layout(DIALECTS[name], *layouts) if layouts else DIALECTS[name]
    return Format(dialect if report else replace(dialect, packets=True), report, version)


SPECIFIED = {
    (report, version): _format("spec", report, version)
    for report, version in (
        ("2.0", "2"),
        ("1.0", "1.0"),
        ("0.5", "0.5"),
        (None, "2"),
        (None, "1.0"),
        (None, "0.5"),
    )
}
"""Formats of the specifications, by the versions of report and INT."""
OTHERS: dict[str, tuple[Format, tuple[str | None, str]]] = {
    "intcollector, 1.0": (_format("intcollector", "1.0", "1.0"), ("1.0", "1.0")),
    "intcollector, 0.5": (_format("intcollector", "0.5", "0.5"), ("0.5", "0.5")),
    "geant": (_format("geant", "1.0", "1.0"), ("1.0", "1.0")),
    "geant, 64-bit times": (_format("geant", "1.0", "1.0", "times-64"), ("1.0", "1.0")),
    "geant-0.4": (_format("geant-0.4", "1.0", "0.4"), ("1.0", "1.0")),
    "geant-collector": (_format("geant-collector", "1.0", "1.0"), ("1.0", "1.0")),
    "host-int": (_format("host-int", "0.5", "0.5"), ("0.5", "0.5")),
    "amlight": (_format("amlight", "2.0", "1.0"), ("1.0", "1.0")),
    "bmv2": (_format("bmv2", "2.0", "2"), ("2.0", "2")),
    "spec:times-32": (_format("spec", "2.0", "2", "times-32"), ("2.0", "2")),
    "spec:swapped:ports-16": (_format("spec", "2.0", "2", "swapped", "ports-16"), ("2.0", "2")),
    "geant-dpdk": (_format("geant-dpdk", None, "1.0"), (None, "1.0")),
    "elavinal": (_format("elavinal", None, "2"), (None, "2")),
    "scapy": (_format("scapy", None, "2"), (None, "2")),
    "h3c": (_format("h3c", None, "2"), (None, "2")),
    "int-2015": (_format("int-2015", None, "2015"), (None, "0.5")),
}
"""Formats of dialects, and the versions of the specified format that comes next."""


def frames_of(form: Format, count: int, hops: int, fields: int, flows: int, sequence: int = 0) -> FrameBatch:
    """`load.payloads` in another format: `count` datagrams of reports, or frames of packets with INT."""
    batch = report_batch(count, hops, fields, flows, sequence)
    batch.hops["congestion_queue_id"] = batch.hops["queue_id"]
    template, int_at, shift = _template(form, hops, fields)
    raw = np.tile(template, (count, 1))
    bottom = len(form.dialect.marker)
    l4 = int_at - 4 - bottom - 8
    _put(raw, l4 - 20 + 12, batch.reports["src_lo"] & np.uint64(0xFFFFFFFF), 4)
    _put(raw, l4, batch.reports["sport"], 2)
    if form.report:
        at = shift + _SEQUENCE[form.report]
        keep = template[at : at + 4].view(">u4")[0] & np.uint32(0xFFC00000 if form.report == "2.0" else 0)
        _put(raw, at, batch.reports["sequence"] | keep, 4)
    _put_hops(raw, form, int_at, hops, fields, batch.hops)
    raw = raw[:, shift:]
    frames = np.zeros(count, FRAME)
    frames["length"] = frames["wire_length"] = raw.shape[1]
    frames["offset"] = np.arange(count) * raw.shape[1]
    frames["link"] = Link.UDP_PAYLOAD if form.report else Link.ETHERNET
    frames["source_lo"] = batch.reports["source_lo"]
    return FrameBatch(np.ascontiguousarray(raw).reshape(-1), frames)


def _template(form: Format, hops: int, fields: int) -> tuple[npt.NDArray[np.uint8], int, int]:
    """A frame, the offset of its INT header, and that of its report (0: it is a packet)."""
    flow = {"src": "10.0.0.1", "dst": "10.1.0.1", "proto": 17, "sport": 1024, "dport": _port(form)}
    value: dict[str, Any] = {
        "flow": flow,
        "int": {"version": form.version, "instructions": f"{FIELDS[fields]:#06x}"},
        "hops": [{"node_id": 1}] * hops,
    }
    if form.report:
        value["report"] = {"version": form.report, "kind": "int", "tracked": True}
    batch = craft([value], form.dialect)
    (row,) = decode_plain(batch, form.dialect).reports
    if row["reason"] or row["hop_count"] != hops:
        raise ValueError(f"{form}: the crafted frame has {row['hop_count']} hops, reason {row['reason']}")
    return batch.arena, int(row["int_at"]), _OUTER if form.report else 0


def _port(form: Format) -> int:
    return next(iter(form.dialect.int_ports), 53)


def _put_hops(
    raw: npt.NDArray[np.uint8], form: Format, int_at: int, hops: int, fields: int, values: Records
) -> None:
    """Write the stacks, newest hop first."""
    items = form.items()
    stack = int_at + (12 if form.version == "2" else 8)
    size = layout.metadata_size(items, FIELDS[fields])
    table = values.reshape(-1, hops)
    for place in range(hops):
        hop = table[:, hops - 1 - place]
        at = stack + place * size
        for bit, item in enumerate(items):
            if FIELDS[fields] >> (15 - bit) & 1:
                number = np.zeros(len(raw), np.uint64)
                for name, shift, mask in item.fields.shifts:
                    if item.have and name in (HOP.names or ()):
                        number |= (hop[name].astype(np.uint64) & np.uint64(mask)) << np.uint64(shift)
                _put(raw, at, number, item.size)
                at += item.size
    if form.version == "2015" and hops:
        raw[:, stack + hops * size - 4] |= 0x80


def _put(raw: npt.NDArray[np.uint8], at: int, numbers: npt.NDArray[Any], size: int) -> None:
    """Write big-endian numbers of `size` bytes into a column of bytes."""
    octets = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)
    raw[:, at : at + size] = octets[:, 8 - size :]
