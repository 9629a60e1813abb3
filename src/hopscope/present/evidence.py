"""One event, the events around it, and the report that caused it, as the API shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base.names import Names
from ..detect.evidence.datagrams import Datagram
from ..detect.evidence.reader import StoredReport, read_evidence
from ..detect.records import EVENT, ROUTINE, Kind, Metric
from ..wire.decode.as_json import report_object
from ..wire.decode.byte_fields import ByteField, explained
from ..wire.decode.plain import decode_plain
from ..wire.dialect import Dialect
from ..wire.records import FRAME, HOP_COLUMNS, Flag, FrameBatch, Have, ReportBatch
from .events import event_object, long_paths, wide

AROUND = 5
"""How many events before and after an event, at its place, are shown."""
_MAX_PARTS = 8
"""Number of records of the longest path."""
_PACKET = ["src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "packet_id"]
"""Fields that are equal in all postcards of a packet."""
_MEASURED = [
    column.name for column in HOP_COLUMNS if column.have not in (Have.INGRESS_TIME, Have.EGRESS_TIME)
]
"""Fields of a hop that have the same value as on the wire; times do not, since they are converted to ns."""


def find_event(folder: Path, shard: int, sequence: int) -> np.ndarray[Any, Any]:
    """The event with this number, EVENT [0 if it is not found, else 1, or several with a long path]. Raises
    HistoryError.
    """
    from ..history.follow import EventFollower

    follower = EventFollower(folder)
    try:
        found = follower.read(shard, sequence, _MAX_PARTS)
    finally:
        follower.close()
    if not len(found) or int(found["sequence"][0]) != sequence:
        return np.empty(0, EVENT)
    one = found[0]
    of_path = one["metric"] == Metric.FLOW_PATH
    parts = 1 + np.cumprod((found["hop"][1:] > 0) & of_path & (found["metric"][1:] == one["metric"])).sum()
    return found[: int(parts)]


def event_shown(event: np.ndarray[Any, Any], names: Names) -> dict[str, Any]:
    """The result of `find_event` as JSON."""
    return event_object(event[0], names, long_paths(event))


def is_joined(kept: StoredReport) -> bool:
    """Whether the path was joined from postcards, which each came in their own datagram."""
    return bool(int(kept.batch.reports["flags"][0]) & Flag.JOINED)


def decoded(kept: StoredReport, dialect: Dialect | None) -> dict[str, Any]:
    """The report as `hopscope decode` prints it, decoded by the dialect of its datagram (None: not known). A
    joined path, or a report whose bytes are not kept, is shown as the collector decoded it.
    """
    row = kept.batch.reports[0]
    if 0 in kept.datagrams and dialect is not None and row["version"] <= 20 and not is_joined(kept):
        frames = _frames(kept.datagrams[0])
        batch = decode_plain(frames, dialect)
        for number in np.flatnonzero(batch.reports["index"] == row["index"]).tolist():
            return report_object(batch, number, frames, dialect)
    reports = kept.batch.reports.copy()
    reports["int_at"] = reports["own_at"] = 0  # there are no bytes from which to read more
    none = FrameBatch(np.zeros(0, np.uint8), np.zeros(1, FRAME))
    return report_object(ReportBatch(reports, kept.batch.hops), 0, none)


def byte_fields(datagram: Datagram, row: np.void, dialect: Dialect) -> list[dict[str, Any]]:
    """The bytes of a datagram, field by field. `row`: the REPORT in it."""
    link = int(datagram.frame[0]["link"])
    return [_field(field) for field in explained(datagram.raw, link, row, dialect)]


def report_in(kept: StoredReport, hop: int, dialect: Dialect) -> np.void | None:
    """The REPORT in a datagram, whose key in `kept.datagrams` is `hop`; None if it is not found. For a joined
    path, it is the postcard of that hop; if a datagram has several postcards of the packet, the one most like
    the hop.
    """
    if not is_joined(kept):
        whole: np.void = kept.batch.reports[0]
        return whole
    batch = decode_plain(_frames(kept.datagrams[hop]), dialect)
    path, expected = kept.batch.reports[0], kept.batch.hops[hop]
    of_packet = (batch.reports[_PACKET] == path[_PACKET]) & (batch.reports["reason"] == 0)
    rows = np.flatnonzero(of_packet & (batch.reports["first_hop"] < len(batch.hops))).tolist()

    def likeness(row: int) -> int:
        found = batch.hops[int(batch.reports["first_hop"][row])]
        same = sum(bool(found[name] == expected[name]) for name in _MEASURED)
        return same + int(batch.reports["node_id"][row] == expected["node_id"])

    return batch.reports[max(rows, key=likeness)] if rows else None


def _frames(datagram: Datagram) -> FrameBatch:
    return FrameBatch(np.frombuffer(datagram.raw, np.uint8), datagram.frame)


def _field(one: ByteField) -> dict[str, Any]:
    return {
        "name": one.name,
        "offset": one.offset,
        "length": one.length,
        "value": wide(one.value),
        "text": one.text,
        "first_bit": one.first_bit,
        "bits": one.bits,
        "about": one.about,
        "fields": [_field(field) for field in one.fields],
    }


def why_no_bytes(kept: StoredReport) -> str | None:
    """Which datagrams are missing, and why; None if none is missing."""
    hops = int(kept.batch.reports["hop_count"][0]) if is_joined(kept) else 1
    missing = [hop for hop in range(hops) if hop not in kept.datagrams]
    if not missing:
        return None
    if not is_joined(kept):
        return "its bytes were overwritten before the event was found, or are more than 65,536"
    return (
        f"{len(missing)} of {hops} postcards have no bytes (hops {', '.join(map(str, missing))}): another"
        " member of the cluster received them, or they were overwritten before the event was found"
    )


def why_not_kept(event: np.ndarray[Any, Any]) -> str:
    """Why there is no evidence of an event."""
    kind = Kind(int(event["kind"][0]))
    if kind in ROUTINE:
        return f"reports of routine events ({kind.label}) are not kept"
    return (
        "its report is not kept: it was overwritten (history.evidence_bytes), above "
        "history.evidence_per_second, or no report caused this event"
    )


def evidence_of(folder: Path, event: np.ndarray[Any, Any]) -> StoredReport | None:
    """The evidence that is kept of an event, or None. Raises RegionError."""
    return read_evidence(folder, int(event["shard"][0]), int(event["sequence"][0]), int(event["time_ns"][0]))
