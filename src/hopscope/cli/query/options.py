"""Options that the commands of `hopscope query` share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ...base.errors import HopscopeError
from ...detect.records import Kind
from ...present.events import ALARMING
from ...present.select import KINDS, METRICS, EventFilter, labelled
from ...present.text import UnreadableError, parse_when
from ..options.declare import Options, option
from ..options.filters import EgressPortOption, FilterError, FlowFilters, KindOption, NodeOption, node_ids
from ..options.settings import CollectorOptions
from ..output.printer import GREEN, RED, Format, FormatOption, print_rows

if TYPE_CHECKING:
    from pathlib import Path

    from ...base.names import Names
    from ...cluster.queries.cluster_answer import ClusterHistory
    from ...history.history_like import HistoryLike
    from ...history.reading.table import Table
    from ...settings.collector import Settings

Row = dict[str, Any]
MAX_ROWS = 2**31 - 1
"""Largest limit of an answer."""
OF_MEMBERS = ("member", "members")
"""Columns that only a cluster's tables have."""
SLOW_SECONDS = 2.0
"""An answer about all of history that takes longer comes with a hint."""
_ALARMING = {kind.label for kind in ALARMING}
FlowIdOption = Annotated[str | None, option("--flow-id ID", "Only the flow with this id (hexadecimal).")]


@dataclass(frozen=True)
class Window(Options):
    """A span of time."""

    title: ClassVar = "Filters"

    since: str | None = option("--since TIME", "From this time on: 10m (ago), or ISO 8601, UTC by default.")
    until: str | None = option("--until TIME", "Before this time: 10m (ago), or ISO 8601, UTC by default.")

    def ns(self) -> tuple[int | None, int | None]:
        """Its start and end, ns since the epoch; None: open. Raises HopscopeError."""
        now = time.time_ns()
        start, end = moment("--since", self.since, now), moment("--until", self.until, now)
        if start is not None and end is not None and start >= end:
            raise HopscopeError(f"--since {self.since}: expected a time before --until {self.until}")
        return start, end


@dataclass(frozen=True)
class PortOptions(Window):
    """Filters of ports."""

    node: NodeOption = None

    def chosen(self, names: Names) -> EventFilter:
        """These options as a filter. Raises HopscopeError."""
        return EventFilter(*self.ns(), nodes=tuple(node_ids(self.node or (), names)))


@dataclass(frozen=True)
class HopOptions(FlowFilters, Window):
    """Filters of hops."""

    flow_id: FlowIdOption = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """These options as a filter. Raises HopscopeError."""
        start_ns, end_ns = self.ns()
        try:
            kinds, metrics = labelled("kind", kind, KINDS), labelled("metric", metric, METRICS)
        except UnreadableError as error:
            raise FilterError(f"--{error}") from None
        number = flow_number(self.flow_id) if self.flow_id else None
        return EventFilter(
            start_ns, end_ns, kinds, metrics, tuple(self.node_ids(names)), number or None, self.flow_filter()
        )


@dataclass(frozen=True)
class PathOptions(HopOptions):
    """Filters of paths."""

    kind: KindOption = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """Also filters by kind. Raises HopscopeError."""
        return super().chosen(names, self.kind or kind, metric)


@dataclass(frozen=True)
class EventOptions(PathOptions):
    """Filters of events."""

    metric: list[str] | None = option("--metric -m METRIC", "Only this metric. Repeatable.")
    egress_port: EgressPortOption = None

    def chosen(self, names: Names, kind: Sequence[str] = (), metric: Sequence[str] = ()) -> EventFilter:
        """Also filters by metric and port. Raises HopscopeError."""
        found = super().chosen(names, kind, self.metric or metric)
        return replace(found, ports=tuple(self.egress_port or ()))


class Scope(StrEnum):
    """The collectors whose history is searched."""

    MEMBER = "member"
    CLUSTER = "cluster"


class IncompleteError(HopscopeError):
    """The printed answer of a cluster is incomplete; the message names the missing members."""

    status = 3


