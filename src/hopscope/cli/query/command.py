"""`hopscope query`: the history of a running collector, a data folder, or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from ...base.errors import HopscopeError
from ...base.names import Names
from ...base.output import write_output
from ...base.plural import plural
from ...present.events import (
    EVENT_COLUMNS,
    EVENT_TABLE,
    event_cells,
    event_object,
    event_texts,
    flow_key,
    label,
    node_object,
)
from ...present.events import port_object as named_port
from ...present.history import past_flow_object, with_live
from ...present.units import flow_text
from ..options.declare import Commands, argument, option
from ..options.standard_input import standard_input
from ..output.printer import Format, FormatOption
from .bottleneck import bottleneck
from .bursts import bursts
from .distributions import distributions
from .options import (
    MAX_ROWS,
    Answer,
    EventOptions,
    HistoryOptions,
    HopOptions,
    PathOptions,
    PortOptions,
    Row,
    Scope,
    Window,
    age_ns,
    left_out,
)

if TYPE_CHECKING:
    from ...history.query import History

FLOW_COLUMNS = (
    *("flow", "id", "first", "last", "packets", "events", "path_changes", "drops"),
    *("highest_latency_ns", "mean_latency_ns", "worst_hop", "worst_hop_mean_ns"),
)
PATH_COLUMNS = ("time", "kind", "flow", "path", "id")
LABEL_COLUMNS = (
    *("time", "node", "port", "labels", "latency_ns", "highest_latency_ns", "occupancy", "highest_occupancy"),
)
HOP_COLUMNS = ("node", "port", "events", "highest_ns", "mean_ns", "time")


def flow_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A flow with one text per column; the hop with the highest mean is NODE:PORT."""
    mean, worst = row["mean_latency"], row["worst_hop"]
    place = worst and ":".join(str(label(worst[part])) for part in ("node", "port") if worst[part])
    return row | {
        "members": ", ".join(row.get("members", ())),
        "flow": flow_text(row["flow"]),
        "id": row["flow"]["id"],
        "highest_latency_ns": row["highest_latency"],
        "mean_latency_ns": None if mean is None else round(mean),
        "worst_hop": place,
        "worst_hop_mean_ns": worst and worst["latency"],
    }


def path_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row of `History.paths` with the keys of an event."""
    path = [node_object(names, node) for node in row["path"]]
    name = f"{row['shard']}-{row['sequence']}"
    shown = {"time": row["time"], "kind": row["kind"], "flow": flow_key(row), "path": path, "id": name}
    return shown | {key: row[key] for key in ("member",) if key in row}


def port_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row about a port, with switch and port as the API shows them."""
    node, port = row.pop("node_id"), row.pop("port")
    return {"node": node_object(names, node), "port": named_port(names, node, port), **row}


def port_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row about a port with one text per column."""
    return row | {"node": label(row["node"]), "port": label(row["port"])}


def hop_texts(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A hop with one text per column."""
    node, port = row["node_id"], row["port"]
    return row | {
        "node": None if node is None else names.node_label(node),
        "port": None if node is None or port is None else names.port_label(node, port),
        "highest_ns": row["highest"],
        "mean_ns": round(row["mean"]),
    }


app = Commands(help="Query history: events, flows, paths, hops, queues, bursts, SQL.")
_HOPS = Answer(limit=20)
SQL_ROWS, PARQUET_ROWS = 10_000, 1_000_000
"""How many rows an answer to SQL has by default, printed or in a file."""
NO_EVENTS = "no events match"


@app.command()
def events(
    filters: EventOptions,
    answer: Answer,
    source: HistoryOptions,
    oldest_first: bool = option("--oldest-first", "Print the oldest first.", False),
    after: str | None = option("--after PLACE", "Continue after this page."),
) -> None:
    """Print events, newest first."""
    with source.history(filters) as (history, names):
        chosen = filters.chosen(names).of_history()
        order = "oldest" if oldest_first else "newest"
        table = history.events(limit=answer.limit, order=order, after=after, **chosen)  # type: ignore[arg-type]
        rows = (event_object(row, names) for row in table.rows())
        if answer.form is Format.TABLE:
            answer.print(EVENT_TABLE, rows, event_cells, history, table, NO_EVENTS)
        else:
            answer.print(EVENT_COLUMNS, rows, event_texts, history, table, NO_EVENTS)
        if table.after:
            print(f"more: --after {table.after}", file=sys.stderr)


