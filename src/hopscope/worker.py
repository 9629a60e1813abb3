"""A worker: receives frames on its share of the listeners and takes them through the pipeline, until stopped.

Nothing wakes it per packet: it sleeps half a millisecond where there is nothing.  A full disk makes it wait and
try again (counted), while the kernel's socket buffer fills up (counted, too).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from .history.journal import backoff
from .metrics import INDEX
from .pipeline import Pipeline
from .wire.dialect import DIALECTS

if TYPE_CHECKING:
    from .capture.udp import UdpListener
    from .process import Child

NAP_SECONDS = 0.0005
TICK_NS = 100_000_000


def run(child: Child) -> None:
    """Role of a worker: compile, take the sockets over, receive until `child.stop`, drain, close."""
    from .capture.udp import UdpListener
    from .warmup import warm_worker

    settings = child.settings
    warm_worker(settings, child.say)
    pipeline = Pipeline(
        settings,
        shard=child.index,
        data=child.data,
        regions=child.regions,
        retry=backoff(lambda: pipeline.count("journal_retries_total", 1), child.stop.is_set),
    )
    child.say(warm=True)
    shares = [listen for listen in settings.listen if child.index < listen.workers]
    listeners: list[tuple[UdpListener, str]] = []
    for listen, socket in zip(shares, child.sockets(), strict=False):
        listener = UdpListener(listen, worker=child.index, workers=listen.workers, sock=socket)
        listener.open()
        listeners.append((listener, DIALECTS[listen.dialect].name))
    child.say(ready=True)
    loop = _Loop(pipeline, listeners)
    try:
        while not child.stop.is_set():
            if not loop.turn():
                time.sleep(NAP_SECONDS)
        loop.drain()
        pipeline.tick(time.time_ns())
    finally:
        pipeline.close()
        for listener, _ in listeners:
            listener.close()


class _Loop:
    """One pass after the other over the listeners."""

    def __init__(self, pipeline: Pipeline, listeners: list[tuple[UdpListener, str]]) -> None:
        self._pipeline = pipeline
        self._listeners = listeners
        self._counted: list[dict[str, int]] = [{} for _ in listeners]
        self._due = time.time_ns() + TICK_NS

    def turn(self) -> int:
        """Receive once from every listener; returns the frames that there were."""
        frames = 0
        for number, (listener, dialect) in enumerate(self._listeners):
            begin = time.perf_counter_ns()
            batch = listener.receive()
            if batch is None:
                continue
            spent = time.perf_counter_ns() - begin
            if len(batch):
                self._pipeline.step(batch, dialect)
                frames += len(batch)
            self._pipeline.count("busy_capture_ns_total", spent)
            self._pipeline.count("busy_ns_total", spent)
            self._count(number, listener)
        now = time.time_ns()
        if now >= self._due:
            self._pipeline.tick(now)
            for number, (listener, _) in enumerate(self._listeners):
                self._count(number, listener)
            self._due = now + TICK_NS
        return frames

    def drain(self) -> None:
        """Take what is in the sockets, and no more than fits a second."""
        until = time.monotonic() + 1.0
        while self.turn() and time.monotonic() < until:
            pass

    def _count(self, number: int, listener: UdpListener) -> None:
        """Add what a listener counted since the last time; its own counters begin with its socket."""
        counted = listener.counts()
        before = self._counted[number]
        for key, total in counted.items():
            if more := total - before.get(key, 0):
                self._pipeline.counters[INDEX[key]] += np.uint64(more)
        self._counted[number] = dict(counted)
