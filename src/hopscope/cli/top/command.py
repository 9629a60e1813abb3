"""`hopscope top`: a live view in the terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from ...base.errors import HopscopeError
from ..options.declare import option
from ..options.filters import FlowFilters, KindOption
from ..options.settings import CollectorOptions


@dataclass(frozen=True)
class EventFilters(FlowFilters):
    """Filters of events."""

    kind: KindOption = None


def top(
    filters: EventFilters,
    settings: CollectorOptions,
    interval: float = option("--interval -i S", "Seconds between two frames.", 1.0, min=0.1),
    rows: int | None = option("--rows N", "Rows of each table.", min=1),
    all_events: bool = option("--all -a", "Also show routine events.", False),
    once: bool = option("--once", "Print one frame and end; needs no terminal.", False),
) -> None:
    """Watch a collector of reports, labels or both in the terminal.

    Keys: q quits, p pauses, s changes the order of flows, a shows routine events too, / filters by kind,
    node, address or part of a flow. It reads the shared memory of the collector, and cannot slow it down.
    In a pipe, and with TERM=dumb, it prints one frame, as with --once.

    Exit status 2: no collector is running for --once.
    """
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from ...base.names import Names
    from ...present.select import KINDS, EventFilter, labelled
    from ...present.text import UnreadableError
    from .keys import Keys
    from .screen import Screen
    from .view import TopView

    loaded = settings.load()
    known = Names.load(loaded.names, loaded.data)
    try:
        kinds = labelled("kind", filters.kind or (), KINDS)
    except UnreadableError as error:
        raise HopscopeError(f"--{error}") from None
    nodes = tuple(filters.node_ids(known))
    chosen = EventFilter(kinds=kinds, nodes=nodes, flow=filters.flow_filter())
    screen = Screen(chosen, known, all_events=all_events)
    view = TopView(loaded.data, known, screen)
    console = Console()
    if once or not sys.stdout.isatty() or console.is_dumb_terminal:
        if not view.running:
            from ...base.process.control_client import not_running

            raise HopscopeError(not_running(loaded.data))
        view.draw(rows=0)
        time.sleep(min(interval, 1.0))  # rates need two readings
        console.print(view.draw(rows=rows or 10))
        return
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not screen.ended:
            if not screen.paused or screen.typed is not None:
                frame = view.draw(rows=rows, height=console.height - 1)
            line = Text(screen.line(), style="reverse", no_wrap=True, overflow="ellipsis")
            live.update(Group(frame, line), refresh=True)
            screen.press(keys.wait(interval))