@app.command()
def flows(filters: EventOptions, answer: Answer, source: HistoryOptions) -> None:
    """Print flows that have events, most recent first.

    Packets and the mean latency are those of flow records, and, without --until, of live flows. The hop with
    the highest mean is known once a flow has left the table, at the latest when the collector stops.
    """
    from ...present.collector_state import CollectorState

    with source.history(filters) as (history, names):
        chosen = filters.chosen(names)
        table = history.flows(limit=answer.limit, **chosen.of_history())
        rows: Iterable[Row] = table.rows()
        if source.scope is Scope.MEMBER:  # members of a cluster have already added theirs
            rows = with_live(rows, CollectorState(history.folder), chosen)
        answer.print(
            FLOW_COLUMNS,
            (past_flow_object(row, names) for row in rows),
            flow_texts,
            history,
            table,
            NO_EVENTS,
        )


@app.command()
def paths(filters: PathOptions, answer: Answer, source: HistoryOptions) -> None:
    """Print the paths of flows over time, oldest first."""
    with source.history(filters) as (history, names):
        table = history.paths(limit=answer.limit, **filters.chosen(names).of_history())
        rows = (path_object(row, names) for row in table.rows())
        answer.print(PATH_COLUMNS, rows, event_texts, history, table, "no paths match")


@app.command()
def hops(filters: HopOptions, source: HistoryOptions, answer: Answer = _HOPS) -> None:
    """Print hops by their highest latency (ns) in history."""
    with source.history(filters) as (history, names):
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
def labels(filters: PortOptions, answer: Answer, source: HistoryOptions) -> None:
    """Print the labels of ports by period, newest first: mean and highest latency and queue (INT-label)."""
    with source.history(filters) as (history, names):
        table = history.labels(limit=answer.limit, **filters.chosen(names).of_history())
        rows = (port_object(row, names) for row in table.rows())
        answer.print(LABEL_COLUMNS, rows, port_texts, history, table, "no labels match")


@app.command()
def coverage(filters: Window, answer: Answer, source: HistoryOptions) -> None:
    """Print the coverage of labels by period, newest first (INT-label)."""
    start, end = filters.ns()
    with source.history(filters) as (history, _):
        table = history.coverage(limit=answer.limit, start=start, end=end)
        answer.print(tuple(table.columns), table.rows(), None, history, table, "no coverage in this time")


@app.command()
def summary(
    filters: EventOptions,
    answer: Answer,
    source: HistoryOptions,
    bucket: str | None = option("--bucket SPAN", "Also count by time, for example per 10s or 1m."),
) -> None:
    """Count events by kind and metric."""
    seconds = None if bucket is None else age_ns("--bucket", bucket) / 1e9
    with source.history(filters) as (history, names):
        table = history.summary(bucket_seconds=seconds, **filters.chosen(names).of_history())
        answer.print(tuple(table.columns), table.rows(), None, history, table, NO_EVENTS)


@app.command()
def sql(
    source: HistoryOptions,
    text: Annotated[str, argument("SELECT", "One SELECT over the views events and distributions; -: stdin.")],
    seconds: float = option("--seconds S", "Time limit.", 30.0, min=0.1),
    memory: int = option("--memory MIB", "Memory limit, MiB.", 1024, min=64),
    output: Path | None = option("--output -o FILE", "Write the rows to this Parquet file.", None),
    limit: int | None = option(
        "--limit -n N",
        f"At most N rows; default: {SQL_ROWS:,}, with --output {PARQUET_ROWS:,}.",
        min=1,
        max=MAX_ROWS,
    ),
    form: FormatOption = Format.TABLE,
) -> None:
    """Run one read-only SELECT over history.

    It is DuckDB's SQL; `DESCRIBE events` and `DESCRIBE distributions` list the columns.
    """
    if output is not None and output.suffix != ".parquet":
        raise HopscopeError(
            f"--output {output}: expected a name such as {output.stem}.parquet; `--format csv` prints CSV"
        )
    if output is not None and form is not Format.TABLE:
        raise HopscopeError("--output always writes Parquet: leave out --format or --json")
    if output is not None and source.scope is Scope.CLUSTER:
        raise HopscopeError("--output writes the history of one member: leave out --scope cluster")
    answer = Answer(limit or (SQL_ROWS if output is None else PARQUET_ROWS), form)
    with source.history() as (history, _):
        statement = standard_input().read() if text == "-" else text
        limits: dict[str, Any] = {"limit": answer.limit, "seconds": seconds, "memory_bytes": memory * 1024**2}
        if output is None:
            table = history.sql(statement, **limits)
            answer.print(tuple(table.columns), table.rows(), None, history, table, "no rows")
            return
        found = cast("History", history).parquet(statement, **limits)
        write_output(output, found.content)
        left_out(history)
        more = " (there are more: see --limit)" if found.truncated else ""
        print(f"{output}: {plural(found.rows, 'row')}{more}", file=sys.stderr)


app.command()(bottleneck)
app.command()(bursts)
app.command()(distributions)
