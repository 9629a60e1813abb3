"""Runs a supervisor until a signal, on a terminal or under systemd."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable

from ...base import log
from ...base.errors import HopscopeError
from ...base.process.service import Service
from ...base.process.stop import at_signals
from ...capture.sockets import require_linux
from ...present.units import size
from ...settings.collector import Settings
from ..pipeline.mode import mode_of
from ..pipeline.summary import summary_lines
from ..processes import fork_server
from .process import Supervisor


def run(
    settings: Settings,
    load: Callable[[], Settings],
    ready: Callable[[], object] = lambda: None,
    *,
    take_over: bool = False,
) -> int:
    """Collect until SIGINT or SIGTERM; returns the exit status. Events are logged, the summary is printed.

    `load` reads the settings again, at SIGHUP; `ready` is called once all processes work; `take_over`: take
    over from the sink that runs on this data folder. The collector ends with its terminal.
    """
    require_linux()
    log.configure(level=settings.log.level, form=settings.log.format)
    service, due = Service(), threading.Event()
    supervisor = Supervisor(settings, take_over=take_over, service=service)
    on_terminal = sys.stderr.isatty()

    def hang_up() -> None:
        (supervisor.stopping if on_terminal and not sys.stderr.isatty() else due).set()

    at_signals(supervisor.stopping.set, signal.SIGINT, signal.SIGTERM)
    at_signals(hang_up, signal.SIGHUP)
    logger = log.logger("supervisor")
    supervisor.start()
    try:
        if not supervisor.stopping.is_set():
            logger.info(
                "collecting",
                listen=supervisor.listening,
                **({"labels": supervisor.labels} if supervisor.labels else {}),
                memory=size(mode_of(settings).state_bytes()),
                data=str(supervisor.folder.path),
                page=supervisor.bound,
            )
            service.ready()
            ready()
        while not supervisor.stopping.is_set():
            supervisor.turn()
            service.alive()
            fork_server.reap_orphans({m.process.pid for m in supervisor.processes if m.process is not None})
            if due.is_set():
                due.clear()
                service.reloading()
                try:
                    supervisor.reload(load(), "SIGHUP")
                except (HopscopeError, ValueError) as error:
                    logger.error("settings not read again", reason=" ".join(str(error).split()))
                service.ready()
    finally:
        service.stopping()
        logger.info("stopping")
        supervisor.stop()
    print("\n".join(summary_lines(supervisor.last_counters)), file=sys.stderr)
    return 0
