"""Options of `hopscope query`, and what they mean: shared by its commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...base.errors import HopscopeError
from ..filters import FlowParts, node_ids
from ..options import load

if TYPE_CHECKING:
    from ...base.names import Names
    from ...history.query import Filters, History

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


def open_history(data: Path | None, names: Path | None, config: Path | None) -> tuple[History, Names]:
    """The history of a data folder, and what its nodes are called."""
    from ...base.names import Names
    from ...history.query import History

    settings = load(config, None, [("--data", "data", data), ("--names", "names", names)]).settings
    return History(settings.data), Names.load(settings.names)


def filters_of(
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
    """The filters of a command's options. Raises HopscopeError."""
    import time

    from ...history.query import Flow

    now = time.time_ns()
    if since and start:
        raise HopscopeError("--since and --from: expected one of them")
    begin = now - age_ns("--since", since) if since else moment("--from", start, now)
    parts = FlowParts.parse(flow) if flow else None
    chosen: Filters = {
        "start": begin,
        "end": moment("--to", end, now),
        "kinds": _words(kind),
        "metrics": _words(metric),
        "nodes": node_ids(node or (), known),
        "prefix": prefix,
    }
    if parts is not None or flow_id is not None:
        number = None if flow_id is None else flow_number(flow_id)
        chosen["flow"] = (
            Flow(flow_id=number)
            if parts is None
            else Flow(parts.src, parts.dst, parts.sport, parts.dport, parts.proto, number)
        )
    return chosen


def _words(given: list[str] | None) -> list[str]:
    return [word for text in given or () for word in text.lower().replace(",", " ").split()]


def flow_number(text: str) -> int:
    """A flow's id. Raises HopscopeError."""
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    if not 0 <= number < 2**64:
        raise HopscopeError(f"--flow-id {text}: expected up to 16 hexadecimal digits")
    return number


def age_ns(flag: str, text: str) -> int:
    """ns of a span of time, as 10m. Raises HopscopeError."""
    from ...present.text import UnreadableError, parse_when

    try:
        far = 1 << 62
        return far - parse_when(f"-{text.strip().removeprefix('-')}", far)
    except UnreadableError:
        raise HopscopeError(f"{flag} {text}: expected a number and ms, s, m, h or d, as in 10m") from None


def moment(flag: str, text: str | None, now_ns: int) -> int | None:
    """A time, ns since the epoch. Raises HopscopeError."""
    from ...present.text import UnreadableError, parse_when

    try:
        return None if text is None else parse_when(text, now_ns)
    except UnreadableError as error:
        raise HopscopeError(f"{flag} {text}: {error}") from None
