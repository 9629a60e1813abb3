"""A worker: receives frames on its share of the listeners and takes them through the pipeline, until stopped.

Nothing wakes it per packet: it sleeps for a millisecond where there is little.  A full disk makes it wait
and try again (counted), while the kernel's socket buffer fills up (counted, too).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from .history.journal import backoff
from .metrics import INDEX
from .pipeline import Pipeline
from .wire.dialect import DIALECTS, Dialect

if TYPE_CHECKING:
    from .capture.udp import UdpListener
    from .process import Child

ROOMY_BYTES = 4 * 1024 * 1024
"""A receive buffer that holds what comes in a longer nap."""
NAP = (0.0005, 1)
"""Seconds to sleep after a turn with fewer frames than this."""
LONG_NAP = (0.001, 256)
"""The same with roomy buffers: larger batches cost a fifth less (752, not 961 ns a report at 850,000/s)."""
TICK_NS = 100_000_000


def run(child: Child) -> None:
    """Role of a worker: compile, take the sockets over, receive until `child.stop`, drain, close."""
    from .capture.udp import UdpListener
    from .warmup import warm_worker

    settings = child.settings
    warm_worker(settings, child.say)
    child.begun = True
    pipeline = Pipeline(
        settings,
        shard=child.index,
        data=child.data,
        regions=child.regions,
        retry=backoff(lambda: pipeline.count("journal_retries_total", 1), child.stop.is_set),
        told=lambda line: child.say(message=line),
    )
    child.say(warm=True)
    listeners: list[tuple[UdpListener, Dialect]] = []
    shares = [listen for listen in settings.listen if child.index < listen.workers]
    for listen, handle in zip(shares, child.sockets(), strict=False):
        listener = UdpListener(listen, child.index, listen.workers, handle)
        listener.open()
        listeners.append((listener, DIALECTS[listen.dialect]))
        for note in listener.notes() if child.index == 0 else ():
            child.say(message=note)
    child.say(ready=True)
    loop = _Loop(pipeline, listeners)
    roomy = all(listener.buffer_bytes >= ROOMY_BYTES for listener, _ in listeners)
    seconds, few = LONG_NAP if roomy else NAP
    try:
        while not child.stop.is_set():
            if loop.turn() < few:
                time.sleep(seconds)
        loop.drain()
        pipeline.tick(time.time_ns())
    finally:
        pipeline.close()
        for listener, _ in listeners:
            listener.close()


class _Loop:
    """One pass after the other over the listeners."""

    def __init__(self, pipeline: Pipeline, listeners: list[tuple[UdpListener, Dialect]]) -> None:
        self._pipeline = pipeline
        self._listeners = listeners
        self._counted: dict[str, int] = {}
        self._due = time.monotonic_ns() + TICK_NS

    def turn(self) -> int:
        """Receive once from every listener; returns the frames that there were."""
        frames = 0
        for listener, dialect in self._listeners:
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
        now = time.monotonic_ns()
        if now >= self._due:
            self._pipeline.tick(time.time_ns())
            self._count()
            self._due = now + TICK_NS
        return frames

    def drain(self) -> None:
        """Take what is in the sockets, and no more than fits a second."""
        until = time.monotonic() + 1.0
        while self.turn() and time.monotonic() < until:
            pass
        self._count()

    def _count(self) -> None:
        """Add what the listeners counted since the last time."""
        total: dict[str, int] = {}
        for listener, _ in self._listeners:
            for key, count in listener.counts().items():
                total[key] = total.get(key, 0) + count
        # the kernel counts by socket, and the sockets live as long as the counters, longer than a worker
        drops = total.pop("kernel_drops_total", 0)
        self._pipeline.counters[INDEX["kernel_drops_total"]] = drops
        for key, count in total.items():
            self._pipeline.count(key, count - self._counted.get(key, 0))
        self._counted = total
