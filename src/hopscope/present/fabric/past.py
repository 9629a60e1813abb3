"""The map at a past moment, from history: the last stored value of every place, and the peaks before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...detect.places import keys_of, nodes_of
from ...wire.records import Records
from ..series.moved_alarms import places_of_moved_alarms
from ..series.places import OF_FLOWS
from .live import Snapshot, bounded
from .places import FROM_PATHS, METRICS, NONE, found_at, new_places, united

if TYPE_CHECKING:
    from ...history.history_like import HistoryLike
    from ...history.reading.table import Table

LOOK_BACK_NS = 300 * 10**9
"""How far before the moment values and paths are searched, at least: those of live flows are stored every
`detect.push_seconds`."""


def past_snapshot(history: HistoryLike, at_ns: int, window_ns: int, known: Snapshot | None) -> Snapshot:
    """The network at `at_ns`, with the highest values in the `window_ns` before. Raises HistoryError.

    `known`: the network of today, whose links are used for ports that no path of that time has; None: only
    links of that time.
    """
    start, end = at_ns - max(window_ns, LOOK_BACK_NS), at_ns + 1
    values = history.moment(highest_from=at_ns - window_ns, start=start, end=end)
    steps = history.steps(start=start, end=end)
    of_value = keys_of(_column(values, "node_id"), _column(values, "port"))
    of_step = keys_of(_column(steps, "node_id"), _column(steps, "port"))
    today = known.rows[known.rows["next"] != NONE] if known is not None else new_places(of_step[:0])
    rows = new_places(united([of_value, of_step, today["place"]]))
    at, _ = found_at(rows["place"], today["place"])
    for name in ("next", "next_port", "sources"):
        rows[name][at] = today[name]
    edge = dict(known.edge) if known is not None else {}
    _add_steps(rows, steps, of_step, edge)
    alarms = _column(values, "alarms") > 0
    if known is None:  # history is that of a cluster
        alarms &= ~_ended_elsewhere(history, values, alarms, start, end)
    _add_values(rows, values, of_value, alarms)
    return bounded(Snapshot(at_ns, rows, edge))


def _column(table: Table, name: str) -> np.ndarray:
    """A column as int64, with NONE for missing values."""
    column = np.ma.filled(np.ma.asarray(table[name]), 0) if name in table.columns else np.empty(0)
    missing = np.ma.getmaskarray(table[name]) if name in table.columns else np.empty(0, bool)
    if column.dtype == object:
        missing = np.array([value is None for value in table[name].tolist()], bool)
        column = np.array([value or 0 for value in table[name].tolist()], np.float64)
    return np.where(missing, NONE, column.astype(np.int64))


def _add_steps(rows: Records, steps: Table, places: np.ndarray, edge: dict[int, tuple[int, int]]) -> None:
    if not len(places):
        return
    following, flows = _column(steps, "next_node_id"), _column(steps, "flows")
    at, _ = found_at(rows["place"], places)
    np.add.at(rows["flows"], at, flows)
    known = np.flatnonzero(following != NONE)
    order = known[np.argsort(flows[known], kind="stable")]  # the most frequent next node is written last
    rows["next"][at[order]] = following[order]
    rows["sources"][at[order]] |= FROM_PATHS
    nodes, of = np.unique(nodes_of(places), return_inverse=True)
    ends, through = (np.bincount(of, counts).astype(np.int64) for counts in (_column(steps, "ends"), flows))
    edge |= zip(nodes.tolist(), zip(ends.tolist(), through.tolist(), strict=True), strict=True)


def _ended_elsewhere(
    history: HistoryLike, values: Table, alarms: np.ndarray, start: int, end: int
) -> np.ndarray:
    """bool [values]: whether the alarm at this place has ended according to another member."""
    if not alarms.any():
        return np.zeros(len(alarms), bool)
    places = list(zip(*(values[name].tolist() for name in ("metric", "node_id", "port")), strict=True))
    nodes = sorted({places[row][1] for row in np.flatnonzero(alarms) if places[row][0] not in OF_FLOWS})
    ended = places_of_moved_alarms(history, {"start": start, "end": end, "nodes": nodes}) if nodes else ()
    return np.fromiter((place in ended for place in places), bool, len(places))


def _add_values(rows: Records, values: Table, places: np.ndarray, alarms: np.ndarray) -> None:
    if not len(places):
        return
    metric = np.array(values["metric"].tolist(), object)
    latest = _column(values, "value").astype(np.float64)
    highest = _column(values, "highest").astype(np.float64)
    highest = np.where(highest == NONE, latest, np.maximum(highest, latest))
    at, _ = found_at(rows["place"], places)
    for number, name in enumerate(METRICS):
        mine = metric == name
        if name == "label_age":  # history has events only of silent ports
            mine &= alarms
        rows["latest"][at[mine], number] = latest[mine]
        rows["highest"][at[mine], number] = highest[mine]
        rows["alarm"][at[mine], number] = alarms[mine]
