"""`hopscope query`: history, of a collector that runs or of none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..filters import FlowOption, NodeOption, PrefixOption
from ..options import ConfigOption, DataOption, NamesOption
from ..output import Format, FormatOption, Printer
from .bottleneck import bottleneck
from .distributions import distributions
from .options import (
    FlowIdOption,
    FromOption,
    KindOption,
    LimitOption,
    MetricOption,
    SinceOption,
    ToOption,
    age_ns,
    filters_of,
    open_history,
)
from .rows import (
    EVENT_COLUMNS,
    FLOW_COLUMNS,
    HOP_COLUMNS,
    PATH_COLUMNS,
    flat_event,
    flat_flow,
    flat_hop,
    flow_object,
    path_object,
)

if TYPE_CHECKING:
    from ...history.query import History, Table

app = typer.Typer(
    help="Ask history: events, flows, paths, hops, distributions, what is to blame, or SQL.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def events(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    kind: KindOption = None,
    metric: MetricOption = None,
    node: NodeOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    prefix: PrefixOption = None,
    limit: LimitOption = 100,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Instead of the newest first.")
    ] = False,
    after: Annotated[
        str | None,
        typer.Option("--after", metavar="PLACE", help="Continue where a page ended.", show_default=False),
    ] = None,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print events, the newest first; each is on disk."""
    from ...present.history import event_of_row

    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
    with history:
        order = "oldest" if oldest_first else "newest"
        table = history.events(limit=limit, order=order, after=after, **chosen)  # type: ignore[arg-type]
    shown = (event_of_row(row, known) for row in table.rows())
    _print(form, EVENT_COLUMNS, shown, flat_event, history, table)
    if table.after:
        print(f"more: --after {table.after}", file=sys.stderr)


@app.command()
def flows(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    kind: KindOption = None,
    metric: MetricOption = None,
    node: NodeOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    prefix: PrefixOption = None,
    limit: LimitOption = 100,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print flows that have events, the most recent first.

    Latencies are in ns.
    """
    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
    with history:
        table = history.flows(limit=limit, **chosen)
    _print(form, FLOW_COLUMNS, map(flow_object, table.rows()), flat_flow, history, table)


@app.command()
def paths(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    kind: KindOption = None,
    node: NodeOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    prefix: PrefixOption = None,
    limit: LimitOption = 100,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the paths of flows over time, the oldest first."""
    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, kind, None, node, flow, flow_id, prefix)
    with history:
        table = history.paths(limit=limit, **chosen)

    rows = (path_object(row, known) for row in table.rows())
    _print(form, PATH_COLUMNS, rows, flat_event, history, table)


@app.command()
def hops(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    node: NodeOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    prefix: PrefixOption = None,
    limit: LimitOption = 20,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print hops by the highest latency (ns) that history has of them."""
    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, None, None, node, flow, flow_id, prefix)
    with history:
        table = history.hops(limit=limit, **chosen)

    _print(form, HOP_COLUMNS, table.rows(), lambda row: flat_hop(row, known), history, table)


@app.command()
def summary(
    since: SinceOption = None,
    start: FromOption = None,
    end: ToOption = None,
    kind: KindOption = None,
    metric: MetricOption = None,
    node: NodeOption = None,
    flow: FlowOption = None,
    flow_id: FlowIdOption = None,
    prefix: PrefixOption = None,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", metavar="AGE", help="Also by time, as every 10s or 1m.", show_default=False),
    ] = None,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print how many events there are, by kind and metric."""
    history, known = open_history(data, names, config)
    chosen = filters_of(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
    with history:
        table = history.summary(
            bucket_seconds=None if bucket is None else age_ns("--bucket", bucket) / 1e9, **chosen
        )
    _print(form, tuple(table.columns), table.rows(), None, history, table)


@app.command()
def sql(
    text: Annotated[
        str,
        typer.Argument(
            metavar="SELECT", help="One SELECT over the views events and distributions; -: stdin."
        ),
    ],
    limit: LimitOption = 10_000,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=0.1, help="Longest time.")] = 30.0,
    memory: Annotated[int, typer.Option("--memory", min=64, metavar="MIB", help="Most memory, MiB.")] = 1024,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """Answer one read-only SELECT over history.

    It is DuckDB's SQL; `DESCRIBE events` and `DESCRIBE distributions` tell the columns.
    """
    history, _ = open_history(data, None, config)
    with history:
        question = sys.stdin.read() if text == "-" else text
        table = history.sql(question, limit=limit, seconds=seconds, memory_bytes=memory * 1024**2)
    _print(form, tuple(table.columns), table.rows(), None, history, table)


app.command()(bottleneck)
app.command()(distributions)


def _print(
    form: Format,
    columns: tuple[str, ...],
    rows: Iterable[dict[str, Any]],
    flat: Callable[[dict[str, Any]], dict[str, Any]] | None,
    history: History,
    table: Table,
) -> None:
    """JSON has objects as the API does, table and CSV one text a column; what is left out goes to stderr."""
    printer = Printer(form, columns)
    printer.put(rows if flat is None or form is Format.JSON else map(flat, rows))
    printer.flush()
    for line in history.problems:
        print(f"hopscope: left out: {line}", file=sys.stderr)
    if table.truncated and table.after is None:
        print(f"more than {len(table)} rows: see --limit", file=sys.stderr)
