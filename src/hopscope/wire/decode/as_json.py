"""Reports as the objects that `hopscope decode --format json` prints.

A key is present exactly if the report carries the field; a value of all ones is unavailable, and is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..address import address
from ..dialect import DEFAULT, Dialect
from ..reasons import Place, Reason
from ..records import (
    HOP,
    HOP_COLUMNS,
    MAX_HOPS,
    REPORT,
    Carried,
    Carrier,
    Flag,
    FrameBatch,
    Have,
    IntFlag,
    Kind,
    Layer,
    Link,
    Mode,
    Records,
    ReportBatch,
)
from ..versions import (
    COUNTED,
    FIRST_SAMPLE,
    IFA,
    INT_VERSIONS,
    IOAM,
    REPORT_VERSIONS,
    SAMPLE_VERSIONS,
    SFLOW,
)
from .explain import explain
from .extras import Extras, extras

_REPORT_NAME = {number: name for name, number in (REPORT_VERSIONS | SAMPLE_VERSIONS).items()}
_INT_NAME = {number: name for name, number in INT_VERSIONS.items()}
_MODE = {mode.value: mode.name.lower().removeprefix("ioam_") for mode in Mode}
_LAYERS = tuple((layer.value, layer.name.lower()) for layer in Layer)
_CARRIERS = {carrier.value: carrier.name.lower() for carrier in Carrier}
_OVER_L4 = (Carrier.TCP, Carrier.UDP, Carrier.UDP_INSERTED)
_HOP_KEYS = tuple((int(column.have), column.key, column.name) for column in HOP_COLUMNS)
_ONES = 0xFFFFFFFF
_REPORT_NAMES: tuple[str, ...] = REPORT.names or ()
_HOP_NAMES: tuple[str, ...] = HOP.names or ()


def report_objects(
    batch: ReportBatch, frames: FrameBatch, dialect: Dialect = DEFAULT, *, first: int = 0
) -> Iterator[dict[str, Any]]:
    """The objects of all reports from row `first` on, in order; a rejected report has only `error` and the
    bytes of its frame.

    A path of postcards (`detect.postcards`) has `path`, `complete` or `incomplete`; if it was joined from
    several postcards, it has no `source` and no `report`. `batch` must have been decoded from `frames` with
    `dialect`, since rejected headers are read again.
    """
    rejected = _Rejected(frames, dialect)
    for at, record in enumerate(batch.reports[first:], first):
        row = dict(zip(_REPORT_NAMES, record.item(), strict=True))
        one = _object(row, batch, rejected)
        if _may_have_extras(row):
            _add_extras(one, row, at, extras(batch, frames, dialect, at))
        yield one


def report_object(
    batch: ReportBatch, row: int, frames: FrameBatch, dialect: Dialect = DEFAULT
) -> dict[str, Any]:
    """The object of one report."""
    return next(report_objects(batch, frames, dialect, first=row))


def _object(row: dict[str, int], batch: ReportBatch, rejected: _Rejected) -> dict[str, Any]:
    place: dict[str, Any] = {"packet": batch.first_packet + row["packet"], "index": row["index"]}
    if row["reason"]:
        error = {"reason": Reason(row["reason"]).label, "at": Place(row["place"]).label}
        return {**place, "error": {**error, "detail": rejected.detail(row)}, **rejected.frame(row["packet"])}
    out: dict[str, Any] = {**place, "time_ns": row["time_ns"]}
    joined = row["flags"] & Flag.JOINED  # from several reports
    if row["version"] and not joined:
        out["source"] = address(row["source_hi"], row["source_lo"])
        out["report"] = _sample(row, batch) if row["version"] >= FIRST_SAMPLE else _report(row, batch)
    if row["carried"] & Carried.FLOW:
        out["flow"] = _flow(row)
    if row["flags"] & (Flag.JOINED | Flag.INCOMPLETE):
        out["path"] = "incomplete" if row["flags"] & Flag.INCOMPLETE else "complete"
    if row["int_version"]:
        out["int"] = _int(row)
    if row["int_version"] or joined:
        start = row["first_hop"]
        out["hops"] = [_hop(hop.item()) for hop in batch.hops[start : start + row["hop_count"]]]
        if _in_report(row, batch.hops):
            own = _hop(batch.hops[start + row["hop_count"]].item())
            out["hops"].append({**own, "in_report": True})
    return out


def _may_have_extras(row: dict[str, int]) -> bool:
    if row["reason"]:
        return False
    own = row["version"] == 20 and row["own_at"] > 0
    return row["int_version"] in (IOAM, IFA) or row["ds_instruction"] + row["ds_flags"] > 0 or own


def _add_extras(one: dict[str, Any], row: dict[str, int], report: int, found: Extras) -> None:
    """Add values that the columns do not hold to hops, packet and report."""
    for at in range(row["hop_count"]):
        if values := found.of_hop(row["first_hop"] + at):
            one["hops"][at]["extras"] = values
    if values := found.of_packet(report):
        if row["int_version"] == IOAM:
            one["int"] |= values
        else:
            one["int"]["extras"] = values
    values = found.of_report(report)
    if row["carried"] & Carried.OWN_HOP:
        values = found.of_hop(row["first_hop"] + row["hop_count"])
    if values:
        one["report"]["extras"] = values


def _in_report(row: dict[str, int], hops: Records) -> bool:
    """Whether the report's own metadata is one more hop of the path, as in detection."""
    count = row["hop_count"]
    if not row["carried"] & Carried.OWN_HOP or not 0 < count < MAX_HOPS:
        return False
    last, own = (_node(hops[row["first_hop"] + at]) for at in (count - 1, count))
    return own is not None and own != last


def _node(hop: np.void) -> int | None:
    return int(hop["node_id"]) if hop["present"] & ~hop["null"] & Have.NODE_ID else None


class _Rejected:
    """Reason and frame of a rejected report."""

    def __init__(self, frames: FrameBatch, dialect: Dialect) -> None:
        self._frames, self._dialect = frames, dialect

    def detail(self, row: dict[str, int]) -> str:
        """Why the report of this row was rejected."""
        frame = self._frames.frames[row["packet"]]
        text = f"{explain(row, self._raw(row['packet']), self._dialect)} (byte {row['reason_at']})"
        kept, whole = int(frame["length"]), int(frame["wire_length"])
        if row["reason"] == Reason.TRUNCATED and kept < whole:
            text += f"; the capture kept {kept:,} of {whole:,} bytes"
        return text

    def frame(self, packet: int) -> dict[str, str | int]:
        """The bytes of a frame, so that it can be crafted again, and its length on the wire if it was cut."""
        frame = self._frames.frames[packet]
        out: dict[str, str | int] = {
            "link": Link(int(frame["link"])).name.lower(),
            "frame": self._raw(packet).hex(),
        }
        if frame["wire_length"] > frame["length"]:
            out["wire_length"] = int(frame["wire_length"])
        return out

    def _raw(self, packet: int) -> bytes:
        frame = self._frames.frames[packet]
        start = int(frame["offset"])
        return self._frames.arena[start : start + int(frame["length"])].tobytes()


def _report(row: dict[str, int], batch: ReportBatch) -> dict[str, Any]:
    carried, flags = row["carried"], row["flags"]
    own: dict[str, int | None] = {}
    queue_null = False
    if carried & Carried.OWN_HOP:
        record = batch.hops[row["first_hop"] + row["hop_count"]].item()
        own = _hop(record)
        own.pop("node_id", None)
        queue_null = own.get("queue_id", 0) is None
    out: dict[str, Any] = {"version": _REPORT_NAME[row["version"]], "kind": Kind(row["kind"]).name.lower()}
    if carried & Carried.NODE_ID:
        out["node_id"] = _known(row["node_id"], _ONES)
    out |= {
        "hw_id": row["hw_id"],
        "sequence": row["sequence"],
        "dropped": bool(flags & Flag.DROPPED),
        "congested": bool(flags & Flag.CONGESTED),
        "tracked": bool(flags & Flag.TRACKED),
    }
    if row["version"] == 20:
        out["intermediate"] = bool(flags & Flag.INTERMEDIATE)
    if carried & Carried.DROP_REASON:
        # Queue id and drop reason share a word with 16 bits of padding: both all ones means no value.
        queue_null = row["queue_id"] == row["drop_reason"] == 0xFF
        out["drop_reason"] = None if queue_null else row["drop_reason"]
    if carried & Carried.QUEUE_ID:
        out["queue_id"] = None if queue_null else row["queue_id"]
    if carried & Carried.INGRESS_TIME:
        out["ingress_time"] = _known(row["ingress_time"], (1 << 64) - 1 if row["version"] == 20 else _ONES)
    out["metadata"] = own
    return out


def _sample(row: dict[str, int], batch: ReportBatch) -> dict[str, Any]:
    """A sample, a flow record, or a datagram without any. Its metadata is that of the node that sent it."""
    out: dict[str, Any] = {
        "version": _REPORT_NAME[row["version"]],
        "kind": Kind(row["kind"]).name.lower(),
        "node_id": row["node_id"],
        "hw_id": row["hw_id"],
    }
    if row["version"] == SFLOW:
        out["sequence"] = row["sequence"]
    out["dropped"] = bool(row["flags"] & Flag.DROPPED)
    if row["carried"] & Carried.DROP_REASON:
        out["drop_reason"] = row["drop_reason"]
    if row["packet_id"]:
        out["packets"] = row["packet_id"]
    own = _hop(batch.hops[row["first_hop"]].item()) if has_values(row) else {}
    own.pop("node_id", None)
    out["metadata"] = own
    return out


def has_values(row: Mapping[str, int] | np.void) -> bool:
    """Whether the row of a datagram of sFlow, IPFIX or NetFlow 9 is a sample or a flow record."""
    return bool(row["hop_count"] or row["carried"] & Carried.OWN_HOP)


def _flow(row: dict[str, int]) -> dict[str, Any]:
    flow: dict[str, Any] = {
        "src": address(row["src_hi"], row["src_lo"]),
        "dst": address(row["dst_hi"], row["dst_lo"]),
        "proto": row["proto"],
    }
    if row["carried"] & Carried.PORTS:
        flow |= {"sport": row["sport"], "dport": row["dport"]}
    if row["vlan"]:
        flow["vlan"] = row["vlan"]
    if row["layers"]:
        flow["layers"] = [name for bit, name in _LAYERS if row["layers"] & bit]
    if row["tunnel_id"]:
        flow["tunnel_id"] = row["tunnel_id"]
    return flow


def _int(row: dict[str, int]) -> dict[str, Any]:
    carrier = row["carrier"]
    out: dict[str, Any] = {
        "version": _INT_NAME[row["int_version"]],
        "mode": _MODE[row["int_mode"]],
        "carrier": _CARRIERS[carrier],
    }
    if row["int_version"] == IOAM:
        return {**out, **_ioam(row)}
    if row["int_version"] == IFA:
        return {**out, "inband": not row["int_flags"] & IntFlag.COPY, "hop_limit": row["remaining_hops"]}
    if row["int_version"] == 20 and carrier in _OVER_L4:
        out["npt"] = row["npt"]
    out["instructions"] = f"0x{row['instructions']:04x}"
    if row["int_mode"] != Mode.MX:
        out |= {
            "hop_words": row["hop_words"],
            "remaining_hops": row["remaining_hops"],
            "hops_exceeded": bool(row["int_flags"] & IntFlag.HOPS_EXCEEDED),
        }
        if row["int_version"] not in COUNTED:
            out["mtu_exceeded"] = bool(row["int_flags"] & IntFlag.MTU_EXCEEDED)
    if row["domain_id"] or row["ds_instruction"] or row["ds_flags"]:
        out |= {
            "domain_id": row["domain_id"],
            "ds_instruction": f"0x{row['ds_instruction']:04x}",
            "ds_flags": f"0x{row['ds_flags']:04x}",
        }
    return out


def _ioam(row: dict[str, int]) -> dict[str, Any]:
    trace_type = row["instructions"] << 8 | row["ds_instruction"]
    out: dict[str, Any] = {"namespace": row["domain_id"], "trace_type": f"0x{trace_type:06x}"}
    if row["int_mode"] != Mode.IOAM_DEX:
        out |= {
            "hop_words": row["hop_words"],
            "remaining_hops": row["remaining_hops"],
            "hops_exceeded": bool(row["int_flags"] & IntFlag.HOPS_EXCEEDED),
        }
    return out


def _hop(record: tuple[int, ...]) -> dict[str, int | None]:
    hop = dict(zip(_HOP_NAMES, record, strict=True))
    present, null = hop["present"], hop["null"]
    out: dict[str, int | None] = {}
    for have, key, name in _HOP_KEYS:
        if present & have and out.get(key) is None:
            out[key] = None if null & have else hop[name]
    return out


def _known(value: int, unavailable: int) -> int | None:
    return None if value == unavailable else value
