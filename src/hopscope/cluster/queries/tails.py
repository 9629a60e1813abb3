"""Events that the lake does not have yet: each member answers with its own events from its marks on.

An answer is one line of JSON (see `_Head`), then the requested fields of EVENT, column by column.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...base.errors import HopscopeError
from ...detect.records import EVENT, PATH_PART, Metric
from ...history.follow import EventFollower
from ...history.reading.filters import Flow
from ...history.reading.page import Order
from ...lake.cursor import ClusterCursor
from ...lake.queries import Tail, TailRequest
from ...lake.snapshot import LakeSnapshot
from ...present.events import continues
from ...present.select import KINDS, METRICS, EventFilter, FlowFilter, Mask, labelled
from ...wire.records import Records
from .history_query import plain_filters
from .parts import ANSWER_BYTES, Answer

KIND = "tail"
"""Kind of this query, see `client`."""
_BATCH = 65_536
"""How many events are read at a time."""
_SHARE = 0.6
"""Share of the time for an answer that reading may take; the rest is for sending it."""
_FIELDS = {
    "time": ("time_ns",),
    "src": ("src_hi", "src_lo"),
    "dst": ("dst_hi", "dst_lo"),
    "path": ("path", "hop_count"),
}
"""Fields of EVENT from which a column is made, if they do not have its name."""
_ALWAYS = ("sequence", "time_ns", "shard", "kind", "metric", "hop", "ip_version", "flow_id")
"""Fields that are always included, for filters and other columns."""
_MAX_ROWS = ANSWER_BYTES // 16


class TailError(HopscopeError):
    """A request or an answer is malformed; the message is one line."""


def fields_of(columns: frozenset[str]) -> tuple[str, ...]:
    """The fields of EVENT that these columns of history need, in the order of EVENT."""
    wanted = {*_ALWAYS, *(field for name in columns for field in _FIELDS.get(name, (name,)))}
    return tuple(name for name in EVENT.names or () if name in wanted)


# ------------------------------------------------------------------------------------------- the request


def request_json(snapshot: LakeSnapshot, request: TailRequest) -> dict[str, Any]:
    """A request to all members, as arguments of a query."""
    marks: dict[str, dict[str, dict[str, int]]] = {}
    for (member, incarnation, shard), mark in snapshot.marks.items():
        marks.setdefault(member, {}).setdefault(incarnation, {})[str(shard)] = mark
    filters = plain_filters(request.filters)
    prefixes = filters.pop("prefix")
    return {
        "marks": marks,
        **filters,
        "flow": asdict(request.filters.get("flow") or Flow()),
        "prefixes": prefixes,
        "columns": sorted(request.columns),
        "order": request.order,
        "limit": request.limit,
        "after": None if request.after is None else str(request.after),
    }


class _Wanted:
    """A request, decoded by the answering member. Raises TailError."""

    def __init__(self, query: Mapping[str, Any], member: str, incarnation: str) -> None:
        try:
            marks = query["marks"].get(member, {}).get(incarnation, {})
            self.marks = {int(shard): int(mark) for shard, mark in marks.items()}
            flow = dict(query["flow"])
            flow_id = flow.pop("flow_id")
            self.window = EventFilter(start_ns=query["start"], end_ns=query["end"])
            self.filter = EventFilter(
                query["start"],
                query["end"],
                labelled("kind", query["kinds"], KINDS),
                labelled("metric", query["metrics"], METRICS),
                tuple(map(int, query["nodes"])),
                flow_id,
                FlowFilter(**flow, prefixes=tuple(query["prefixes"])),
                tuple(map(int, query["ports"])),
            )
            self.fields = fields_of(frozenset(map(str, query["columns"])))
            self.order = cast(Order, query["order"])
            self.limit = None if query["limit"] is None else int(query["limit"])
            after = query["after"]
            self.after = None if after is None else ClusterCursor.parse(after)
            self.filter.mask(np.zeros(0, EVENT))
        except (HopscopeError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise TailError(f"its version knows no such tail: {' '.join(str(error).split())[:200]}") from None
        self._who = member, incarnation

    def matching(self, rows: Records) -> Mask:
        """Which rows match; of a long path the first row, if that alone decides whether it matches."""
        kept = self.filter.mask(rows)
        if self.after is not None:
            kept &= self.after.mask(rows, *self._who, self.order)
        return kept

    def long(self, rows: Records) -> Mask:
        """Which rows belong to long paths, for which a single record does not decide."""
        path = (rows["metric"] == Metric.FLOW_PATH) & (rows["hop_count"] > PATH_PART)
        kept: Mask = path | continues(rows)
        if self.window.start_ns is not None:
            kept &= rows["time_ns"] >= self.window.start_ns
        if self.window.end_ns is not None:
            kept &= rows["time_ns"] < self.window.end_ns
        return kept

    def first(self, rows: Records) -> Records:
        """The requested number of rows that come first in the order, by sequence."""
        if self.limit is None or len(rows) <= self.limit:
            return rows
        keys = ("sequence", "shard") if self.order == "sequence" else ("sequence", "shard", "time_ns")
        by = np.lexsort([rows[name] for name in keys])
        chosen = (by[::-1] if self.order == "newest" else by)[: self.limit]
        return rows[np.sort(chosen)]


# -------------------------------------------------------------------------------------------- the member


class TailHandler:
    """Answers queries of KIND with the events of a data folder."""

    def __init__(self, folder: Path, member: str, incarnation: str) -> None:
        self._folder, self._who = folder, (member, incarnation)

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """The answer, without duplicate events. TailError: the query is malformed."""
        return Answer(200, await asyncio.to_thread(self.read, query))

    def close(self) -> None:
        """It holds nothing."""

    def read(self, query: Mapping[str, Any]) -> bytes:
        """The body of an answer."""
        wanted = _Wanted(query, *self._who)
        size = sum(EVENT[name].itemsize for name in wanted.fields)
        until = time.monotonic() + _SHARE * float(query.get("seconds", 1.0))
        rows, cut = tail(self._folder, wanted, (ANSWER_BYTES - 4096) // size, until)
        return encode(rows, wanted.fields, self._who[1], cut)


def tail(folder: Path, wanted: _Wanted, most: int, until: float) -> tuple[Records, str]:
    """The requested EVENT records, and why they are incomplete; empty: they are complete."""
    kept: list[Records] = []
    """Matching records, and all records of long paths."""
    held, cut = 0, ""
    follower = EventFollower(folder)
    try:
        for rows in _batches(follower, wanted.marks):
            matching, long = wanted.matching(rows), wanted.long(rows)
            some = rows[matching & ~long], rows[long]
            kept += [each for each in some if len(each)]
            held += sum(map(len, some))
            if held > most or (wanted.limit is not None and held > 4 * max(wanted.limit, _BATCH)):
                kept = [_trimmed(np.concatenate(kept), wanted)]
                held = len(kept[0])
            if held > most or time.monotonic() > until:
                why = "too many events wait for the lake" if held > most else "reading took too long"
                cut = f"{why}: a part of them is not in the answer"
                break
    finally:
        follower.close()
    found = _trimmed(np.concatenate(kept), wanted) if kept else np.empty(0, EVENT)
    return found[:most], cut


def _trimmed(rows: Records, wanted: _Wanted) -> Records:
    long = wanted.long(rows)
    return np.concatenate([wanted.first(rows[~long]), rows[long]])


def _batches(follower: EventFollower, marks: Mapping[int, int]) -> Iterator[Records]:
    """All present events from the marks on."""
    for shard in follower.shards():
        position, end = marks.get(shard, 0), follower.end(shard)
        while position < end:
            rows = follower.read(shard, position, _BATCH)
            if not len(rows):
                break
            yield rows
            position = int(rows["sequence"][-1]) + 1


def encode(rows: Records, fields: tuple[str, ...], incarnation: str, cut: str) -> bytes:
    """An answer."""
    head = {"incarnation": incarnation, "rows": len(rows), "fields": fields, "cut": cut}
    blocks = [np.ascontiguousarray(rows[name]).tobytes() for name in fields]
    return b"".join([json.dumps(head).encode() + b"\n", *blocks])


# --------------------------------------------------------------------------------------------- the client


def decode(body: bytes) -> tuple[str, Records, str]:
    """Incarnation, EVENT records (0 in fields that were not requested), and why they are incomplete. Raises
    TailError.
    """
    head, found, blocks = body.partition(b"\n")
    try:
        about = json.loads(head)
        rows, fields, incarnation, cut = (about[name] for name in ("rows", "fields", "incarnation", "cut"))
        if not (isinstance(rows, int) and 0 <= rows <= _MAX_ROWS and isinstance(cut, str)):
            raise ValueError("rows")
        if not (isinstance(incarnation, str) and incarnation.isprintable() and len(incarnation) <= 64):
            raise ValueError("incarnation")
        layout = [(name, EVENT[name]) for name in fields]
        if len(set(fields)) < len(fields) or not {*_ALWAYS} <= {*fields}:
            raise ValueError("fields")
        if not found or len(blocks) != rows * sum(kind.itemsize for _, kind in layout):
            raise ValueError("length")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise TailError(f"its tail is damaged: {' '.join(str(error).split())[:100]}") from None
    events = np.zeros(rows, EVENT)
    at = 0
    for name, kind in layout:
        field = np.frombuffer(blocks, kind.base, rows * (kind.itemsize // kind.base.itemsize), at)
        events[name] = field.reshape((rows, *kind.shape))
        at += field.nbytes
    return incarnation, events, " ".join(cut.split())[:300]


def after_marks(snapshot: LakeSnapshot, member: str, incarnation: str, events: Records) -> Tail:
    """The tail of a member, without duplicates and events that the lake has."""
    events = events[np.lexsort((events["sequence"], events["shard"]))]
    kept = np.ones(len(events), np.bool_)
    kept[1:] = (np.diff(events["sequence"]) != 0) | (np.diff(events["shard"]) != 0)
    for shard in np.unique(events["shard"]).tolist():
        mark = snapshot.marks.get((member, incarnation, shard), 0)
        kept &= (events["shard"] != shard) | (events["sequence"] >= np.uint64(mark))
    return Tail(member, incarnation, events[kept])
