"""Main of the process that reaches switches."""

from __future__ import annotations

from .child import Child


def run(child: Child) -> None:
    """Apply requested changes to the switches until `child.stop` is set."""
    from ...control.counters import CONTROL_COUNTERS
    from ...control.fleet import Fleet

    fleet = Fleet(
        child.settings,
        child.regions,
        CONTROL_COUNTERS.open(child.regions),
        notify=child.notify,
        warn=child.warn,
    )
    child.started = True
    child.report(ready=True)
    fleet.run(child.stop)
