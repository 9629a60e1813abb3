"""`hopscope query distributions`: how often which value occurred."""

from __future__ import annotations

import sys
from typing import Annotated, Any, get_args

import typer

from ...base.errors import HopscopeError
from ...base.names import Names
from ...detect.distributions.quantiles import LOG_ERROR, QUANTILES, VIEWS, By, Distribution
from ..filters import NodeOption
from ..options import ConfigOption, DataOption, NamesOption
from ..output import Format, FormatOption, Printer
from .options import FromOption, LimitOption, SinceOption, ToOption, filters_of, open_history

WIDTH = 16
"""Columns of the histograms in a table."""
_BARS = " ▁▂▃▄▅▆▇█"
_NAMES = [f"p{100 * q:g}" for q in QUANTILES]
TABLE = ("measure", "node", "port", "queue", "count", "mean", *_NAMES, "p99 is in", "highest", "histogram")
CSV = (
    "measure", "node", "port", "queue", "since", "until", "count", "mean",
    *(f"{name}{end}" for name in _NAMES for end in ("", "_lower", "_upper")), "highest",
)  # fmt: skip

MeasureOption = Annotated[
    list[str] | None,
    typer.Option(
        "--measure",
        "-m",
        metavar="MEASURE",
        help="Only hop_latency, queue_occupancy, link_utilization or end_to_end. Repeatable.",
        show_default=False,
    ),
]
PortOption = Annotated[
    list[int] | None,
    typer.Option("--port", min=0, max=65534, help="Only this egress port. Repeatable.", show_default=False),
]
QueueOption = Annotated[
    list[int] | None,
    typer.Option("--queue", min=0, max=255, help="Only this queue id. Repeatable.", show_default=False),
]


def distributions(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    measure: MeasureOption = None,
    node: NodeOption = None,
    port: PortOption = None,
    queue: QueueOption = None,
    by: Annotated[
        str, typer.Option("--by", metavar="VIEW", help="Joined by queue, port, switch, or over the network.")
    ] = "switch",
    limit: LimitOption = 100,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print how often which value occurred, with quantiles; what workers count now is in it.

    Latencies are in ns. Of a time window, whole periods are taken: what that covers is told.
    """
    from ...present.distributions import distribution_object

    if by not in VIEWS:
        raise HopscopeError(f"--by {by}: expected {', '.join(get_args(By))}")
    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, None, measure, node, None, None, None)
    with history:
        found = history.distributions(
            start=chosen["start"],
            end=chosen["end"],
            nodes=chosen["nodes"],
            ports=port or (),
            queues=queue or (),
            measures=chosen["metrics"],
            by=by,
        )
    printer = Printer(form, TABLE if form is Format.TABLE else CSV)
    for one in found[:limit]:
        row = distribution_object(one, known)
        printer.put([row if form is Format.JSON else flat(row, one, known)])
    printer.flush()
    for line in history.problems:
        print(f"hopscope: left out: {line}", file=sys.stderr)
    if len(found) > limit:
        print(f"more than {limit} rows: see --limit", file=sys.stderr)
    if found and form is Format.TABLE:
        print(_covered(found[0]), file=sys.stderr)


def flat(row: dict[str, Any], one: Distribution, names: Names) -> dict[str, Any]:
    """A distribution as texts."""
    texts = row | {
        "node": None if one.node is None else names.node_label(one.node),
        "port": None if one.node is None or one.port is None else names.port_label(one.node, one.port),
        "mean": None if one.mean is None else f"{one.mean:.1f}",
        "histogram": sparkline(one),
    }
    for name, found in zip(_NAMES, row["quantiles"], strict=True):
        estimate = found["estimate"]
        texts[name] = None if estimate is None else f"{estimate:.0f}"
        texts[f"{name}_lower"], texts[f"{name}_upper"] = found["lower"], found["upper"]
    texts["p99 is in"] = f"{texts['p99_lower']}–{texts['p99_upper'] or ''}"
    return texts


def sparkline(one: Distribution) -> str:
    """A histogram of a line of text, its values from the lowest to the highest on a logarithmic scale."""
    from ...present.distributions import columns

    counts = [count for _, _, count in columns(one, WIDTH)]
    most = max(counts, default=0) or 1
    steps = len(_BARS) - 1
    return "".join(_BARS[min(steps, int(count / most * steps + 0.999))] for count in counts)


def _covered(one: Distribution) -> str:
    from ...present.events import when

    ends = ["the beginning" if ns is None else when(ns) for ns in (one.since_ns, one.until_ns)]
    return (
        f"from {ends[0]} to {ends[1]}; quantiles are off by less than {LOG_ERROR:.0%} where bins are"
        " logarithmic: --format json tells the bounds of all"
    )
