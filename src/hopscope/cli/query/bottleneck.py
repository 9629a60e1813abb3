"""`hopscope query bottleneck`: latency and loss by switch, port and queue."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...base.errors import HopscopeError
from ...present.events import label
from ...present.select import EventFilter
from ...present.units import duration
from ..options.declare import option
from ..options.filters import FlowOption, flow_filter
from ..output.printer import Format
from .options import Answer, FlowIdOption, HistoryOptions, Scope, Window, flow_number

if TYPE_CHECKING:
    from ...base.names import Names
    from ...history.history_like import HistoryLike
    from ...history.reading.filters import Flow
    from ...present.collector_state import CollectorState

PLACE_COLUMNS = (
    "node", "port", "queue", "share", "mean_ns", "p99_ns", "highest_ns", "packets", "occupancy",
    "utilization", "slow_flows",
)  # fmt: skip
LOSS_COLUMNS = ("node", "port", "queue", "share", "drops")
HOP_COLUMNS = (
    "hop", "node", "port", "queue", "share", "share_mean", "latency_ns", "mean_ns", "median_ns", "quantile",
    "occupancy", "utilization",
)  # fmt: skip
LIMITED = Answer(limit=10)
_SOURCES = {
    "distributions": "distributions of all packets",
    "flows": "sums over live flows",
    "events": "stored values of history only",
}


def bottleneck(
    window: Window,
    source: HistoryOptions,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    by: str = option("--by latest|mean", "Latency that orders the hops of a flow.", "latest"),
    answer: Answer = LIMITED,
) -> None:
    """Attribute latency and loss to switches, ports and queues.

    Queues are ordered by their share of the latency of all packets in the time window, and by their share of
    the drops. Without a window, the answer covers the whole live state, and the last hour of history. The
    hops of a flow are ordered by their share of its latency, next to the usual latency there. A value printed
    as a range lies in that bin of its histogram. For a cluster, the answer comes from history, without live
    flows and gauges.
    """
    from ...present.collector_state import CollectorState

    if by not in ("latest", "mean"):
        raise HopscopeError(f"--by {by}: expected latest or mean")
    of_flow = flow is not None or flow_id is not None
    if of_flow and source.scope is Scope.CLUSTER:
        raise HopscopeError("--scope cluster: expected no flow: its hops are known to one member")
    with source.history() as (history, names):
        state = CollectorState(history.folder)
        if not of_flow:
            live = state if source.scope is Scope.MEMBER else None
            _network(live, history, names, window.ns(), answer)
        elif window.since or window.until:
            raise HopscopeError(
                "--flow, --flow-id: expected no --since or --until: a flow has no time window"
            )
        else:
            order: Literal["latest", "mean"] = "mean" if by == "mean" else "latest"
            _flow(state, history, names, flow, flow_id, order, answer)


def _network(
    state: CollectorState | None,
    history: HistoryLike,
    names: Names,
    window: tuple[int | None, int | None],
    answer: Answer,
) -> None:
    from ...present.bottleneck.answer import network
    from ...present.bottleneck.objects import network_object

    found = network_object(network(state, history, *window, limit=answer.limit), names)
    if answer.form is Format.JSON:
        answer.put((), [found])
    else:
        _print_network(found, answer)
    if found["truncated"]:
        print(f"hopscope: more than {answer.limit} rows: see --limit", file=sys.stderr)


def _print_network(found: dict[str, Any], answer: Answer) -> None:
    _print_source(found, "no latency was measured")
    if found["slow_flows"]:
        print(
            f"slow flows: {found['slow_flows']} above {duration(float(found['slow_above_ns']))} end to end",
            file=sys.stderr,
        )
    answer.put(PLACE_COLUMNS, found["items"], _texts_of(answer.form))
    if found["losses"] and answer.form is Format.TABLE:
        print(f"\ndropped packets since {found['history_since']}")
        answer.put(LOSS_COLUMNS, found["losses"], _texts_of(answer.form))


def _flow(
    state: CollectorState,
    history: HistoryLike,
    names: Names,
    flow: str | None,
    flow_id: str | None,
    by: Literal["latest", "mean"],
    answer: Answer,
) -> None:
    from ...present.bottleneck.answer import flow as attribute
    from ...present.bottleneck.objects import flow_object_of
    from ...present.units import flow_text

    row, named = _chosen(state, flow, flow_id)
    found = flow_object_of(attribute(state, history, row, named, by), names)
    if answer.form is Format.JSON:
        answer.put((), [found])
        return
    _print_source(found, "no matching flow")
    if found["flow"] is not None:
        quantile = found["quantile"]
        text = "" if quantile is None else f", at quantile {_between(quantile, '.3f')} of all packets"
        print(
            f"{flow_text(found['flow'])}: {duration(float(found['latency_ns']))} end to end{text}",
            file=sys.stderr,
        )
    answer.put(HOP_COLUMNS, found["items"], _texts_of(answer.form))


def _chosen(state: CollectorState, flow: str | None, flow_id: str | None) -> tuple[np.void | None, Flow]:
    """The matching live flow with the highest latency (None: there is none), and a filter of history."""
    from ...history.query import Flow

    rows = state.flows()
    if flow_id is not None:
        number = flow_number(flow_id)
        rows = rows[rows["flow_id"] == np.uint64(number)]
        named = Flow(flow_id=number)
    else:
        chosen = EventFilter(flow=flow_filter(flow, None))
        rows = rows if chosen.flow is None else rows[chosen.flow.mask(rows)]
        named = chosen.of_history().get("flow") or Flow()
    if len(rows) > 1:
        print(f"{len(rows)} live flows: the one with the highest latency", file=sys.stderr)
    return (rows[np.argmax(rows["latency_latest"])] if len(rows) else None), named


def _print_source(found: dict[str, Any], empty: str) -> None:
    span = f", {found['since']} to {found['until'] or 'now'}" if found.get("since") else ""
    source = _SOURCES.get(found["source"])
    if found["source"] == "flows" and found.get("history_since"):
        span = f", with highest values since {found['history_since']}"
    print(f"hopscope: {empty}" if source is None else f"from {source}{span}", file=sys.stderr)


def _texts_of(form: Format) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return partial(_texts, "t" if form is Format.TABLE else "d")


def _texts(times: str, item: dict[str, Any]) -> dict[str, Any]:
    """A queue or hop with one text per column; `times`: the format of bounds of times (see `_between`)."""
    flat = dict(item)
    for name in ("node", "port"):
        flat[name] = label(item[name])
    for name in ("share", "share_mean"):
        if item.get(name) is not None:
            flat[name] = f"{item[name]:.1%}"
    if item.get("mean_ns") is not None:
        flat["mean_ns"] = round(item["mean_ns"])
    for name in ("p99_ns", "median_ns"):
        if item.get(name) is not None:
            flat[name] = _between(item[name], times)
    if item.get("quantile") is not None:
        flat["quantile"] = _between(item["quantile"], ".3f")
    for name in ("occupancy", "utilization"):
        if name in item:
            flat[name] = _gauge(item[name])
    return flat


def _between(bounds: dict[str, Any], form: str) -> str:
    """Two bounds, or one if they look equal; `form`: `t` for times with their units, or a format spec."""
    lower, upper = bounds["lower"], bounds["upper"]
    if upper is None:
        return f">={duration(int(lower)) if form == 't' else int(lower)}"
    if form == "t":
        ends = [duration(int(each)) for each in (lower, upper)]
    else:
        ends = [format(int(each) if form == "d" else each, form) for each in (lower, upper)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"


def _gauge(gauge: dict[str, Any]) -> str | None:
    """`latest` with `mean` and `highest`, such as `12 (mean 10.5, max 80)`; None: there are no values."""
    mean, highest = gauge["mean"], gauge["highest"]
    more = [] if mean is None else [f"mean {mean:.4g}"]
    more += [] if highest is None else [f"max {highest}"]
    latest = "" if gauge["latest"] is None else str(gauge["latest"])
    return f"{latest} ({', '.join(more)})".strip() if more else latest or None
