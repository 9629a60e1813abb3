"""`hopscope top`: a live view in the terminal."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from ..base.errors import HopscopeError
from .filters import FlowOption, NodeOption, PrefixOption, flow_filter, node_ids
from .options import ConfigOption, DataOption, NamesOption, load


def top(
    data: DataOption = None,
    flow: FlowOption = None,
    prefix: PrefixOption = None,
    node: NodeOption = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", "-k", metavar="KIND", help="Only events of this kind. Repeatable.", show_default=False
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="S", min=0.1, help="Seconds between two frames.")
    ] = 1.0,
    rows: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Rows of each table.", show_default=False)
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end; needs no terminal.")] = False,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Watch a collector in the terminal.

    Ctrl-C ends it. It reads the shared memory of the collector that owns the data folder, and cannot
    slow it down. Exit status 2: there is none for --once.
    """
    from rich.console import Console
    from rich.live import Live

    from ..base.names import Names
    from ..present.select import KINDS, EventFilter, labelled
    from ..present.text import UnreadableError
    from .top_view import TopView

    settings = load(config, None, [("--data", "data", data), ("--names", "names", names)]).settings
    known = Names.load(settings.names)
    try:
        kinds = labelled("kind", kind or (), KINDS)
    except UnreadableError as error:
        raise HopscopeError(f"--{error}") from None
    nodes = tuple(node_ids(node or (), known))
    wanted = EventFilter(kinds=kinds, nodes=nodes, flow=flow_filter(flow, prefix))
    view = TopView(settings.data, known, wanted)
    console = Console()
    if once or not sys.stdout.isatty():
        if not view.running:
            raise HopscopeError(f"no collector runs on {settings.data}")
        view.draw(0)
        time.sleep(min(interval, 1.0))  # rates need two readings
        console.print(view.draw(rows or 10))
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            # a head, the counters and four headings take twenty lines
            live.update(view.draw(rows or max(3, (console.height - 20) // 3)), refresh=True)
            time.sleep(interval)
