"""`hopscope query`: history, of a running collector or of a data folder alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ...present.events import EVENT_COLUMNS, event_object, event_texts
from ..grouped import grouped, option
from .bottleneck import bottleneck
from .distributions import distributions
from .options import Answer, EventOptions, HopOptions, PathOptions, age_ns
from .rows import (
    FLOW_COLUMNS,
    HOP_COLUMNS,
    PATH_COLUMNS,
    flow_object,
    flow_texts,
    hop_texts,
    path_object,
)

app = typer.Typer(
    help="Query history: events, flows, paths, hops, latency, SQL.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_HOPS, _SQL = Answer(limit=20), Answer(limit=10_000)
NO_EVENTS = "no events match"


@app.command()
@grouped
def events(
    filters: EventOptions,
    answer: Answer,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Instead of the newest first.")
    ] = False,
    after: Annotated[
        str | None, option("--after", metavar="PLACE", help="Continue after a page's end.")
    ] = None,
) -> None:
    """Print events, newest first."""
    with answer.history() as (history, names):
        chosen = filters.chosen(names).of_history()
        order = "oldest" if oldest_first else "newest"
        table = history.events(limit=answer.limit, order=order, after=after, **chosen)  # type: ignore[arg-type]
        rows = (event_object(row, names) for row in table.rows())
        answer.print(EVENT_COLUMNS, rows, event_texts, history, table, NO_EVENTS)
    if table.after:
        print(f"more: --after {table.after}", file=sys.stderr)


@app.command()
@grouped
def flows(filters: EventOptions, answer: Answer) -> None:
    """Print flows that have events, most recent first.

    Latencies are in ns.
    """
    with answer.history() as (history, names):
        table = history.flows(limit=answer.limit, **filters.chosen(names).of_history())
        answer.print(FLOW_COLUMNS, map(flow_object, table.rows()), flow_texts, history, table, NO_EVENTS)


@app.command()
@grouped
def paths(filters: PathOptions, answer: Answer) -> None:
    """Print the paths of flows over time, oldest first."""
    with answer.history() as (history, names):
        table = history.paths(limit=answer.limit, **filters.chosen(names).of_history())
        rows = (path_object(row, names) for row in table.rows())
        answer.print(PATH_COLUMNS, rows, event_texts, history, table, "no paths match")


@app.command()
@grouped
def hops(filters: HopOptions, answer: Answer = _HOPS) -> None:
    """Print hops by their highest latency (ns) in history."""
    with answer.history() as (history, names):
        table = history.hops(limit=answer.limit, **filters.chosen(names).of_history())
        answer.print(
            HOP_COLUMNS,
            table.rows(),
            lambda row: hop_texts(row, names),
            history,
            table,
            "no hop latencies match",
        )


@app.command()
@grouped
def summary(
    filters: EventOptions,
    answer: Answer,
    bucket: Annotated[
        str | None, option("--bucket", metavar="SPAN", help="Also by time, per 10s or 1m.")
    ] = None,
) -> None:
    """Count events by kind and metric."""
    seconds = None if bucket is None else age_ns("--bucket", bucket) / 1e9
    with answer.history() as (history, names):
        table = history.summary(bucket_seconds=seconds, **filters.chosen(names).of_history())
        answer.print(tuple(table.columns), table.rows(), None, history, table, NO_EVENTS)


@app.command()
@grouped
def sql(
    text: Annotated[
        str,
        typer.Argument(
            metavar="SELECT", help="One SELECT over the views events and distributions; -: stdin."
        ),
    ],
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", min=0.1, help="Time limit.")] = 30.0,
    memory: Annotated[int, typer.Option("--memory", min=64, metavar="MIB", help="Memory limit, MiB.")] = 1024,
    answer: Answer = _SQL,
) -> None:
    """Run one read-only SELECT over history.

    It is DuckDB's SQL; `DESCRIBE events` and `DESCRIBE distributions` list the columns.
    """
    with answer.history() as (history, _):
        question = sys.stdin.read() if text == "-" else text
        table = history.sql(question, limit=answer.limit, seconds=seconds, memory_bytes=memory * 1024**2)
        answer.print(tuple(table.columns), table.rows(), None, history, table, "no rows")


app.command()(bottleneck)
app.command()(distributions)
