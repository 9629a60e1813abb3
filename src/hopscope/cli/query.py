"""`hopscope query`: history, of a collector that runs or of none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import HopscopeError
from .filters import FlowOption, FlowParts, NodeOption, PrefixOption, node_ids
from .options import ConfigOption, DataOption, NamesOption, load
from .output import Format, FormatOption, Printer
from .query_rows import (
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
    from ..history.query import Filters, History, Table
    from ..names import Names

app = typer.Typer(
    help="Ask history: events, flows, paths, hops, or SQL.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar="AGE", help="Only the last 30s, 10m, 2h or 7d.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="From this time on (ISO 8601, or ns).", show_default=False),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Up to this time (ISO 8601, or ns).", show_default=False),
]
KindOption = Annotated[
    list[str] | None,
    typer.Option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable.", show_default=False),
]
MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric", "-m", metavar="METRIC", help="Only this metric. Repeatable.", show_default=False
    ),
]
FlowIdOption = Annotated[
    str | None,
    typer.Option(
        "--flow-id", metavar="ID", help="Only the flow of this id (hexadecimal).", show_default=False
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many rows.")]


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
    from ..serve.past import event_of_row

    history, known = _open(data, names, config)
    chosen = _filters(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
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
    history, known = _open(data, names, config)
    chosen = _filters(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
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
    history, known = _open(data, names, config)
    chosen = _filters(known, since, start, end, kind, None, node, flow, flow_id, prefix)
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
    history, known = _open(data, names, config)
    chosen = _filters(known, since, start, end, None, None, node, flow, flow_id, prefix)
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
    history, known = _open(data, names, config)
    chosen = _filters(known, since, start, end, kind, metric, node, flow, flow_id, prefix)
    with history:
        table = history.summary(
            bucket_seconds=None if bucket is None else _age_ns("--bucket", bucket) / 1e9, **chosen
        )
    _print(form, tuple(table.columns), table.rows(), None, history, table)


@app.command()
def sql(
    text: Annotated[
        str,
        typer.Argument(
            metavar="SELECT", help="One SELECT over the views events and distributions; - is stdin."
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

    It is DuckDB's SQL; `DESCRIBE events` tells the columns.
    """
    history, _ = _open(data, None, config)
    with history:
        question = sys.stdin.read() if text == "-" else text
        table = history.sql(question, limit=limit, seconds=seconds, memory_bytes=memory * 1024**2)
    _print(form, tuple(table.columns), table.rows(), None, history, table)


def _open(data: Path | None, names: Path | None, config: Path | None) -> tuple[History, Names]:
    from ..history.query import History
    from ..names import Names

    settings = load(config, None, [("--data", "data", data), ("--names", "names", names)]).settings
    return History(settings.data), Names.load(settings.names)


def _filters(
    known: Names,
    since: str | None,
    start: str | None,
    end: str | None,
    kind: list[str] | None,
    metric: list[str] | None,
    node: list[str] | None,
    flow: str | None,
    flow_id: str | None,
    prefix: list[str] | None,
) -> Filters:
    import time

    from ..history.query import Flow

    now = time.time_ns()
    if since and start:
        raise HopscopeError("--since and --from: expected one of them")
    begin = now - _age_ns("--since", since) if since else _moment("--from", start, now)
    parts = FlowParts.parse(flow) if flow else None
    chosen: Filters = {
        "start": begin,
        "end": _moment("--to", end, now),
        "kinds": _words(kind),
        "metrics": _words(metric),
        "nodes": node_ids(node or (), known),
        "prefix": prefix,
    }
    if parts is not None or flow_id is not None:
        number = None if flow_id is None else _flow_id(flow_id)
        chosen["flow"] = (
            Flow(flow_id=number)
            if parts is None
            else Flow(parts.src, parts.dst, parts.sport, parts.dport, parts.proto, number)
        )
    return chosen


def _words(given: list[str] | None) -> list[str]:
    return [word for text in given or () for word in text.lower().replace(",", " ").split()]


def _flow_id(text: str) -> int:
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    if not 0 <= number < 2**64:
        raise HopscopeError(f"--flow-id {text}: expected up to 16 hexadecimal digits")
    return number


def _age_ns(flag: str, text: str) -> int:
    from ..serve.text import UnreadableError, parse_when

    try:
        far = 1 << 62
        return far - parse_when(f"-{text.strip().removeprefix('-')}", far)
    except UnreadableError:
        raise HopscopeError(f"{flag} {text}: expected a number and ms, s, m, h or d, as in 10m") from None


def _moment(flag: str, text: str | None, now_ns: int) -> int | None:
    from ..serve.text import UnreadableError, parse_when

    try:
        return None if text is None else parse_when(text, now_ns)
    except UnreadableError as error:
        raise HopscopeError(f"{flag} {text}: {error}") from None


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
