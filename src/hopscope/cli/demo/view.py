"""Output of the demo while it runs, a live view on a terminal or plain lines elsewhere, and its summary."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...detect.counters import stored_values
from ...detect.records import Kind, Metric
from ...fabric.edge import NAMES
from ...fabric.topology import Topology
from ...runtime.pipeline.summary import LOST, family
from ...wire.records import Records
from .edge import node_ids
from .judge import Verdict

PLAIN_SECONDS = 5.0
"""Time between two plain lines of numbers."""


@dataclass(slots=True)
class State:
    """What the view shows."""

    topology: Topology
    url: str = ""
    seconds: float = 0.0
    """Seconds since the first report."""
    sent: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    rate: float = 0.0
    """Reports received per second."""
    verdicts: list[Verdict] = field(default_factory=list)
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=8))
    """Lines about the latest events."""

    def note(self, events: Records) -> None:
        """Keep lines about notable events."""
        notable = (Kind.RAISED, Kind.CLEARED, Kind.PATH_CHANGE, Kind.DROP, Kind.LOOP, Kind.SILENT, Kind.GAP)
        wanted = events[[int(kind) in notable for kind in events["kind"]]] if len(events) else events
        for event in wanted[-8:]:
            self.latest.append(self._line(event))

    def _line(self, event: Any) -> str:
        kind, metric = Kind(int(event["kind"])), Metric(int(event["metric"]))
        what = kind.label if metric is Metric.NONE else f"{kind.label} {metric.label}"
        if kind is Kind.PATH_CHANGE:
            nodes = event["path"][: int(event["hop_count"])]
            return f"{what}: " + " → ".join(self.topology.switch_name(int(n)) for n in nodes)
        node = int(event["node_id"])
        edge = dict(zip(node_ids(self.topology), NAMES, strict=True))
        if not 1 <= node <= len(self.topology.switches) and node not in edge:
            return what
        name = edge.get(node) or self.topology.switch_name(node)
        return f"{what} at {name} port {int(event['port'])}: {int(event['value']):,}"


class View(Protocol):
    """How the demo is shown."""

    def wait(self, text: str) -> None:
        """Show that a step takes a while."""

    def show(self, state: State) -> None:
        """Show the state, several times per second."""

    def say(self, text: str) -> None:
        """Print one line."""

    def close(self) -> None:
        """End the view."""


class PlainView:
    """Lines on stderr."""

    def __init__(self) -> None:
        self._waited = ""
        self._due = PLAIN_SECONDS

    def wait(self, text: str) -> None:
        """Print the text, unless it is still the same."""
        if text != self._waited:
            self._waited = text
            self.say(text)

    def show(self, state: State) -> None:
        """Print the numbers from time to time."""
        if state.seconds >= self._due:
            self._due += PLAIN_SECONDS
            self.say(f"{state.seconds:6.1f} s  " + "  ".join(f"{k} {v}" for k, v in numbers(state)))

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to do."""


class LiveView:
    """A live view by Rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, refresh_per_second=8, transient=True)
        self._live.start()

    def wait(self, text: str) -> None:
        """A spinner with the text."""
        from rich.spinner import Spinner

        if not isinstance(self._live.renderable, Spinner) or self._live.renderable.text != text:
            self._live.update(Spinner("dots", text))

    def show(self, state: State) -> None:
        """Numbers, faults and the latest events."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        top = Table.grid(padding=(0, 3))
        for _ in numbers(state):
            top.add_column(justify="right")
        top.add_row(*(Text(value, style="bold") for _, value in numbers(state)))
        top.add_row(*(Text(name, style="dim") for name, _ in numbers(state)))
        faults = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("fault", "where", "found", "where it was found"):
            faults.add_column(name)
        for verdict in state.verdicts[-6:]:
            faults.add_row(*cells(verdict, state.topology), style="green" if verdict.found else "yellow")
        events = Text("\n".join(state.latest), overflow="ellipsis", no_wrap=True)
        title = f"{state.topology.name} · {state.seconds:.0f} s · {state.url}"
        self._live.update(
            Group(
                Panel(top, title=title),
                Panel(faults, title="faults"),
                Panel(events, title="events", height=10),
            )
        )

    def say(self, text: str) -> None:
        """Print a line above the view."""
        self._console.print(text, highlight=False)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._live.stop()


