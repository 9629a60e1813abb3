"""The roles of a supervisor's children, and the entry point of every child process."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from ..base.errors import HopscopeError
from .child import Child

NICE = {"serve": 5, "archive": 10, "export": 5}
"""Niceness by role: what a viewer or the archive does yields to capture."""


def _worker(child: Child) -> None:
    from .worker import run

    run(child)


def _archive(child: Child) -> None:
    from ..history.archive import run

    child.begun = True
    child.report(ready=True)
    settings = child.settings
    run(
        child.data,
        settings.history,
        child.stop.is_set,
        child.notify,
        child.regions if settings.counts_distributions else None,
        settings.distributions.period_seconds,
    )


def _labels(child: Child) -> None:
    from .labels import run

    run(child)


def _serve(child: Child) -> None:
    from ..serve.server import run

    listeners = child.sockets()
    child.begun = True
    if listeners:
        child.report(ready=True)
        run(child.settings, child.data, child.stop, listeners[0])


def _export(child: Child) -> None:
    from ..export.run import run

    child.begun = True
    child.report(ready=True)
    run(child.settings, child.data, child.stop)


ROLES: dict[str, Callable[[Child], None]] = {
    "worker": _worker,
    "archive": _archive,
    "serve": _serve,
    "export": _export,
    "labels": _labels,
}


def main() -> None:
    """Entry point of a child: `python -m hopscope.runtime.roles ROLE DESCRIPTOR`."""
    from ..base import log

    role, descriptor = sys.argv[1:]
    child = Child(role, socket.socket(fileno=int(descriptor)))
    child.watch()
    log.configure()
    os.nice(NICE.get(role, 0))
    try:
        ROLES[role](child)
    except HopscopeError as error:
        child.report(error=str(error))
        sys.exit(error.status)
    except OSError as error:
        child.report(error=f"{error.filename or role}: {error.strerror or error}")
        sys.exit(2)
    except Exception as error:
        if os.environ.get("HOPSCOPE_DEBUG"):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        child.report(error=f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        sys.exit(1)


if __name__ == "__main__":
    main()
