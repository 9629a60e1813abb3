"""The roles of a supervisor's children."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...base import log
from ...base.errors import HopscopeError
from ..pipeline.mode import mode_of
from .child import Child
from .processors import pin


def _worker(child: Child) -> None:
    from .worker import run

    run(child)


def _standby(child: Child) -> None:
    from .worker import run

    run(child, standby=True)


def _detector(child: Child) -> None:
    from .detector import run

    run(child)


def _labels(child: Child) -> None:
    from ..labels.process import run

    run(child)


def _archive(child: Child) -> None:
    from ...history.counters import HISTORY_COUNTERS
    from ...history.writing.archive import run
    from ...lake.status import read_marks

    child.begin()
    settings = child.settings
    regions = child.regions if mode_of(settings).counts_distributions else None
    period_seconds = settings.distributions.period_seconds
    marks = partial(read_marks, child.data, settings.lake) if settings.lake.enabled else None
    counters = HISTORY_COUNTERS.open(child.regions)
    run(child.data, settings.history, child.stop.is_set, child.warn, regions, period_seconds, marks, counters)


def _names(child: Child) -> None:
    """Ask devices for names and counters; the supervisor learns when names have changed."""
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
    child.begin()
    poller.run(child.stop)


def _control(child: Child) -> None:
    """Apply requested changes to the switches."""
    from ...control.counters import CONTROL_COUNTERS
    from ...control.fleet import Fleet

    fleet = Fleet(
        child.settings,
        child.regions,
        CONTROL_COUNTERS.open(child.regions),
        notify=child.notify,
        warn=child.warn,
    )
    child.begin()
    fleet.run(child.stop)


def _cluster(child: Child) -> None:
    from .cluster import run

    run(child)


def _lake(child: Child) -> None:
    """Write history into the lake, at the end the remaining events for a few seconds."""
    from ...lake.extensions import check_lake
    from ...lake.process import LakeProcess
    from ...lake.status import FILE_NAME
    from ...memory.private_file import incarnation

    settings = child.settings
    if not settings.lake.enabled:
        child.rest(FILE_NAME)
        return
    check_lake()
    process = LakeProcess(settings.lake, child.data, settings.member_name, incarnation(child.data))
    child.begin()
    process.run(child.stop)


def _serve(child: Child) -> None:
    from ...serve.server import run

    if listeners := child.sockets():
        child.begin()
        run(child.settings, child.data, child.stop, listeners[0])


def _export(child: Child) -> None:
    from ...export.run import run
    from ...serve.prometheus import MORE_FILES

    child.begin()
    run(child.settings, child.data, child.stop, MORE_FILES)


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of child."""

    run: Callable[[Child], None]
    """Runs until `child.stop` is set; imports its modules inside."""
    niceness: int = 0
    """Positive for viewers and the archive, which yield to capture."""
    waits: bool = True
    """False: it exits without joining its threads, which may hang on servers and write nothing."""


ROLES = {
    "worker": Role(_worker),
    "standby": Role(_standby),
    "detector": Role(_detector),
    "labels": Role(_labels),
    "archive": Role(_archive, niceness=10),
    "names": Role(_names, niceness=10),
    "control": Role(_control),
    "cluster": Role(_cluster, niceness=5, waits=False),
    "lake": Role(_lake, niceness=10),
    "serve": Role(_serve, niceness=5, waits=False),
    "export": Role(_export, niceness=5),
}


def run(role: str, channel: socket.socket) -> int:
    """Run a role in this process until it ends; returns the exit status."""
    child = Child(role, channel)
    child.watch()
    log.configure(level=child.settings.log.level, form=child.settings.log.format)
    os.nice(ROLES[role].niceness)
    if role != "standby":  # a standby may become any worker
        pin(child.settings, role, child.index)
    try:
        ROLES[role].run(child)
    except HopscopeError as error:
        child.report(error=str(error))
        return error.status
    except OSError as error:
        child.report(error=f"{error.filename or role}: {error.strerror or error}")
        return 2
    except Exception as error:
        if os.environ.get("HOPSCOPE_DEBUG"):
            raise
        child.report(error=log.with_place(error))
        return 1
    return 0