@dataclass(frozen=True)
class HistoryOptions(CollectorOptions):
    """Data folder of the history, or all members of its cluster."""

    scope: Scope = option(
        "--scope", "Of this collector, or of all members of its cluster.", Scope.MEMBER, case_sensitive=False
    )

    @contextmanager
    def history(self, window: Window | None = None) -> Iterator[tuple[HistoryLike, Names]]:
        """The history, and the names of its nodes. At the end, stderr says which events are not yet stored,
        and how to speed up a slow query whose `window` has no --since. Raises HopscopeError; at the end,
        IncompleteError if a cluster's answer is incomplete.
        """
        begin, settings = time.monotonic(), self.load()
        with self._history(settings) as found:
            yield found
            sys.stdout.flush()
            not_stored(settings.data)
            seconds = time.monotonic() - begin
            if window is not None and window.since is None and seconds >= SLOW_SECONDS:
                print(
                    f"hopscope: all of history was searched, for {seconds:.1f} s: "
                    "--since 1h searches the last hour",
                    file=sys.stderr,
                )

    @contextmanager
    def _history(self, settings: Settings) -> Iterator[tuple[HistoryLike, Names]]:
        from ...base.names import Names

        names = Names.load(settings.names, settings.data)
        if self.scope is Scope.MEMBER:
            from ...history.query import History

            with History(settings.data) as history:
                yield history, names
            return
        with _of_cluster(settings) as history_of_all:
            yield history_of_all, names
            answer = history_of_all.answer
        if not answer.complete:
            sys.stdout.flush()
            raise IncompleteError(answer.line)


@contextmanager
def _of_cluster(settings: Settings) -> Iterator[ClusterHistory]:
    """The history of all members."""
    if not settings.cluster.enabled:
        raise HopscopeError("--scope cluster: this collector is in no cluster: set cluster.nats")
    from ...cluster.connection import Connection
    from ...cluster.queries.client import QueryClient
    from ...cluster.queries.history import open_history

    with (
        closing(QueryClient(Connection(settings.cluster, "query"))) as client,
        open_history(settings, settings.data, client) as history,
    ):
        yield history


@dataclass(frozen=True)
class Answer(Options):
    """How an answer is printed."""

    limit: int = option("--limit -n N", "At most N rows.", 100, min=1, max=MAX_ROWS)
    form: FormatOption = Format.TABLE

    def put(
        self, columns: Sequence[str], rows: Iterable[Row], texts: Callable[[Row], Row] | None = None
    ) -> int:
        """Print rows and return their number: JSON as the API's objects, tables and CSV as `texts`."""
        shown = rows if texts is None or self.form is Format.JSON else map(texts, rows)
        return print_rows(self.form, columns, shown, colour)

    def print(
        self, columns: Sequence[str], rows: Iterable[Row], texts: Callable[[Row], Row] | None,
        history: HistoryLike, table: Table, empty: str,
    ) -> None:  # fmt: skip
        """Print the rows of a table of history, or say on stderr that there are none (`empty`); also report
        rows and files that are left out. Rows of a cluster have a column that names the member.
        """
        columns = (*columns, *(each for each in OF_MEMBERS if each in table.columns and each not in columns))
        if not self.put(columns, rows, texts):
            print(f"hopscope: {empty}", file=sys.stderr)
        left_out(history)
        if table.truncated and table.after is None:
            print(f"hopscope: more than {len(table)} rows: see --limit", file=sys.stderr)


def colour(row: Mapping[str, Any]) -> str:
    """Colour of an event's row: red if it is alarming, green if an alarm is cleared."""
    kind = row.get("kind")
    return RED if kind in _ALARMING else GREEN if kind == Kind.CLEARED.label else ""


def left_out(history: HistoryLike) -> None:
    """Report damaged files on stderr."""
    for line in history.problems:
        print(f"hopscope: left out: {line}", file=sys.stderr)


def not_stored(folder: Path) -> None:
    """Report events of this collector that wait in memory because its disk accepts none."""
    from ...present.collector_state import CollectorState

    to_disk = CollectorState(folder).to_disk()
    if to_disk.failing and to_disk.waiting:
        print(
            f"hopscope: {to_disk.waiting:,} events wait in memory and are not in this answer: the disk of "
            f"{folder} takes none; `hopscope doctor` says what to do",
            file=sys.stderr,
        )


def flow_number(text: str) -> int:
    """A flow's id, from hexadecimal digits. Raises HopscopeError."""
    try:
        number = int(text, 16)
    except ValueError:
        number = -1
    if not 0 <= number < 2**64:
        raise HopscopeError(f"--flow-id {text}: expected up to 16 hexadecimal digits")
    return number


def age_ns(flag: str, text: str) -> int:
    """ns of a span of time such as `10m`. Raises HopscopeError."""
    try:
        now = 1 << 62
        return now - parse_when(f"-{text.strip().removeprefix('-')}", now)
    except UnreadableError:
        raise HopscopeError(f"{flag} {text}: expected a number and ms, s, m, h or d, such as 10m") from None


def moment(flag: str, text: str | None, now_ns: int) -> int | None:
    """A time, ns since the epoch. Raises HopscopeError."""
    try:
        return None if text is None else parse_when(text, now_ns)
    except UnreadableError as error:
        raise HopscopeError(f"{flag} {text}: {error}") from None
