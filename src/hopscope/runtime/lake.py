"""Main of the process that writes events of history into the lake."""

from __future__ import annotations

from .child import Child


def run(child: Child) -> None:
    """Write until `child.stop` is set."""
    child.started = True
    child.report(ready=True)
    while not child.stop.wait(0.2):
        pass
