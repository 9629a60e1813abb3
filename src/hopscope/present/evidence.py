"""One event with those around it, and the report that caused it, as the API shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..base.names import Names
from ..detect.evidence import Kept, read_evidence
from ..detect.records import EVENT, ROUTINE, Kind, Metric
from ..wire.decode.as_json import report_objects
from ..wire.decode.byte_fields import ByteField, explained
from ..wire.decode.plain import decode_plain
from ..wire.dialect import Dialect
from ..wire.records import FRAME, FrameBatch, ReportBatch
from .events import event_object, long_paths, wide

AROUND = 5
"""Events before and after one, at its place."""
_MOST_PARTS = 8
"""Records of the longest path."""


def find_event(folder: Path, shard: int, sequence: int) -> np.ndarray[Any, Any]:
    """EVENT [0 or 1, or the records of its path] of this number. Raises HistoryError."""
    from ..history.follow import EventFollower

    follower = EventFollower(folder)
    try:
        found = follower.read(shard, sequence, _MOST_PARTS)
    finally:
        follower.close()
    if not len(found) or int(found["sequence"][0]) != sequence:
        return np.empty(0, EVENT)
    one = found[0]
    of_path = one["metric"] == Metric.FLOW_PATH
    parts = 1 + np.cumprod((found["hop"][1:] > 0) & of_path & (found["metric"][1:] == one["metric"])).sum()
    return found[: int(parts)]


def event_shown(event: np.ndarray[Any, Any], names: Names) -> dict[str, Any]:
    """The object of `find_event`."""
    return event_object(event[0], names, long_paths(event))


def decoded(kept: Kept, dialect: Dialect | None) -> dict[str, Any]:
    """The report as `hopscope decode` prints it: of its bytes, or, without them, as the collector had it."""
    row = kept.batch.reports[0]
    if len(kept.frames.arena) and dialect is not None and row["version"] <= 20:
        batch = decode_plain(kept.frames, dialect)
        for number, one in enumerate(report_objects(batch, kept.frames, dialect)):
            if int(batch.reports[number]["index"]) == int(row["index"]):
                return one
    reports = kept.batch.reports.copy()
    reports["int_at"] = reports["own_at"] = 0  # no bytes to read more from
    none = FrameBatch(np.zeros(0, np.uint8), np.zeros(1, FRAME))
    return next(report_objects(ReportBatch(reports, kept.batch.hops), none))


def byte_fields(kept: Kept, dialect: Dialect) -> list[dict[str, Any]]:
    """Its bytes, field by field."""
    raw, link = kept.frames.arena.tobytes(), int(kept.frames.frames[0]["link"])
    return [_field(each) for each in explained(raw, link, kept.batch.reports[0], dialect)]


def _field(one: ByteField) -> dict[str, Any]:
    return {
        "name": one.name,
        "offset": one.offset,
        "length": one.length,
        "value": None if one.value is None else wide(one.value),
        "text": one.text,
        "first_bit": one.first_bit,
        "bits": one.bits,
        "about": one.about,
        "fields": [_field(each) for each in one.fields],
    }


def why_not_kept(event: np.ndarray[Any, Any]) -> str:
    """Why there is no evidence of an event."""
    kind = Kind(int(event["kind"][0]))
    if kind in ROUTINE:
        return f"reports of routine events ({kind.label}) are not kept"
    return (
        "its report is not kept: it was overwritten (history.evidence_bytes), above "
        "history.evidence_per_second, or no report caused this event"
    )


def evidence_of(folder: Path, event: np.ndarray[Any, Any]) -> Kept | None:
    """What is kept of an event. Raises RegionError."""
    return read_evidence(folder, int(event["shard"][0]), int(event["sequence"][0]), int(event["time_ns"][0]))
