"""Main of the process that is a member of a cluster."""

from __future__ import annotations

from .child import Child


def run(child: Child) -> None:
    """Take part in the cluster until `child.stop` is set."""
    child.started = True
    child.report(ready=True)
    while not child.stop.wait(0.2):
        pass
