"""`hopscope query distributions`: value histograms and quantiles."""

from __future__ import annotations

import sys
from typing import Annotated, Any, get_args

import typer

from ...base.errors import HopscopeError
from ...base.names import Names
from ...detect.distributions.quantiles import LOG_ERROR, QUANTILES, VIEWS, By, Distribution
from ...detect.sink.records import Measure
from ...present.select import labelled
from ...present.text import UnreadableError
from ..filters import NodeOption, node_ids
from ..grouped import grouped, option
from ..output import Format, Printer
from .options import Answer, Window, left_out

WIDTH = 16
"""Bars of the histograms in a table."""
MEASURES = tuple(measure.label for measure in Measure)
_BARS = " ▁▂▃▄▅▆▇█"
_NAMES = [f"p{100 * q:g}" for q in QUANTILES]
TABLE = ("measure", "node", "port", "queue", "count", "mean", *_NAMES, "p99 is in", "highest", "histogram")
CSV = (
    "measure", "node", "port", "queue", "since", "until", "count", "mean",
    *(f"{name}{end}" for name in _NAMES for end in ("", "_lower", "_upper")), "highest",
)  # fmt: skip


@grouped
def distributions(
    window: Window,
    answer: Answer,
    measure: Annotated[
        list[str] | None,
        option("--measure", "-m", metavar="MEASURE", help=f"Only {', '.join(MEASURES)}. Repeatable."),
    ] = None,
    node: NodeOption = None,
    egress_port: Annotated[
        list[int] | None, option("--egress-port", min=0, max=65534, help="Only this egress port. Repeatable.")
    ] = None,
    queue: Annotated[
        list[int] | None, option("--queue", min=0, max=255, help="Only this queue id. Repeatable.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", metavar="VIEW", help="Merge by queue, port, switch or network.")
    ] = "switch",
) -> None:
    """Print value histograms and quantiles, including live counts.

    Latencies are in ns. A time window takes whole periods; the covered span is printed.
    """
    from ...present.distributions import distribution_object

    if by not in VIEWS:
        raise HopscopeError(f"--by: unknown view {by!r}, expected {', '.join(get_args(By))}")
    try:
        measures = labelled("measure", measure or (), {name: name for name in MEASURES})
    except UnreadableError as error:
        raise HopscopeError(f"--{error}") from None
    start_ns, end_ns = window.ns()
    with answer.history() as (history, names):
        found = history.distributions(
            start=start_ns,
            end=end_ns,
            nodes=node_ids(node or (), names),
            ports=egress_port or (),
            queues=queue or (),
            measures=measures,
            by=by,
        )
        counted = bool(found) or bool(history.distributions())
    printer = Printer(answer.form, TABLE if answer.form is Format.TABLE else CSV)
    for one in found[: answer.limit]:
        row = distribution_object(one, names)
        printer.put([row if answer.form is Format.JSON else texts(row, one, names)])
    printer.flush()
    left_out(history)
    if not counted:
        print("hopscope: distributions are off: set distributions.enabled = true", file=sys.stderr)
    elif not found:
        print("hopscope: no distributions match", file=sys.stderr)
    if len(found) > answer.limit:
        print(f"hopscope: more than {answer.limit} rows: see --limit", file=sys.stderr)
    if found and answer.form is Format.TABLE:
        print(_covered(found[0]), file=sys.stderr)


def texts(row: dict[str, Any], one: Distribution, names: Names) -> dict[str, Any]:
    """A distribution with one text per column."""
    found = row | {
        "node": None if one.node is None else names.node_label(one.node),
        "port": None if one.node is None or one.port is None else names.port_label(one.node, one.port),
        "mean": None if one.mean is None else f"{one.mean:.1f}",
        "histogram": sparkline(one),
    }
    for name, quantile in zip(_NAMES, row["quantiles"], strict=True):
        estimate = quantile["estimate"]
        found[name] = None if estimate is None else f"{estimate:.0f}"
        found[f"{name}_lower"], found[f"{name}_upper"] = quantile["lower"], quantile["upper"]
    found["p99 is in"] = f"{found['p99_lower']}–{found['p99_upper'] or ''}"
    return found


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
        " logarithmic: --format json has all bounds"
    )
