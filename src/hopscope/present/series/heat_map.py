"""The places with the highest values, and their values over time.

The highest places are found first, then the values of these are read: in a storm of reports about made-up
switches there are as many places as events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...detect.places import ascending, keys_of_places, parts_of
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters
from ...history.reading.highest import By
from .over_time import Values
from .places import DROP, Buckets, Place, place_rows, times_ns
from .samples import Sample, Samples

Sort = Literal["peak", "events", "place"]


@dataclass(slots=True)
class HeatRow:
    """One place of a heat map."""

    place: Place
    peak: int
    events: int
    values: Values
    """Highest value by bucket; for `drop`, the number of drop reports."""


def find_highest(
    history: HistoryLike,
    metric: str,
    buckets: Buckets,
    rows: int,
    sort: Sort,
    samples: Samples | None,
    nodes: Sequence[int] = (),
) -> tuple[int, list[HeatRow], int | None]:
    """The number of places with values in the time range, the first `rows` of them, and the time of the first
    sample that is included.

    The places with the highest peaks are chosen, or (`sort` "events") those with the most events.
    """
    window: Filters = {"start": buckets.start_ns, "end": buckets.end_ns, "nodes": nodes}
    live = [] if samples is None else samples.over(metric, buckets)
    by: By = "events" if sort == "events" else "highest"
    more = _sampled(live, nodes) if live else None
    highest = history.highest(metric, by=by, limit=rows, more=more, **window)
    found = {
        place: HeatRow(place, row.highest, row.events, [None] * buckets.count)
        for row in highest.rows
        if row.highest > 0
        for place in (Place(*row.place),)
    }
    if found:
        _fill(found, history, metric, buckets, window)
        _fill_sampled(found, live)
    items = list(found.values())
    if sort == "place":
        items.sort(key=lambda row: ascending(row.place))
    return highest.total, items, live[0][1].time_ns if live else None


def _sampled(live: Sequence[tuple[int, Sample]], nodes: Sequence[int]) -> dict[str, npt.NDArray[Any]]:
    """The highest value of each place in some samples."""
    keys, values = np.empty(0, np.uint64), np.empty(0, np.uint32)
    for _, sample in live:
        if len(keys) != len(sample.keys) or (keys != sample.keys).any():
            every = np.union1d(keys, sample.keys)
            grown = np.zeros(len(every), np.uint32)
            grown[np.searchsorted(every, keys)] = values
            keys, values = every, grown
        at = np.searchsorted(keys, sample.keys)
        values[at] = np.maximum(values[at], sample.values)
    node, port, ident = parts_of(keys)
    asked = np.isin(node, nodes) if nodes else np.ones(len(keys), np.bool_)
    columns = {"node_id": node, "port": port, "ident": ident, "value": values}
    return {name: column[asked] for name, column in columns.items()}


def _at(found: Iterable[Place], metric: str, window: Filters) -> Filters:
    """Filters that select the chosen places."""
    filters: Filters = {**window, "nodes": sorted({place.node for place in found})}
    if metric != "link_utilization" and all(place.port is not None for place in found):
        filters["ports"] = sorted({place.port for place in found if place.port is not None})
    return filters


def _fill(
    found: dict[Place, HeatRow], history: HistoryLike, metric: str, buckets: Buckets, window: Filters
) -> None:
    """Put the values of events into the rows of their places."""
    filters = _at(found, metric, window)
    table = history.peaks(metric, bucket_ns=buckets.width_ns, limit=None, places=list(found), **filters)
    value = "events" if metric == DROP else "highest"
    places = place_rows(table)
    for place, time, highest in zip(places, times_ns(table["bucket"]), table[value].tolist(), strict=True):
        at = buckets.at(time)
        if at is not None:
            _raise(found[place], at, highest)


def _fill_sampled(found: dict[Place, HeatRow], live: Sequence[tuple[int, Sample]]) -> None:
    """Add the values of samples."""
    every = list(found.values())
    keys = keys_of_places(list(found))
    order = np.argsort(keys)
    keys, rows = keys[order], [every[index] for index in order.tolist()]
    for at, sample in live:
        for index, value in zip(*(part.tolist() for part in sample.of(keys)), strict=True):
            _raise(rows[index], at, value)


def _raise(row: HeatRow, at: int, value: int) -> None:
    before = row.values[at]
    row.values[at] = value if before is None else max(before, value)
