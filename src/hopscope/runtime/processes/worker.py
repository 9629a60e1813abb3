"""A worker: receives frames on its share of the listeners and takes them through the pipeline, until stopped.

It is not woken for each packet: it sleeps for `pause_ms` at most while a batch gathers, or for a millisecond
if it forwards frames. If nothing arrived meanwhile, it waits for its sockets, unless a detector or another
interface depends on its turns. It never waits for a full, slow or hung disk (see `event_writer`).
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...base.clock import ClockSteps
from ...base.process import loop
from ...capture.errors import InterfaceGoneError
from ...detect.report_queue import CLOSED
from ...settings.dialects import Changes, named
from ...settings.source import url
from ...wire.dialect import Dialect
from ...wire.records import FrameBatch
from ..pipeline.mode import Mode, mode_of
from ..pipeline.shard import Shard
from ..pipeline.source_decoder import source_decoder
from ..pipeline.steps import HandOver, Pipeline, Steps
from ..sink.forward import Forwarder
from .processors import pin

if TYPE_CHECKING:
    from ...capture.listener import Listener
    from ...capture.udp.counted_drops import SocketDrops
    from ...detect.detector import Detector
    from ...settings.collector import Settings
    from ...settings.listen import ListenSettings
    from ...wire.decode.evidence import Evidence
    from .child import Child, NewListener

LARGE_BUFFER_BYTES = 4 * 1024 * 1024
"""A receive buffer of at least this size holds what arrives during a longer pause."""
PAUSE = loop.Pause(seconds=0.0005, below=1)
FORWARDING_PAUSE = loop.Pause(seconds=0.001, below=256)
FORWARDING_DOZE_SECONDS = 0.004
"""How long a forwarding worker waits if no frame wakes it: it has to send heartbeats, and to take what an XDP
program leaves. Compared with fixed pauses, a frame in a ring takes 0.9 ms instead of 1.7, and a worker
without frames uses a quarter less CPU time.
"""
SHARED_SECONDS = 0.001
"""Maximum pause of one of several workers. Reports that different workers receive within this time may change
order, and the reports of other workers wait for this worker.
"""
GATHERED, ENOUGH = 2048, 512
"""How many frames a worker with large buffers aims to gather while it sleeps, and the most that a turn can
receive as single datagrams. A sleep leaves the caches cold: a turn with 8 datagrams takes 51 us right after
another, 190 us after 2.5 ms, 300 us after 5 or 10 ms.
"""
BUFFER_SECONDS = 0.001
"""Maximum sleep per MiB of the smallest receive buffer, which a burst fills meanwhile."""
TICK_NS = 100_000_000
DRAIN_SECONDS = 1.0
RING_DELAY_NS = 50_000_000
"""Maximum time from a frame's arrival until its ring shows it; a block is filled for 16 ms."""
HELD_FRAMES = 4096
EVIDENCE_NS = 1_000_000_000
"""How long a listener with dialect `auto` waits for more reports after the first."""


def run(child: Child, *, standby: bool = False) -> None:
    """A worker's role: take over the sockets, receive until `child.stop` is set, drain, close.

    A standby first waits until it replaces a worker that has ended.
    """
    settings = child.settings
    mode = mode_of(settings)
    if standby:
        child.report(warm=True)
        if not child.assigned():
            return
        pin(settings, "worker", child.index)
    child.started = True
    steps: Steps
    if mode.has_detector:
        steps = mode.hand_over(child.index, child.regions)
    else:
        shard = Shard(
            settings.history,
            child.index,
            data=child.data,
            regions=child.regions,
            thread=True,
            notify=child.warn,
        )
        steps = mode.pipeline(shard)
    worker = Worker(steps, child.listeners, child.released)
    wires = list[Receiver]()
    child.report(warm=True)
    for handle, share in zip(child.sockets(), child.shares, strict=False):
        lane, listen = share.listener, settings.listen[share.listener]
        dialects = dialects_of(listen, mode)
        detector = detector_of(steps, mode, dialects)
        listener = listener_of(listen, child.index, handle, detector, dialects[0], share.drops)
        listener.open()
        heartbeat = None
        if child.bypass is not None and listen.output:
            from ...capture.bypass import Heartbeat

            heartbeat = Heartbeat(
                child.bypass,
                lane,
                child.index,
                listen.workers,
                settings.sink.bypass_seconds,
                settings.workers,
            )
        forward = mode.forwarder(listen, steps.count, heartbeat)
        receiver = Receiver(listener, dialects, child.notify, forward, child.index)
        worker.receivers.append(receiver)
        if (wire := mode.wire(listen, dialects, steps.count, receiver.has_caught_up)) is not None:
            wires.append(Receiver(wire, dialects, child.notify, heads=True))
        for note in [*listener.notes(), *(wire.notes() if wire else ())] if child.index == 0 else ():
            child.notify(note)
    worker.receivers += wires
    worker.beat()  # a sink that is ready lets no frame bypass it
    child.report(ready=True)
    loop.run(worker, child.stop, _pause(worker, settings, steps if isinstance(steps, HandOver) else None))


