"""`hopscope top`: a live view in the terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Annotated

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
    interval: Annotated[
        float, option("--interval", "-i", metavar="S", min=0.1, help="Seconds between two frames.")
    ] = 1.0,
    rows: Annotated[int | None, option("--rows", min=1, metavar="N", help="Rows of each table.")] = None,
    once: Annotated[bool, option("--once", help="Print one frame and end; needs no terminal.")] = False,
) -> None:
    """Watch a collector in the terminal.

    Ctrl-C ends it. It reads the shared memory of the collector that owns the data folder, and cannot
    slow it down. Exit status 2: no collector is running for --once.
    """
    from rich.console import Console
    from rich.live import Live

    from ...base.names import Names
    from ...present.select import KINDS, EventFilter, labelled
    from ...present.text import UnreadableError
    from .view import TopView

    loaded = settings.load()
    known = Names.load(loaded.names)
    try:
        kinds = labelled("kind", filters.kind or (), KINDS)
    except UnreadableError as error:
        raise HopscopeError(f"--{error}") from None
    nodes = tuple(filters.node_ids(known))
    view = TopView(loaded.data, known, EventFilter(kinds=kinds, nodes=nodes, flow=filters.flow_filter()))
    console = Console()
    if once or not sys.stdout.isatty():
        if not view.running:
            raise HopscopeError(f"no collector is running on {loaded.data}")
        view.draw(0)
        time.sleep(min(interval, 1.0))  # rates need two readings
        console.print(view.draw(rows or 10))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            # the header, the counters and four headings take twenty lines
            live.update(view.draw(rows or max(3, (console.height - 20) // 3)), refresh=True)
            time.sleep(interval)
