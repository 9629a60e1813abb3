"""`hopscope query bursts`: when places were above their limits, and due to whose traffic."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from ...base.errors import HopscopeError
from ...base.names import MAX_PORT
from ...present.events import label
from ...present.select import PLACE_METRICS
from ...present.text import LATEST_NS, UnreadableError, parse_span
from ...present.units import amount, duration, flow_text
from ..options.declare import option
from ..options.filters import node_ids
from ..output.printer import Format
from .options import Answer, HistoryOptions, Window, left_out

if TYPE_CHECKING:
    from ...base.names import Names
    from ...present.series.bursts import Search

_COLUMNS = ("start", "duration_ns", "metric", "node", "port", "queue", "peak", "limit", "flows", "worst_flow")
LIMITED = Answer(limit=50)


@dataclass(frozen=True)
class BurstOptions(Window):
    """Which bursts are printed."""

    metric: str | None = option("--metric -m METRIC", f"Only {', '.join(PLACE_METRICS)}.")
    node: str | None = option("--node NODE", "Only at this node (number or name).")
    egress_port: int | None = option("--egress-port PORT", "Only at this egress port.", min=0, max=MAX_PORT)
    above: int | None = option(
        "--above VALUE",
        "Find values above this, in the metric's unit (ns for latencies), without alarms; needs --metric.",
        min=0,
        max=2**63 - 1,
    )
    min_duration: str | None = option(
        "--min-duration SPAN", "Only bursts that lasted at least this, such as 1ms."
    )
    max_duration: str | None = option(
        "--max-duration SPAN", "Only bursts that lasted at most this, such as 10ms."
    )
    sort: str = option(
        "--sort start|peak|duration",
        "Newest, highest or longest first; peaks of different metrics are compared as numbers.",
        "start",
    )

    def search(self, names: Names, limit: int) -> Search:
        """These options as a search. Raises HopscopeError."""
        from ...present.series.bursts import Search

        if self.metric not in (None, *PLACE_METRICS):
            raise HopscopeError(f"--metric {self.metric}: expected {', '.join(PLACE_METRICS)}")
        if self.above is not None and self.metric is None:
            raise HopscopeError("--above: found without --metric, whose values it is compared with")
        if self.sort not in ("start", "peak", "duration"):
            raise HopscopeError(f"--sort {self.sort}: expected start, peak or duration")
        start_ns, end_ns = self.ns()
        nodes = node_ids([] if self.node is None else [self.node], names)
        return Search(
            start_ns or 0,
            LATEST_NS if end_ns is None else end_ns,
            self.metric,
            self.above,
            _span("--min-duration", self.min_duration) or 0,
            _span("--max-duration", self.max_duration),
            nodes[0] if nodes else None,
            self.egress_port,
            cast(Literal["start", "peak", "duration"], self.sort),
            limit,
        )


def bursts(chosen: BurstOptions, source: HistoryOptions, answer: Answer = LIMITED) -> None:
    """Print bursts, newest first: when a port, queue or buffer was above its limit, and due to which flows.

    A burst lasts from the event that raised an alarm to the one that cleared it; with --above, from the first
    stored value above it to the next one that is not. --max-duration leaves out bursts that have not ended.
    """
    from ...present.series.bursts import bursts as find
    from ...present.series.objects import burst_object

    with source.history(chosen) as (history, names):
        total, found, truncated = find(history, chosen.search(names, answer.limit))
        texts = partial(_cells, chosen) if answer.form is Format.TABLE else _texts
        if not answer.put(_COLUMNS, (burst_object(names, each) for each in found), texts):
            print("hopscope: no bursts match", file=sys.stderr)
        left_out(history)
        if total > len(found):
            print(f"hopscope: {len(found)} of {total:,} bursts: see --limit", file=sys.stderr)
        if truncated:
            print(
                "hopscope: more events than are read: older bursts or flows may be missing; choose a shorter "
                "time (--since, --until), --metric or --node",
                file=sys.stderr,
            )


def _span(flag: str, text: str | None) -> int | None:
    try:
        return None if text is None else parse_span(text)
    except UnreadableError as error:
        raise HopscopeError(f"{flag}: {error}") from None


def _texts(burst: dict[str, Any]) -> dict[str, Any]:
    """A burst with one text per column."""
    worst = burst["contributors"][:1]
    return burst | {
        "node": label(burst["node"]),
        "port": label(burst["port"]),
        "worst_flow": flow_text(worst[0]["flow"]) if worst else None,
    }


def _cells(chosen: Window, burst: dict[str, Any]) -> dict[str, Any]:
    """The same for a table: values with units, and what a missing time means."""
    cells, unit = _texts(burst), burst["unit"]
    about = "≈ " if burst["clock"] == "collector" else ""
    lasted = burst["duration_ns"]
    return cells | {
        "start": burst["start"] or ("before" if chosen.since is None else "before --since"),
        "duration_ns": "not ended" if burst["end"] is None else lasted and f"{about}{duration(int(lasted))}",
        **{name: None if cells[name] is None else amount(cells[name], unit) for name in ("peak", "limit")},
    }
