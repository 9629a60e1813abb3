"""Options of `hopscope query` and what they mean, shared by its commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from ...base.errors import HopscopeError
from ...present.select import KINDS, METRICS, EventFilter, labelled
from ...present.text import UnreadableError, parse_when
from ..filters import FilterError, FlowOption, NodeOption, PrefixOption, flow_filter, node_ids
from ..grouped import option
from ..options import ConfigOption, DataOption, NamesOption, load
from ..output import Format, FormatOption, Printer

if TYPE_CHECKING:
    from ...base.names import Names
    from ...history.query import History, Table

Row = dict[str, Any]
FlowIdOption = Annotated[
    str | None, option("--flow-id", metavar="ID", help="Only the flow with this id (hexadecimal).")
]


@dataclass(frozen=True)
class Window:
    """A span of time."""

    since: Annotated[
        str | None, option("--since", metavar="TIME", help="From then on: 10m ago, or ISO 8601.")
    ] = None
    until: Annotated[
        str | None, option("--until", metavar="TIME", help="Up to then: 10m ago, or ISO 8601.")
    ] = None

    def ns(self) -> tuple[int | None, int | None]:
        """Its start and end, ns since the epoch; None: open. Raises HopscopeError."""
        now = time.time_ns()
        return moment("--since", self.since, now), moment("--until", self.until, now)


@dataclass(frozen=True)
class HopOptions(Window):
    """Filters of what has a node and a flow."""

    node: NodeOption = None
    flow: FlowOption = None
    flow_id: FlowIdOption = None
    prefix: PrefixOption = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """The filter that they are. Raises HopscopeError."""
        start_ns, end_ns = self.ns()
        try:
            kinds, metrics = labelled("kind", kind, KINDS), labelled("metric", metric, METRICS)
        except UnreadableError as error:
            raise FilterError(f"--{error}") from None
        nodes, number = tuple(node_ids(self.node or (), names)), self.flow_id and flow_number(self.flow_id)
        return EventFilter(
            start_ns, end_ns, kinds, metrics, nodes, number or None, flow_filter(self.flow, self.prefix)
        )


@dataclass(frozen=True)
class PathOptions(HopOptions):
    """Filters of what is of a kind, too."""

    kind: Annotated[
        list[str] | None, option("--kind", "-k", metavar="KIND", help="Only this kind. Repeatable.")
    ] = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """With the kinds."""
        return super().chosen(names, self.kind or kind, metric)


@dataclass(frozen=True)
class EventOptions(PathOptions):
    """Filters of events."""

    metric: Annotated[
        list[str] | None, option("--metric", "-m", metavar="METRIC", help="Only this metric. Repeatable.")
    ] = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """With the metrics."""
        return super().chosen(names, kind, self.metric or metric)


@dataclass(frozen=True)
class Answer:
    """Where the answer comes from, and how it is printed."""

    limit: Annotated[
        int, option("--limit", "-n", metavar="N", min=1, help="At most N rows.", show_default=True)
    ] = 100
    form: FormatOption = Format.TABLE
    data: DataOption = None
    names: NamesOption = None
    config: ConfigOption = None

    @contextmanager
    def history(self) -> Iterator[tuple[History, Names]]:
        """The history of the data folder, and the names of its nodes. Raises HopscopeError."""
        from ...base.names import Names
        from ...history.query import History

        flags = [("--data", "data", self.data), ("--names", "names", self.names)]
        settings = load(self.config, None, flags).settings
        with History(settings.data) as history:
            yield history, Names.load(settings.names)

    def put(
        self, columns: Sequence[str], rows: Iterable[Row], texts: Callable[[Row], Row] | None = None
    ) -> int:
        """Print rows, how many: JSON has the API's objects, table and CSV one text per column (`texts`)."""
        printer = Printer(self.form, columns)
        count = printer.put(rows if texts is None or self.form is Format.JSON else map(texts, rows))
        printer.flush()
        return count

    def print(
        self, columns: Sequence[str], rows: Iterable[Row], texts: Callable[[Row], Row] | None,
        history: History, table: Table, empty: str,
    ) -> None:  # fmt: skip
        """Print the rows of a table of history; stderr says what is left out, or that there are none."""
        if not self.put(columns, rows, texts):
            print(f"hopscope: {empty}", file=sys.stderr)
        left_out(history)
        if table.truncated and table.after is None:
            print(f"hopscope: more than {len(table)} rows: see --limit", file=sys.stderr)


def left_out(history: History) -> None:
    """Say which segments were damaged."""
    for line in history.problems:
        print(f"hopscope: left out: {line}", file=sys.stderr)


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
    try:
        far = 1 << 62
        return far - parse_when(f"-{text.strip().removeprefix('-')}", far)
    except UnreadableError:
        raise HopscopeError(f"{flag} {text}: expected a number and ms, s, m, h or d, as in 10m") from None


def moment(flag: str, text: str | None, now_ns: int) -> int | None:
    """A time, ns since the epoch. Raises HopscopeError."""
    try:
        return None if text is None else parse_when(text, now_ns)
    except UnreadableError as error:
        raise HopscopeError(f"{flag} {text}: {error}") from None