def numbers(state: State) -> list[tuple[str, str]]:
    """Names and values of the view's first row."""
    counters = state.counters
    return [
        ("sent", f"{state.sent:,}"),
        ("received", f"{counters.get('reports_total', 0):,}"),
        ("per second", f"{state.rate:,.0f}"),
        ("lost", f"{lost(counters):,}"),
        ("damaged", f"{damaged(counters):,}"),
        ("events", f"{sum(family(counters, 'events_total').values()):,}"),
        ("values per stored event", f"{reduction(counters)[2]:,.0f}"),
    ]


def lost(counters: Mapping[str, int]) -> int:
    """Missing reports, by all counters of loss."""
    return sum(counters.get(key, 0) for key in LOST)


def damaged(counters: Mapping[str, int]) -> int:
    """Reports that were rejected."""
    return sum(family(counters, "rejected_reports_total").values())


def reduction(counters: Mapping[str, int]) -> tuple[int, int, float]:
    """(values in the reports, stored values, values per stored one)."""
    values, stored = counters.get("values_total", 0), stored_values(counters)
    return values, stored, values / stored if stored else 0.0


def cells(verdict: Verdict, topology: Topology) -> tuple[str, str, str, str]:
    """A row about a fault: its kind and port, the time until it was found, and the port found."""
    fault = verdict.fault
    where = f"{fault.node_name} port {fault.number} ({fault.port_name})"
    if verdict.place is None or verdict.after_seconds is None:
        return str(fault.kind), where, "not yet", ""
    node, port = verdict.place
    share = verdict.votes[verdict.place] / verdict.events
    name = topology.switch_name(node) if 1 <= node <= len(topology.switches) else str(node)
    found = f"{name} port {port}, {share:.0%} of {verdict.events:,} events"
    return str(fault.kind), where, f"after {verdict.after_seconds * 1000:,.0f} ms", found


def _beside(counters: Mapping[str, int]) -> Iterator[str]:
    """A line about the sFlow samples and IPFIX records, if any."""
    samples, records = counters["sflow_samples_total.flow"], counters["ipfix_records_total.flow"]
    if samples or records:
        yield (
            f"of these   {samples:,} samples of sFlow from {NAMES[0]} and {NAMES[1]}, "
            f"{records:,} flow records of IPFIX from {NAMES[2]}"
        )


def summary(state: State, end: Mapping[str, Any], missing: int, took: float) -> list[str]:
    """The final summary; `end`: the fabric's summary; `missing`: number of reports sent but not received;
    `took`: duration of the simulation in real seconds.
    """
    counters = state.counters
    values, stored, ratio = reduction(counters)
    events = family(counters, "events_total")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in events.items())
    lines = [
        f"sent       {end['reports']:,} reports about {end['emitted']:,} packets through "
        f"{len(state.topology.switches)} switches in {end['seconds']:.1f} s"
        + (f", simulated in {took:.1f} s" if took > 1.1 * end["seconds"] else ""),
        f"received   {counters['reports_total']:,} reports with {counters['hops_total']:,} hops",
        *_beside(counters),
        f"lost       {max(missing, lost(counters)):,}",
        f"damaged    {damaged(counters):,}",
        f"events     {sum(events.values()):,}: {kinds}" if kinds else "events     0",
        f"stored     {stored:,} of {values:,} values: 1 in {ratio:,.0f}",
        "faults",
    ]
    for verdict in state.verdicts:
        kind, where, found, place = cells(verdict, state.topology)
        if verdict.found:
            result = f"found {found} at {place}"
        else:
            result = f"MISSED; most events at {place}" if place else "MISSED"
        lines.append(f"  {kind:<12} at {where}: {result}")
    return lines
