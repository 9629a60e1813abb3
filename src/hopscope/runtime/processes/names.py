"""Main of the process that asks devices for names and counters."""

from __future__ import annotations

from .child import Child


def run(child: Child) -> None:
    """Ask until `child.stop` is set, and tell the supervisor when names have changed."""
    from ...naming.counters import NAMES_COUNTERS
    from ...naming.poller import Poller

    poller = Poller(
        child.settings.names_from,
        child.data,
        child.regions,
        NAMES_COUNTERS.open(child.regions),
        changed=lambda: child.report(names=True),
        notify=child.notify,
        warn=child.warn,
    )
    child.started = True
    child.report(ready=True)
    poller.run(child.stop)
