"""Live flows and those of history as one array of FLOW records, to be sorted, paged and grouped alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from ...detect.records import FLOW, FlowState
from ...history.questions import HistoryLike
from ...wire import address
from ...wire.records import Records
from ..collector_state import CollectorState
from ..text import ns_of
from .search import FlowSearch

State = Literal["live", "past", "all"]
MOST_PAST = 10_000
"""Flows of history in one answer: those with the newest events."""


@dataclass(frozen=True, slots=True)
class PastFlows:
    """Flows with events in a time range, newest first."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """As `History.flows` has them."""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class FlowRows:
    """Flows that a search found."""

    records: Records
    """FLOW [flows]: `live` of them from the tables, then those that have left. Of one that has left,
    `latency_latest` is its highest latency, and it has no path."""
    live: int
    past: dict[int, dict[str, Any]]
    """Rows of history by flow id, also of flows that are live."""
    truncated: bool = False
    """History has more flows in the time range."""


def past_flows(
    history: HistoryLike, search: FlowSearch, start_ns: int | None, end_ns: int | None
) -> PastFlows:
    """Flows of history. Raises HistoryError."""
    if not search.of_past:
        return PastFlows()
    table = history.flows(limit=MOST_PAST, **search.of_history(start_ns, end_ns))
    return PastFlows(table.rows(), table.truncated)


def flow_rows(state: CollectorState, search: FlowSearch, which: State, past: PastFlows) -> FlowRows:
    """Flows of the tables that match, and those of history that are in none."""
    every = state.flows()
    live = every[search.mask(every, state)] if which != "past" else every[:0]
    known = {int(row["flow_id"]): row for row in past.rows}
    present = set(every["flow_id"][np.isin(every["flow_id"], np.array(list(known), np.uint64))].tolist())
    left = [row for flow_id, row in known.items() if flow_id not in present]
    records = np.concatenate([live, _records(left)]) if left else live
    return FlowRows(records, len(live), known, past.truncated)


def _records(rows: Sequence[dict[str, Any]]) -> Records:
    found = np.zeros(len(rows), FLOW)
    for side in ("src", "dst"):
        ends = [_address(row[side]) for row in rows]
        found[f"{side}_hi"] = np.array([end >> 64 for end in ends], np.uint64)
        found[f"{side}_lo"] = np.array([end & 0xFFFFFFFFFFFFFFFF for end in ends], np.uint64)
    for name in ("flow_id", "sport", "dport", "proto"):
        found[name] = [row[name] for row in rows]
    found["first_ns"], found["last_ns"] = ([ns_of(row[name]) for row in rows] for name in ("first", "last"))
    packets = np.array([row["packets"] or 0 for row in rows], np.uint64)
    means = [row["mean_latency"] for row in rows]
    highest = [row["highest_latency"] for row in rows]
    found["packets"] = packets
    found["latency_latest"] = [value or 0 for value in highest]
    found["state"] = [0 if value is None else FlowState.HAS_LATENCY for value in highest]
    measured = np.array([mean is not None for mean in means], np.bool_)
    found["latency_samples"] = np.where(measured, packets, 0)
    found["latency_sum"] = np.array([mean or 0.0 for mean in means]) * found["latency_samples"]
    return found


@lru_cache(maxsize=65_536)
def _address(text: str | None) -> int:
    return 0 if text is None else address.number_of(text)
