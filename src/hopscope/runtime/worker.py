"""A worker: receives frames on its share of the listeners and takes them through the pipeline, until stopped.

Nothing wakes it per packet: it sleeps for a millisecond where there is little.  A full disk makes it wait
and try again (counted), while the kernel's socket buffer fills up (counted, too).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..detect.counters import INDEX
from ..history.journal import backoff
from ..settings.dialects import Changes, named
from ..settings.source import url
from ..wire.dialect import Dialect
from ..wire.records import FrameBatch
from .pipeline import Pipeline
from .sink.forward import Forwarder, to_interface
from .sink.pipeline import pipeline_of

if TYPE_CHECKING:
    from ..capture.listener import Listener
    from ..settings.collector import ListenSettings, Settings
    from ..wire.decode.evidence import Evidence
    from .child import Child

ROOMY_BYTES = 4 * 1024 * 1024
"""A receive buffer that holds what comes in a longer nap."""
NAP = (0.0005, 1)
"""Seconds to sleep after a turn with fewer frames than this."""
LONG_NAP = (0.001, 256)
"""The same with roomy buffers: larger batches cost a fifth less (752, not 961 ns a report at 850,000/s)."""
TICK_NS = 100_000_000
HELD_FRAMES = 4096
EVIDENCE_NS = 1_000_000_000
"""How long a listener with dialect `auto` waits for more reports behind the first."""


def run(child: Child) -> None:
    """Role of a worker: compile, take the sockets over, receive until `child.stop`, drain, close."""
    from .warmup import warm_worker

    settings = child.settings
    warm_worker(settings, child.report)
    child.begun = True
    pipeline = pipeline_of(
        settings,
        shard=child.index,
        data=child.data,
        regions=child.regions,
        retry=backoff(lambda: pipeline.count("journal_retries_total", 1), child.stop.is_set),
        notify=child.notify,
    )
    child.report(warm=True)
    listeners: list[Listening] = []
    shares = [listen for listen in settings.listen if child.index < listen.workers]
    for listen, handle in zip(shares, child.sockets(), strict=False):
        listener = listener_of(listen, child.index, handle)
        listener.open()
        one = Listening(listener, dialects_of(listen, settings), child.notify)
        if settings.sink.enabled and listen.output:
            one.forward = to_interface(listen.output, settings.sink, pipeline.count)
        listeners.append(one)
        for note in listener.notes() if child.index == 0 else ():
            child.notify(note)
    child.report(ready=True)
    loop = _Loop(pipeline, listeners)
    roomy = all(one.listener.buffer_bytes >= ROOMY_BYTES for one in listeners)
    seconds, few = LONG_NAP if roomy else NAP
    try:
        while not child.stop.is_set():
            if loop.turn() < few:
                time.sleep(seconds)
        loop.drain()
        pipeline.tick(time.time_ns())
    finally:
        pipeline.close()
        for one in listeners:
            one.close()


def listener_of(listen: ListenSettings, index: int, handle: socket.socket | None = None) -> Listener:
    """What receives the frames of a listener, in the worker `index`."""
    if listen.kind == "mirror":
        from ..capture.ring.listener import RingListener

        return RingListener(listen, index, listen.workers, handle)
    from ..capture.udp.listener import UdpListener

    return UdpListener(listen, index, listen.workers, handle)


def dialects_of(listen: ListenSettings, settings: Settings) -> tuple[Dialect, ...]:
    """The dialect of a listener, or all where it is `auto`; on a mirror port packets are searched for INT.

    To a sink, a Telemetry Report on its way to a collector is a packet like others.
    """
    changes = Changes(ports=() if settings.sink.enabled else None, packets=listen.kind == "mirror")
    return tuple(map(changes.of, named(listen.dialect, settings.dialects, auto=True)))


class Listening:
    """A listener and how its frames are read; of several dialects its first reports choose one, for good."""

    def __init__(
        self, listener: Listener, possible: tuple[Dialect, ...], notify: Callable[[str], object]
    ) -> None:
        self.listener = listener
        self.dialect: Dialect | None = possible[0] if len(possible) == 1 else None
        """None as long as it is open."""
        self.forward: Forwarder | None = None
        """Where the frames go on, in a sink."""
        self._possible = possible
        self._notify = notify
        self._evidence: Evidence | None = None
        self._held: list[FrameBatch] = []
        self._first_ns = 0
        self._pause_ns = EVIDENCE_NS
        self._again_ns = 0

    def close(self) -> None:
        """Stop receiving and sending."""
        self.listener.close()
        if self.forward is not None:
            self.forward.close()

    def take(self, batch: FrameBatch | None, now_ns: int) -> Iterator[tuple[FrameBatch, Dialect]]:
        """What is to be decoded now, `now_ns` on a clock that never goes back: what came, or nothing yet, or
        all that was held.
        """
        if self.dialect is not None:
            if batch is not None:
                yield batch, self.dialect
            return
        if batch is not None and len(batch):
            if now_ns < self._again_ns:
                yield batch, self._possible[0]
                return
            self._hold(batch, now_ns)
        if self._evidence is not None and (
            self._evidence.enough
            or sum(map(len, self._held)) >= HELD_FRAMES
            or now_ns - self._first_ns >= EVIDENCE_NS
        ):
            yield from self.settle(now_ns)

    def settle(self, now_ns: int = 0) -> Iterator[tuple[FrameBatch, Dialect]]:
        """Choose by what was held, and give it out; where it told nothing, later frames are asked, less and
        less often: ordinary traffic on a mirror port must not cost this time and again.
        """
        if self._evidence is None:
            return
        evidence, self._evidence = self._evidence, None
        proposal = evidence.propose()
        if proposal.found:
            self.dialect = proposal.dialect
            for line in proposal.lines:
                self._notify(f"{url(self.listener.settings)}: {line}")
        else:
            self._again_ns = now_ns + self._pause_ns
            self._pause_ns = min(2 * self._pause_ns, 60 * EVIDENCE_NS)
        held, self._held = self._held, []
        for batch in held:
            yield batch, proposal.dialect

    def _hold(self, batch: FrameBatch, now_ns: int) -> None:
        if self._evidence is None:
            from ..wire.decode.evidence import Evidence

            self._evidence, self._first_ns = Evidence(self._possible), now_ns
        self._evidence.add(batch)
        self._held.append(_kept(batch))


def _kept(batch: FrameBatch) -> FrameBatch:
    """A copy of the frames alone: a batch is valid until the next receive call."""
    frames = batch.frames.copy()
    lengths = frames["length"].astype(np.uint64)
    frames["offset"] = np.cumsum(lengths) - lengths
    parts = [
        batch.arena[start : start + length]
        for start, length in zip(batch.frames["offset"].tolist(), lengths.tolist(), strict=True)
    ]
    return FrameBatch(np.concatenate(parts), frames, batch.first_packet)


class _Loop:
    """One pass after the other over the listeners."""

    def __init__(self, pipeline: Pipeline, listeners: list[Listening]) -> None:
        self._pipeline = pipeline
        self._listeners = listeners
        self._counted: dict[str, int] = {}
        self._due = time.monotonic_ns() + TICK_NS

    def turn(self) -> int:
        """Receive once from every listener; returns the frames that there were."""
        frames = 0
        for one in self._listeners:
            begin = time.perf_counter_ns()
            batch = one.listener.receive()
            if batch is None and one.forward is not None:
                one.forward.flush()
            if batch is None and one.dialect is not None:
                continue
            spent = time.perf_counter_ns() - begin
            if batch is not None:
                frames += len(batch)
            for ready, dialect in one.take(batch, time.monotonic_ns()):
                if len(ready):
                    self._pipeline.step(ready, dialect, one.forward)
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
        for one in self._listeners:
            for batch, dialect in one.settle():
                self._pipeline.step(batch, dialect, one.forward)
        self._count()

    def _count(self) -> None:
        """Add what the listeners counted since the last time."""
        total: dict[str, int] = {}
        for one in self._listeners:
            for key, count in one.listener.counts().items():
                total[key] = total.get(key, 0) + count
        # the kernel counts by socket, and the sockets live as long as the counters, longer than a worker
        drops = total.pop("kernel_drops_total", 0)
        self._pipeline.counters[INDEX["kernel_drops_total"]] = drops
        for key, count in total.items():
            self._pipeline.count(key, count - self._counted.get(key, 0))
        self._counted = total
