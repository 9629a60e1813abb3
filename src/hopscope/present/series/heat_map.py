"""The places with the highest values, and their values over time.

Places are rows of numbers until the highest are known: in a storm of reports about made-up switches there are
as many as events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from ...history.questions import HistoryLike
from ...history.reading.filters import Filters
from .over_time import Values
from .places import DROP, Buckets, Place, integers, times_ns
from .samples import Sample, Samples, key_of, places_of

if TYPE_CHECKING:
    from ...history.reading.table import Table

MOST_CELLS = 1_500_000
"""Values by place and bucket that are read of all places; of more, those of the chosen places alone."""
Sort = Literal["peak", "events", "place"]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class HeatRow:
    """One place of a heat map."""

    place: Place
    peak: int
    events: int
    values: Values
    """Highest value by bucket; of `drop` the number of drop reports."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Values of places, of a bucket or of all; int64 [cells] each."""

    places: Ints
    """int64 [cells, 3]: node, port, ident; -1: unknown."""
    values: Ints
    events: Ints


def find_highest(
    history: HistoryLike,
    metric: str,
    buckets: Buckets,
    rows: int,
    sort: Sort,
    samples: Samples | None,
    nodes: Sequence[int] = (),
) -> tuple[int, list[HeatRow], int | None]:
    """Places with values in the range, how many there are, and since when samples are in it.

    Of all places those with the highest peaks are taken, or those with the most events (`sort` "events").
    """
    window: Filters = {"start": buckets.start_ns, "end": buckets.end_ns, "nodes": nodes}
    table = history.peaks(metric, bucket_ns=buckets.width_ns, limit=MOST_CELLS, **window)
    in_buckets = not table.truncated
    if not in_buckets:
        table = history.peaks(metric, limit=None, **window)
    live = [] if samples is None else samples.over(metric, buckets)
    total, found = _highest(metric, [_cells(table, metric), _sampled(live, nodes)], rows, sort, buckets.count)
    if found and not in_buckets:
        table = history.peaks(metric, bucket_ns=buckets.width_ns, limit=None, **_at(found, metric, window))
    if found:
        _fill(found, table, metric, buckets)
    by_key = {key_of(place): row for place, row in found.items()}
    keys = np.array(sorted(by_key), np.uint64)
    for at, sample in live:
        for index, value in zip(*sample.of(keys), strict=True):
            _raise(by_key[int(keys[index])], at, int(value))
    return total, list(found.values()), live[0][1].time_ns if live else None


def _cells(table: Table, metric: str) -> _Cells:
    places = np.stack([integers(table[name]) for name in ("node_id", "port", "ident")], axis=1)
    return _Cells(places, *(integers(table[name]) for name in (_value_of(metric), "events")))


def _value_of(metric: str) -> str:
    return "events" if metric == DROP else "highest"


def _sampled(live: Sequence[tuple[int, Sample]], nodes: Sequence[int]) -> _Cells:
    keys = np.concatenate([np.empty(0, np.uint64), *(sample.keys for _, sample in live)])
    values = np.concatenate([np.empty(0, np.int64), *(sample.values for _, sample in live)])
    places = places_of(keys)
    asked = np.isin(places[:, 0], nodes) if nodes else np.ones(len(keys), np.bool_)
    return _Cells(places[asked], values[asked], np.zeros(int(asked.sum()), np.int64))


def _highest(
    metric: str, parts: Sequence[_Cells], rows: int, sort: Sort, count: int
) -> tuple[int, dict[Place, HeatRow]]:
    """How many places there are, and the first ones, in order, still without values."""
    places, values, events = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("places", "values", "events")
    )
    order = np.lexsort(places.T[::-1])
    places, values, events = places[order], values[order], events[order]
    first = np.flatnonzero(np.append(True, (places[1:] != places[:-1]).any(axis=1))[: len(places)])
    if not len(first):
        return 0, {}
    places, events = places[first], np.add.reduceat(events, first)
    peaks = events if metric == DROP else np.maximum.reduceat(values, first)
    some = np.flatnonzero(peaks > 0)
    by = (-peaks[some], -events[some]) if sort == "events" else (-peaks[some],)
    chosen = some[np.lexsort(by)[:rows]]  # stable: places ascend
    if sort == "place":
        chosen.sort()
    columns = (column[chosen].tolist() for column in (places, peaks, events))
    return len(first), {
        place: HeatRow(place, peak, seen, [None] * count)
        for place, peak, seen in zip(map(_place, next(columns)), *columns, strict=True)
    }


def _place(parts: Sequence[int]) -> Place:
    node, port, ident = parts
    return Place(node, None if port < 0 else port, None if ident < 0 else ident)


def _at(found: dict[Place, HeatRow], metric: str, window: Filters) -> Filters:
    """Filters of the chosen places."""
    filters: Filters = {**window, "nodes": sorted({place.node for place in found})}
    if metric != "link_utilization" and all(place.port is not None for place in found):
        filters["ports"] = sorted({place.port for place in found if place.port is not None})
    return filters


def _fill(found: dict[Place, HeatRow], table: Table, metric: str, buckets: Buckets) -> None:
    """Put values of a table with buckets into the rows of their places."""
    cells = _cells(table, metric)
    nodes = np.array(sorted({place.node for place in found}))
    rows = np.flatnonzero(np.isin(cells.places[:, 0], nodes))
    columns = (column[rows].tolist() for column in (cells.places, cells.values))
    for parts, value, time in zip(*columns, times_ns(table["bucket"][rows]), strict=True):
        row, at = found.get(_place(parts)), buckets.at(time)
        if row is not None and at is not None:
            _raise(row, at, value)


def _raise(row: HeatRow, at: int, value: int) -> None:
    before = row.values[at]
    row.values[at] = value if before is None else max(before, value)