def _pause(worker: Worker, settings: Settings, shared: HandOver | None) -> Callable[[int], object]:
    """How a worker pauses between turns; `shared`: its steps, if it is one of several."""
    buffer = min((receiver.listener.buffer_bytes for receiver in worker.receivers), default=0)
    large = buffer >= LARGE_BUFFER_BYTES
    if any(receiver.forward for receiver in worker.receivers):
        soon = FORWARDING_PAUSE if large else PAUSE
        longest = SHARED_SECONDS if shared else FORWARDING_DOZE_SECONDS
        return loop.BusyPause(worker.sends, soon, loop.IdleWait(soon, worker.files, longest))
    pause: Callable[[int], object] = PAUSE
    if large:
        longest = min(settings.pause_ms / 1000, BUFFER_SECONDS * buffer / 2**20)
        pause = loop.Gather(GATHERED, ENOUGH, min(longest, SHARED_SECONDS) if shared else longest)
        if "xdp" in worker.kinds:  # they fill slowly, and each frame would wake the worker
            pause = loop.BusyPause(worker.follows, PAUSE, loop.Pause(longest, ENOUGH))
    if shared is None:
        return loop.IdleWait(pause, worker.files)
    if any(receiver.listener.settings.interface for receiver in worker.receivers):
        return pause  # frames arrive with the time at which they were captured
    return loop.IdleWait(pause, worker.files, before=shared.wait)


def detector_of(steps: Steps, mode: Mode, dialects: tuple[Dialect, ...]) -> Detector | None:
    """The worker's detector, if nothing else sees the worker's reports or changes the detector's state: only
    then may an XDP program filter for it.
    """
    from ...bpf.filter import filters
    from ...detect.detector import Detector

    if (
        not isinstance(steps, Pipeline)
        or not isinstance(steps.detection, Detector)
        or [listen.kind for listen in mode.settings.listen] != ["xdp"]
        or mode.counts_distributions
        or not mode.settings.detect.enabled
        or not all(map(filters, dialects))
    ):
        return None
    return steps.detection


def listener_of(
    listen: ListenSettings,
    index: int,
    handle: socket.socket | None = None,
    detector: Detector | None = None,
    dialect: Dialect | None = None,
    drops: SocketDrops | None = None,
) -> Listener:
    """The listener of the worker `index`. `detector` and `dialect` are for an XDP program that filters,
    `drops` counts those of a UDP socket.
    """
    if listen.kind == "mirror":
        from ...capture.ring.listener import RingListener

        return RingListener(listen, index, listen.workers, handle)
    if listen.kind == "ring":
        from ...capture.ring.report_listener import ReportListener

        return ReportListener(listen, index, listen.workers, handle)
    if listen.kind == "xdp":
        from ...bpf.listener import XdpListener

        return XdpListener(listen, detector, dialect)
    if listen.over_tcp:
        from ...capture.tcp.listener import TcpListener

        return TcpListener(listen, index, listen.workers, handle)
    from ...capture.udp.listener import UdpListener

    return UdpListener(listen, index, listen.workers, handle, drops)


def dialects_of(listen: ListenSettings, mode: Mode) -> tuple[Dialect, ...]:
    """The dialect of a listener, or all if it is `auto`; packets of a mirror port are searched for INT."""
    ports = (listen.port,) if listen.kind == "ring" else mode.report_ports
    changes = Changes(ports=ports, packets=listen.kind == "mirror")
    return tuple(map(changes.of, named(listen.dialect, mode.settings.dialects, auto=True)))


class Receiver:
    """A listener and the dialect of its frames; if several are possible, the first reports decide."""

    def __init__(
        self,
        listener: Listener,
        possible: tuple[Dialect, ...],
        notify: Callable[[str], object],
        forward: Forwarder | None = None,
        worker: int = 0,
        *,
        heads: bool = False,
    ) -> None:
        self.listener = listener
        self.heads = heads
        """Whether it receives only heads of frames, which the listener counts itself."""
        self.late = listener.settings.kind in ("ring", "mirror")
        """Whether frames are shown some time after their arrival: by a ring."""
        self.detaches = heads or listener.settings.kind == "xdp"
        """Whether to detach the XDP program first at the end; later frames go to the network stack."""
        ended = getattr(listener, "ended", None)
        self.source = getattr(listener, "filter", None) or source_decoder(listener.settings, ended)
        """Decodes the frames, if they are not Telemetry Reports."""
        self.dialect: Dialect | None = possible[0] if len(possible) == 1 else None
        """None until it is chosen."""
        self.forward = forward
        """Forwards frames, in a sink."""
        self._possible = possible
        self._notify = notify
        self._evidence: Evidence | None = None
        self._held: list[FrameBatch] = []
        self._first_ns = 0
        self._pause_ns = EVIDENCE_NS
        self._retry_ns = 0
        self._worker = worker
        self._taken = 0
        self._earlier: Counter[str] = Counter()

    def receive(self) -> FrameBatch | None:
        """The frames that have arrived. There are none while the interface is gone, until `replace`."""
        try:
            batch = self.listener.receive()
        except InterfaceGoneError:
            batch = None
        self._taken = 0 if batch is None else len(batch)
        return batch

    def has_caught_up(self) -> bool:
        """Whether few frames waited at the last `receive`."""
        return self._taken < FORWARDING_PAUSE.below

    def follows(self) -> bool:
        """Whether the filter of its XDP program has rows to update now, or datagrams left to take."""
        return bool(getattr(self.source, "following", False))

    def replace(self, new: NewListener) -> None:
        """Receive on a new socket from now on: the interface has come back."""
        before = self.listener
        self._earlier += Counter(before.counts())
        self._earlier += Counter(interface_returns_total=bool(new.gap_ns), interface_gap_ns_total=new.gap_ns)
        before.close()
        self.listener = listener_of(before.settings, self._worker, new.handle)
        self.listener.open()

    def counts(self) -> Counter[str]:
        """The counts of its listeners and its decoder, by key of `detect.counters`."""
        counts = Counter(self.listener.counts())
        counts.update(self._earlier)
        if self.source is not None:
            counts.update(self.source.counts())
        return counts

    def close(self) -> None:
        """Stop receiving and sending."""
        self.listener.close()
        if self.forward is not None:
            self.forward.close()

    def horizon(self, batch: FrameBatch | None) -> int:
        """Time before which no later frame was received, ns since the epoch; `batch`: the newest frames."""
        if batch is not None and len(batch):
            return int(batch.frames["time_ns"][-1])
        return time.time_ns() - (RING_DELAY_NS if self.listener.settings.interface else 0)

    def take(self, batch: FrameBatch | None, now_ns: int) -> Iterator[tuple[FrameBatch, Dialect]]:
        """The frames to decode now, with their dialect: `batch`, or none yet, or all that were held until the
        dialect was known. `now_ns` is on a monotonic clock.
        """
        if self.dialect is not None:
            if batch is not None:
                yield batch, self.dialect
            return
        if batch is not None and len(batch):
            if now_ns < self._retry_ns:
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
        """Choose the dialect by the held frames, and return them. If they are inconclusive, later frames are
        tried at growing intervals: ordinary traffic on a mirror port must not cost this again and again.
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
            self._retry_ns = now_ns + self._pause_ns
            self._pause_ns = min(2 * self._pause_ns, 60 * EVIDENCE_NS)
        held, self._held = self._held, []
        for batch in held:
            yield batch, proposal.dialect

    def _hold(self, batch: FrameBatch, now_ns: int) -> None:
        if self._evidence is None:
            from ...wire.decode.evidence import Evidence

            self._evidence, self._first_ns = Evidence(self._possible), now_ns
        self._evidence.add(batch)
        self._held.append(_kept(batch))


def _kept(batch: FrameBatch) -> FrameBatch:
    """A copy of the frames: a batch is only valid until the next receive call."""
    frames = batch.frames.copy()
    lengths = frames["length"].astype(np.uint64)
    frames["offset"] = np.cumsum(lengths) - lengths
    parts = [
        batch.arena[start : start + length]
        for start, length in zip(batch.frames["offset"].tolist(), lengths.tolist(), strict=True)
    ]
    return FrameBatch(np.concatenate(parts), frames, batch.first_packet)


class Worker:
    """Takes frames of all receivers through its steps, one receiver after the other."""

    def __init__(
        self,
        steps: Steps,
        listeners: deque[NewListener] | None = None,
        released: threading.Event | None = None,
    ) -> None:
        """`listeners`: a queue of sockets that replace those of receivers; `released`: set if another process
        continues when this one stops.
        """
        self._steps = steps
        self._shared = steps if isinstance(steps, HandOver) else None
        """The steps, if the worker is one of several."""
        self._listeners = listeners if listeners is not None else deque()
        self._released = released or threading.Event()
        self.receivers: list[Receiver] = []
        self.received: Counter[str] = Counter()
        """Counts of all listeners at the last tick, by key of `detect.counters`."""
        self._tick = loop.Timer(TICK_NS, time.monotonic_ns() + TICK_NS)
        self._clock = ClockSteps()
        self._newest_ns = 0
        """When the newest frame of a ring arrived."""

    @property
    def late_kernels(self) -> int:
        """How many kernels were first called by a turn, and so loaded late."""
        return loop.late_kernels()

    def files(self) -> list[int]:
        """Descriptors of its sockets."""
        return [receiver.listener.fileno() for receiver in self.receivers]

    @property
    def kinds(self) -> set[str]:
        """Kinds of its listeners."""
        return {receiver.listener.settings.kind for receiver in self.receivers}

    def follows(self) -> bool:
        """Whether filters of XDP programs have rows to update now, or datagrams left to take."""
        return any(receiver.follows() for receiver in self.receivers)

    def sends(self) -> bool:
        """Whether frames wait for an interface that did not accept them at once."""
        return any(receiver.forward is not None and receiver.forward.waits for receiver in self.receivers)

    def beat(self) -> None:
        """Send a heartbeat for every output: frames are being forwarded."""
        for receiver in self.receivers:
            if receiver.forward is not None:
                receiver.forward.beat()

    def turn(self) -> int:
        """Receive once from every listener; returns the number of frames."""
        frames, horizon = 0, CLOSED
        if self._shared is not None:
            self._shared.wake()
        while self._listeners:
            new = self._listeners.popleft()
            self.receivers[new.place].replace(new)
        for receiver in self.receivers:
            begin = time.perf_counter_ns()
            if receiver.forward is not None:
                receiver.forward.beat()
            batch = receiver.receive()
            if batch is None and receiver.forward is not None:
                receiver.forward.flush()
            if self._shared is not None:
                horizon = min(horizon, receiver.horizon(batch))
            if batch is None and receiver.dialect is not None:
                continue
            spent = time.perf_counter_ns() - begin
            if batch is not None and len(batch):
                frames += len(batch)
                if receiver.late:
                    self._newest_ns = max(self._newest_ns, int(batch.frames["time_ns"][-1]))
            for ready, dialect in receiver.take(batch, time.monotonic_ns()):
                if len(ready):
                    self._step(receiver, ready, dialect)
            self._steps.count("busy_capture_ns_total", spent)
            self._steps.count("busy_ns_total", spent)
        if self._shared is not None:
            self._shared.advance(horizon)
        if self._tick(time.monotonic_ns()):
            step_ns = self._clock.take()
            if step_ns is not None:
                self._steps.tick(self._reached(time.time_ns()), step_ns)
            self._collect()
        return frames

    def _reached(self, now_ns: int) -> int:
        """Time up to which all frames have been received. A ring shows frames late, and timeouts of postcards
        and of silent sources must not run ahead of them.
        """
        if any(receiver.late for receiver in self.receivers):
            return min(now_ns, max(now_ns - RING_DELAY_NS, self._newest_ns))
        return now_ns

    def _step(self, receiver: Receiver, frames: FrameBatch, dialect: Dialect) -> None:
        self._steps.step(frames, dialect, receiver.forward, receiver.source, heads=receiver.heads)

    def _collect(self) -> None:
        """Collect the counters of the receivers."""
        self.received = Counter[str]()
        for receiver in self.receivers:
            self.received.update(receiver.counts())
        self._steps.counted.collect(self)

    def drain(self) -> None:
        """Process what is left in the sockets, for at most a second, and then all frames taken from them.

        In a sink, new frames now use the bypass, while rings may still have to show earlier ones. A released
        worker processes only frames that it has taken: the rest waits for another process.
        """
        released, least = self._released.is_set(), 0.0
        for receiver in self.receivers:
            if released or receiver.detaches:
                receiver.listener.finish()
            elif receiver.forward is not None:
                receiver.forward.stop()
                least = RING_DELAY_NS / 1e9
        loop.drain(self.turn, DRAIN_SECONDS, least)
        for receiver in self.receivers:
            if not receiver.detaches:
                receiver.listener.finish()
        loop.drain(self.turn, DRAIN_SECONDS)
        for receiver in self.receivers:
            for batch, dialect in receiver.settle():
                self._step(receiver, batch, dialect)
            if released and receiver.forward is not None:
                receiver.forward.release()
        self._collect()
        self._steps.tick(time.time_ns())

    def close(self) -> None:
        """Close the journal or the queue, then the listeners."""
        if self._released.is_set():
            self._steps.release()
        else:
            self._steps.close()
        for receiver in self.receivers:
            receiver.close()
