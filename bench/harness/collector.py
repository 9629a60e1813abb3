"""A collector for benchmarks: the real processes, started and stopped around a block."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hopscope.base.log import configure
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.settings.serve import ServeSettings
from hopscope.settings.source import parse


@contextmanager
def running(
    *,
    serve: bool = False,
    workers: int = 1,
    listen: ListenSettings | None = None,
    flow_rows: int = 32_768,
    push_seconds: float = 10.0,
    ports: int = 65_536,
    processors: tuple[int, ...] = (),
) -> Iterator[tuple[Supervisor, int]]:
    """The supervisor and the port that its workers listen on; its data is gone afterwards."""
    configure()  # to stderr: a table that is full says so
    with tempfile.TemporaryDirectory() as folder:
        collector = Supervisor(
            Settings(
                data=Path(folder) / "data",
                listen=(listen or ListenSettings(port=0, workers=workers),),
                detect=DetectSettings(flow_rows=flow_rows, push_seconds=push_seconds, ports=ports),
                serve=ServeSettings(enabled=serve, port=0),
                processors=processors,
            )
        )
        collector.start()

        def turn() -> None:
            while not collector.stopping.is_set():
                collector.turn()

        thread = threading.Thread(target=turn)
        thread.start()
        try:
            yield collector, parse(collector.listening[0]).port
        finally:
            collector.stopping.set()
            thread.join()
            collector.stop()


def settle(collector: Supervisor) -> dict[str, int]:
    """Counters of the workers once they no longer move."""
    before = collector.counters()
    while True:
        time.sleep(0.3)
        after = collector.counters()
        if after["frames_total"] == before["frames_total"]:
            return after
        before = after


def worker_pid(collector: Supervisor) -> int:
    """Process id of the first worker."""
    return next(int(managed.status()["pid"]) for managed in collector.processes if managed.name == "worker-0")


def memory_bytes(pid: int) -> int:
    """Resident memory of a process, without files and the tables that it shares with others (RssAnon)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


def cpu_ns(pid: int) -> int:
    """Processor time of all threads of a process, ns (/proc/PID/task/TID/schedstat)."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )
