"""`hopscope query distributions`: value histograms and quantiles."""

from __future__ import annotations

import sys
from typing import Any, cast, get_args

from ...base.errors import HopscopeError
from ...base.names import Names
from ...detect.distributions.quantiles import LOG_ERROR, QUANTILES, VIEWS, By, Distribution
from ...detect.sink.records import Measure
from ...present.select import labelled
from ...present.text import UnreadableError
from ...present.units import duration
from ..options.declare import option
from ..options.filters import EgressPortOption, NodeOption, node_ids
from ..output.printer import Format, Printer
from .options import Answer, HistoryOptions, Window, left_out

WIDTH = 16
"""Number of bars of a histogram in a table."""
MEASURES = tuple(measure.label for measure in Measure)
_MEASURES = ", ".join(MEASURES)
_BARS = " ▁▂▃▄▅▆▇█"
_NAMES = [f"p{100 * q:g}" for q in QUANTILES]
TABLE = ("measure", "node", "port", "queue", "count", "mean", *_NAMES, "p99 is in", "highest", "histogram")
CSV = (
    "measure", "node", "port", "queue", "since", "until", "count", "mean",
    *(f"{name}{end}" for name in _NAMES for end in ("", "_lower", "_upper")), "highest",
)  # fmt: skip


def distributions(
    window: Window,
    answer: Answer,
    source: HistoryOptions,
    measure: list[str] | None = option("--measure -m MEASURE", f"Only {_MEASURES}. Repeatable."),
    node: NodeOption = None,
    egress_port: EgressPortOption = None,
    queue: list[int] | None = option("--queue", "Only this queue id. Repeatable.", min=0, max=255),
    by: str = option("--by VIEW", "Merge by queue, port, switch or network.", "switch"),
) -> None:
    """Print value histograms and quantiles, including live counts.

    A time window takes whole periods; the covered span is printed.
    """
    from ...present.distributions import distribution_object

    if by not in VIEWS:
        raise HopscopeError(f"--by: unknown view {by!r}, expected {', '.join(get_args(By))}")
    try:
        measures = labelled("measure", measure or (), {name: name for name in MEASURES})
    except UnreadableError as error:
        raise HopscopeError(f"--{error}") from None
    start_ns, end_ns = window.ns()
    with source.history() as (history, names):
        found = history.distributions(
            start=start_ns,
            end=end_ns,
            nodes=node_ids(node or (), names),
            ports=egress_port or (),
            queues=queue or (),
            measures=measures,
            by=cast(By, by),
        )
        counted = bool(found) or bool(history.distributions())
        printer = Printer(answer.form, TABLE if answer.form is Format.TABLE else CSV)
        for distribution in found[: answer.limit]:
            row = distribution_object(distribution, names)
            printer.put(
                [row if answer.form is Format.JSON else _SHAPES[answer.form](row, distribution, names)]
            )
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


def texts(row: dict[str, Any], distribution: Distribution, names: Names) -> dict[str, Any]:
    """A distribution with one text per column."""
    node, port, mean = distribution.node, distribution.port, distribution.mean
    found = row | {
        "node": None if node is None else names.node_label(node),
        "port": None if node is None or port is None else names.port_label(node, port),
        "mean": None if mean is None else f"{mean:.1f}",
        "histogram": sparkline(distribution),
    }
    for name, quantile in zip(_NAMES, row["quantiles"], strict=True):
        estimate = quantile["estimate"]
        found[name] = None if estimate is None else f"{estimate:.0f}"
        found[f"{name}_lower"], found[f"{name}_upper"] = quantile["lower"], quantile["upper"]
    found["p99 is in"] = f"{found['p99_lower']}–{found['p99_upper'] or ''}"
    return found


def cells(row: dict[str, Any], distribution: Distribution, names: Names) -> dict[str, Any]:
    """Like `texts`, for a table: times have their units."""
    found = texts(row, distribution, names)
    if row["unit"] == "ns":
        for name in ("mean", *_NAMES, "highest"):
            found[name] = None if found[name] is None else duration(float(found[name]))
        ends = [found[f"p99_{end}"] for end in ("lower", "upper")]
        found["p99 is in"] = "–".join("" if end is None else duration(float(end)) for end in ends)
    return found


_SHAPES = {Format.TABLE: cells, Format.CSV: texts}


def sparkline(distribution: Distribution) -> str:
    """A histogram as a line of text, from the lowest to the highest value on a logarithmic scale."""
    from ...present.distributions import columns

    counts = [count for _, _, count in columns(distribution, WIDTH)]
    largest = max(counts, default=0) or 1
    steps = len(_BARS) - 1
    return "".join(_BARS[min(steps, int(count / largest * steps + 0.999))] for count in counts)


def _covered(distribution: Distribution) -> str:
    from ...present.events import when

    ends = [
        "the beginning" if ns is None else when(ns) for ns in (distribution.since_ns, distribution.until_ns)
    ]
    return (
        f"from {ends[0]} to {ends[1]}; quantiles are off by less than {LOG_ERROR:.0%} where bins are"
        " logarithmic: --format json has all bounds"
    )
