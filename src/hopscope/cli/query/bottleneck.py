"""`hopscope query bottleneck`: which switch, port and queue are to blame for latency and loss."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from ...base.errors import HopscopeError
from ..filters import FlowOption, FlowParts
from ..options import ConfigOption, DataOption, NamesOption
from ..output import Format, FormatOption, Printer
from .options import (
    FlowIdOption,
    FromOption,
    LimitOption,
    SinceOption,
    ToOption,
    age_ns,
    flow_number,
    moment,
    open_history,
)

if TYPE_CHECKING:
    from ...base.names import Names
    from ...history.query import Flow, History
    from ...present.collector_state import CollectorState

PLACE_COLUMNS = (
    "node", "port", "queue", "share", "mean_ns", "p99_ns", "highest_ns", "packets", "occupancy",
    "utilization", "slow_flows",
)  # fmt: skip
LOSS_COLUMNS = ("node", "port", "queue", "share", "drops")
HOP_COLUMNS = (
    "hop", "node", "port", "queue", "share", "share_mean", "latency_ns", "mean_ns", "usual_ns", "standing",
    "occupancy", "utilization",
)  # fmt: skip
ByOption = Annotated[
    str, typer.Option("--by", metavar="latest|mean", help="Which latency of a flow orders its hops.")
]
_SOURCES = {
    "distributions": "distributions of all packets",
    "flows": "sums over live flows",
    "events": "stored values of history alone",
    "none": "nothing",
}


def bottleneck(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    by: ByOption = "latest",
    limit: LimitOption = 10,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print which switch, port and queue are to blame for latency: in the network, or for a flow.

    Places are in order of their share of the latency of all packets in the time window, and of the drops in
    it; the hops of a flow in order of their share of its latency, beside what is usual at their place.  A
    value between two bounds is known by its bin.
    """
    from ...present.collector_state import CollectorState

    history, known = open_history(data, names, config)
    with history:
        state = CollectorState(history.folder)
        if flow is None and flow_id is None:
            now = time.time_ns()
            if since and start:
                raise HopscopeError("--since and --from: expected one of them")
            begin = now - age_ns("--since", since) if since else moment("--from", start, now)
            _network(state, history, known, (begin, moment("--to", end, now)), limit, form)
        elif since or start or end:
            raise HopscopeError(
                "--flow and --flow-id: a flow has no time window, expected neither --since nor --to"
            )
        elif by not in ("latest", "mean"):
            raise HopscopeError(f"--by {by}: expected latest or mean")
        else:
            order: Literal["latest", "mean"] = "mean" if by == "mean" else "latest"
            _flow(state, history, known, flow, flow_id, order, form)


def _network(
    state: CollectorState,
    history: History,
    names: Names,
    window: tuple[int | None, int | None],
    limit: int,
    form: Format,
) -> None:
    from ...present.bottleneck import network
    from ...present.bottleneck_json import network_object

    answer = network_object(network(state, history, *window), names, limit)
    if form is Format.JSON:
        _put(form, (), [answer])
        return
    _said(answer)
    if answer["slow_flows"]:
        print(
            f"slow flows: {answer['slow_flows']} above {answer['slow_above_ns']} ns end to end",
            file=sys.stderr,
        )
    _put(form, PLACE_COLUMNS, [_flat(each) for each in answer["items"]])
    if answer["losses"] and form is Format.TABLE:
        print("\ndropped packets")
        _put(form, LOSS_COLUMNS, [_flat(each) for each in answer["losses"]])


def _flow(
    state: CollectorState,
    history: History,
    names: Names,
    flow: str | None,
    flow_id: str | None,
    by: Literal["latest", "mean"],
    form: Format,
) -> None:
    from ...present.bottleneck import flow as blame_flow
    from ...present.bottleneck_json import flow_object_of
    from ..output import flow_text

    row, asked = _chosen(state, flow, flow_id)
    answer = flow_object_of(blame_flow(state, history, row, asked, by), names)
    if form is Format.JSON:
        _put(form, (), [answer])
        return
    _said(answer)
    if answer["flow"] is not None:
        where = answer["standing"]
        text = "" if where is None else f", at quantile {_between(where, '.3f')} of all packets"
        print(f"{flow_text(answer['flow'])}: {answer['latency_ns']} ns end to end{text}", file=sys.stderr)
    _put(form, HOP_COLUMNS, [_flat(each) for each in answer["items"]])


def _chosen(state: CollectorState, flow: str | None, flow_id: str | None) -> tuple[np.void | None, Flow]:
    """The live flow with the highest latency of those that are meant, and what history calls them."""
    from ...history.query import Flow

    rows = state.flows()
    if flow_id is not None:
        number = flow_number(flow_id)
        rows = rows[rows["flow_id"] == np.uint64(number)]
        asked = Flow(flow_id=number)
    else:
        parts = FlowParts.parse(flow or "")
        rows = rows[parts.mask(rows)]
        asked = Flow(parts.src, parts.dst, parts.sport, parts.dport, parts.proto)
    if len(rows) > 1:
        print(f"{len(rows)} live flows: the one with the highest latency", file=sys.stderr)
    return (rows[np.argmax(rows["latency_latest"])] if len(rows) else None), asked


def _said(answer: dict[str, Any]) -> None:
    span = ""
    if answer.get("since"):
        span = f", {answer['since']} to {answer['until'] or 'now'}"
    print(f"from {_SOURCES[answer['source']]}{span}", file=sys.stderr)


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """A place as texts."""
    flat = dict(item)
    for name in ("node", "port"):
        named = item[name]
        flat[name] = None if named is None else str(named["name"] or named["id"])
    for name in ("share", "share_mean"):
        if item.get(name) is not None:
            flat[name] = f"{item[name]:.1%}"
    if item.get("mean_ns") is not None:
        flat["mean_ns"] = round(item["mean_ns"])
    for name in ("p99_ns", "usual_ns"):
        if item.get(name) is not None:
            flat[name] = _between(item[name], "d")
    if item.get("standing") is not None:
        flat["standing"] = _between(item["standing"], ".3f")
    for name in ("occupancy", "utilization"):
        if name in item:
            flat[name] = _gauge(item[name])
    return flat


def _between(bounds: dict[str, Any], form: str) -> str:
    lower, upper = bounds["lower"], bounds["upper"]
    if upper is None:
        return f">={int(lower)}"
    ends = [format(int(each) if form == "d" else each, form) for each in (lower, upper)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}"


def _gauge(gauge: dict[str, Any]) -> str | None:
    """`latest` beside `mean` and `highest`, as `12 (mean 10.5, max 80)`."""
    mean, highest = gauge["mean"], gauge["highest"]
    more = [text for text in (
        None if mean is None else f"mean {mean:.4g}", None if highest is None else f"max {highest}"
    ) if text]  # fmt: skip
    latest = "" if gauge["latest"] is None else str(gauge["latest"])
    return f"{latest} ({', '.join(more)})".strip() if more else latest or None


def _put(form: Format, columns: tuple[str, ...], rows: list[dict[str, Any]]) -> None:
    printer = Printer(form, columns)
    printer.put(rows)
    printer.flush()
