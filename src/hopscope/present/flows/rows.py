"""Live and past flows as one array of FLOW records, so that they can be sorted,
paged and grouped together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from ...detect.flows.flow_id_set import FlowIdSet
from ...detect.records import FLOW, FlowState
from ...memory.snapshot import rows_at
from ...wire.records import Records
from ..collector_state import CollectorState
from .search import FlowSearch

if TYPE_CHECKING:
    from ...history.query import History
    from ...history.reading.table import Table

State = Literal["live", "past", "all"]
MAX_PAST = 10_000
"""Largest number of past flows in one answer: those with the newest events."""
Sums = dict[str, Any]
"""Sums of one flow's events, by the names of the columns of `History.flows`."""


@dataclass(frozen=True, slots=True)
class PastFlows:
    """Flows with events in a time range that are not in the flow tables, newest first."""

    records: Records = field(default_factory=lambda: np.zeros(0, FLOW))
    """FLOW [flows]; `latency_latest` is the flow's highest latency, and there is no path."""
    sums: Table | None = None
    """The rows of `History.sums_of` for these flows."""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class FlowRows:
    """Flows that a search found."""

    records: Records
    """FLOW [flows]: first `live` flows from the tables, then the flows that have left."""
    live: int
    past: PastFlows = field(default_factory=PastFlows)
    left: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    """Row in `past` of each flow that has left, int [flows - live]."""

    def sums(self, at: int) -> Sums:
        """Sums of the flow at index `at`, which must have left."""
        assert self.past.sums is not None
        return _row(self.past.sums, int(self.left[at - self.live]))


def past_flows(
    history: History, state: CollectorState, search: FlowSearch, start_ns: int | None, end_ns: int | None
) -> PastFlows:
    """Flows of history that have left. Raises HistoryError."""
    if not search.of_past:
        return PastFlows()
    live = state.flows()
    filters = search.of_history(start_ns, end_ns)
    table = history.sums_of(FlowIdSet(live["flow_id"]), inside=False, limit=MAX_PAST, **filters)
    return PastFlows(_records(table), table, table.truncated)


def live_sums(
    history: History, flows: Records, search: FlowSearch, start_ns: int | None, end_ns: int | None
) -> dict[int, Sums]:
    """Sums of the events of live flows in a time range, by flow id. Raises HistoryError."""
    filters = search.of_history(start_ns, end_ns)
    table = history.sums_of(FlowIdSet(flows["flow_id"]), limit=None, **filters)
    return {int(flow_id): _row(table, at) for at, flow_id in enumerate(table["flow_id"].tolist())}


def flow_rows(
    state: CollectorState, search: FlowSearch, which: State = "live", past: PastFlows | None = None
) -> FlowRows:
    """The flows of the tables that match, and the flows of `past` that are in no table."""
    every, past = state.flows(), past or PastFlows()
    live = every[:0] if which == "past" else rows_at(every, np.flatnonzero(search.mask(every, state)))
    left = ~FlowIdSet(every["flow_id"]).has(past.records["flow_id"])
    if len(every):  # a flow that began after the tables were copied has not left
        left &= past.records["first_ns"] <= every["last_ns"].max()
    at = np.flatnonzero(left)
    return FlowRows(np.concatenate([live, past.records[at]]) if len(at) else live, len(live), past, at)


def _records(table: Table) -> Records:
    found = np.zeros(len(table), FLOW)
    for name in ("src_hi", "src_lo", "dst_hi", "dst_lo", "flow_id", "sport", "dport", "proto"):
        found[name] = np.ma.filled(table[name], 0)
    for name in ("first", "last"):
        found[f"{name}_ns"] = table[name].astype("datetime64[ns]").astype(np.int64)
    packets = np.ma.filled(table["packets"], 0).astype(np.uint64)
    measured = ~np.ma.getmaskarray(table["mean_latency"])
    found["packets"] = packets
    found["latency_latest"] = np.ma.filled(table["highest_latency"], 0)
    known = ~np.ma.getmaskarray(table["highest_latency"])
    found["state"] = np.where(known, int(FlowState.HAS_LATENCY), 0)
    found["latency_samples"] = np.where(measured, packets, 0)
    found["latency_sum"] = np.ma.filled(table["mean_latency"], 0) * found["latency_samples"]
    return found


def _row(table: Table, at: int) -> Sums:
    return {
        name: None if np.ma.is_masked(value := table[name][at]) else int(value)
        for name in ("events", "path_changes", "drops", "highest_latency", "packets")
    }
