"""The label process: UDP socket, table of labels, controller, and the registers of switches.

One thread runs everything in turns, which never block. The Redis client, which may block, has its own thread
(`labels.redis`).
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...base.clock import SteadyClock
from ...base.process import loop
from ...base.process.stop import Stop
from ...capture.udp.listener import UdpListener
from ...labels import tracked_state
from ...labels.controller import Controller, Ints
from ...labels.counters import LABEL_COUNTERS
from ...labels.register_writer import RegisterWriter
from ...labels.state import FILE_NAME, LabelRule
from ...labels.table import LabelTable
from ...labels.tracked import TrackedTable
from ...present.counter_advice import LABEL_TABLES
from ...settings.history import HistorySettings
from ...settings.label import LabelSettings
from ...settings.listen import ListenSettings
from ...settings.section import host_and_port
from ...wire.reasons import Reason
from ...wire.records import FrameBatch
from ..pipeline.full_tables import FullTables
from .events import LabelEvents

if TYPE_CHECKING:
    from ...capture.udp.counted_drops import SocketDrops
    from ...labels.redis import LabelRedis
    from ..processes.child import Child

PAUSE = loop.Pause(seconds=0.0005, below=64)
"""Pause after a turn with few datagrams, so that the next turn processes more at once."""
LOOK_NS = 20_000_000
"""Maximum time between two checks of telemetry intervals."""
TURN_NS = 5_000_000
"""Maximum time between two turns of the controller."""
COUNT_NS = 100_000_000
ATTACH_NS = 500_000_000
"""Pause between two attempts to find the registers."""
DRAIN_SECONDS = 0.5
"""Maximum time after a stop to process labels that still arrive."""


def listen_settings(settings: LabelSettings) -> ListenSettings:
    """Settings of the listener that takes labels."""
    host, port = host_and_port(settings.listen)
    return ListenSettings(host=host, port=port, allow=settings.allow)


def run(child: Child) -> None:
    """The process's role: take over the socket, and receive labels until `child.stop` is set."""
    settings = child.settings.label
    history = child.settings.history
    controlled = frozenset(switch.node for switch in child.settings.switches.values())
    process = LabelProcess(
        settings, child.regions, data=child.data, history=history, controlled=controlled, notify=child.notify
    )
    child.started = True
    sockets = child.sockets()
    if not sockets:
        process.close()
        return
    process.open(sockets[0], child.shares[0].drops)
    for note in process.notes():
        child.notify(note)
    child.report(warm=True, ready=True)
    process.run(child.stop)


class LabelProcess:
    """Socket, decoder, table, controller, registers and counters.

    `folder`: holds the regions; None: private memory. `data`: the data folder that gets events; None: none.
    `controlled`: nodes whose Reg2 another process reads from the table (`control.fleet`). `notify` gets a
    line when registers or servers appear or disappear. Raises RegionError, HistoryError, CaptureError, and
    HopscopeError if the Redis client is missing.
    """

    def __init__(
        self,
        settings: LabelSettings,
        folder: Path | None,
        *,
        data: Path | None = None,
        history: HistorySettings | None = None,
        controlled: frozenset[int] = frozenset(),
        notify: Callable[[str], None] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.settings = settings
        self._notify = notify or (lambda _: None)
        self._clock = clock or SteadyClock()
        adaptive, labelling = settings.adaptive, settings.labelling
        self._controlled = np.array(sorted(controlled), np.uint32)
        if settings.registers is None and not controlled and adaptive.mode != "off":
            self._notify(
                "label.adaptive.mode has no effect without switches or label.registers: monitoring only"
            )
            adaptive = adaptive.model_copy(update={"mode": "off"})
        start = self._clock()
        interval_ns = round(labelling.interval * 1e9)
        self.table = LabelTable(
            None if folder is None else folder / FILE_NAME,
            LabelRule(
                round(settings.telemetry * 1e9), interval_ns, round(adaptive.k * interval_ns), adaptive.mode
            ),
        )
        self.tracked = TrackedTable(None if folder is None else folder / tracked_state.FILE_NAME, start)
        written = self.table.known["shift"].copy()
        self.table.resume(start)
        self.redis = _redis(settings, self.table, self._notify)
        self.controller = Controller(labelling, adaptive, self.table, self.redis, start_ns=start)
        if controlled and adaptive.mode != "off":
            rows = np.flatnonzero(written)
            self.controller.adopt(rows, written[rows], start)
            self.table.set_shift(rows, self.controller.values[rows])
        self.table.on_evict = self._forget
        self._stored = np.zeros((0, 2), np.uint64)  # labels and S of each port, as stored in Redis
        self.registers = RegisterWriter(settings, self.table, self.controller, self._notify)
        self.events = LabelEvents(
            settings,
            self.table,
            self.tracked,
            history or HistorySettings(),
            data,
            folder,
            self._notify,
            start,
        )
        self.counts = LABEL_COUNTERS.open(folder)
        self._full = FullTables(LABEL_TABLES, self._notify, self._full_counts())
        self.datagrams = self.bytes = self.packets = self.unwritten = 0
        """Datagrams, bytes and packets received; `unwritten`: changes of Reg2 that reached no register."""
        self.rejected = np.zeros(len(Reason), np.int64)
        """Datagrams rejected, whole or from some point on, by reason."""
        self.listener: UdpListener | None = None
        self._turn, self._count, self._attach = (
            loop.Timer(period_ns)
            for period_ns in (min(TURN_NS, self.controller.turn_ns), COUNT_NS, ATTACH_NS)
        )
        self._look_ns = 0
        from ...wire.label.batch import LabelDecoder

        self._decoder = LabelDecoder(labelling.max_hop, secret=os.urandom(16))

    @property
    def late_kernels(self) -> int:
        """How many kernels were first called by a turn, and so loaded late."""
        return loop.late_kernels()

    @property
    def _reaches_switches(self) -> bool:
        """Whether decisions of the controller reach any switch."""
        return self.registers.attached or len(self._controlled) > 0

    @property
    def port(self) -> int:
        """UDP port, even if the kernel chose it."""
        assert self.listener is not None
        return self.listener.port

    def open(self, handle: socket.socket | None = None, drops: SocketDrops | None = None) -> None:
        """Bind, or take over `handle`: labels are received from now on. Raises CaptureError.

        `drops`: the drop counter of the socket.
        """
        self.listener = UdpListener(listen_settings(self.settings), sock=handle, drops=drops)
        self.listener.open()
        if self.redis is not None:
            self.redis.start()

    def notes(self) -> list[str]:
        """Lines for the log at startup."""
        return [] if self.listener is None else self.listener.notes()

    def turn(self) -> int:
        """Process what has arrived, and do what is due; returns the number of datagrams."""
        batch = self.listener.receive() if self.listener is not None else None
        now = self._clock()
        if batch is not None:
            self.step(batch, now)
        if self._attach(now):
            self.registers.attach(now)
        if self._reaches_switches and self._turn(now):
            rows, values = self.controller.turn(now)
            if len(rows):
                self.table.set_shift(rows, values)
                nodes, _ = self.table.ports_of(rows)
                others = ~np.isin(nodes, self._controlled)
                self.unwritten += self.registers.write(rows[others], values[others])
        if now >= self._look_ns:
            telemetry = self.table.coverage.telemetry_ns
            self._look_ns = min(now + LOOK_NS, (now // telemetry + 1) * telemetry)
            ahead_ns = self._clock.ahead_ns if isinstance(self._clock, SteadyClock) else 0
            self.table.set_ahead(ahead_ns)
            self.tracked.set_ahead(ahead_ns)
            self.table.tick(now, self.registers.sample if self.registers.attached else None)
            self.tracked.tick(now)
            self.events.tick(now, ahead_ns)
        if self._count(now):
            self.counts.collect(self)
            self._full.update(self._full_counts())
            self._store()
        return 0 if batch is None else len(batch)

    def step(self, batch: FrameBatch, now_ns: int) -> None:
        """Take the labels of some datagrams."""
        found = self._decoder.decode(batch)
        self.datagrams += len(batch)
        self.bytes += int(batch.frames["length"].sum())
        self.packets += found.packets
        self.rejected += found.refused
        self.controller.receive(found.labels, now_ns)
        self.tracked.update(found.labels, found.flows, now_ns, self.table.allowed(found.labels))

    def run(self, stop: Stop) -> None:
        """Process labels until `stop` is set, then drain the socket."""
        loop.run(self, stop, self._idle)

    def drain(self) -> None:
        """Process the datagrams that are still in the sockets."""
        loop.drain(self.turn, DRAIN_SECONDS)

    def _idle(self, taken: int) -> None:
        """Pause after a few datagrams; after none, wait until one arrives or something is due."""
        if taken:
            PAUSE(taken)
            return
        assert self.listener is not None
        due = min(self._look_ns, self._count.due_ns, self._attach.due_ns)
        if self._reaches_switches:
            due = min(due, max(self._turn.due_ns, self.controller.due_ns))
        seconds = (due - self._clock()) / 1e9
        select.select([self.listener], [], [], min(max(seconds, PAUSE.seconds), LOOK_NS / 1e9))

    def close(self) -> None:
        """Reset the registers, count, close."""
        self.registers.release()
        self._store()
        if self.redis is not None:
            self.redis.stop()
        self.tracked.tick(self._clock())
        self.events.close()
        self.counts.collect(self)
        if self.listener is not None:
            self.listener.close()

    def _full_counts(self) -> tuple[int, int]:
        """Counters of LABEL_TABLES."""
        return self.table.rejected, self.table.evicted

    def _forget(self, rows: Ints) -> None:
        """Store these rows again: the table reuses them for other ports."""
        self._stored[rows[rows < len(self._stored)]] = np.uint64(2**64 - 1)  # stored again
        if self.redis is not None:
            self.redis.forget(rows)

    def _store(self) -> None:
        """Store in Redis the ports with new labels or another S."""
        if self.redis is None:
            return
        used = self.table.used
        ports = self.table.known
        now = np.stack([ports["labels"], ports["shift"].astype(np.uint64)], axis=1)
        before, self._stored = self._stored, now
        if self.redis.is_new:
            self.redis.is_new, before = False, before[:0]
        changed = np.ones(used, np.bool_)
        changed[: len(before)] = (now[: len(before)] != before).any(axis=1)
        rows = np.flatnonzero(changed)
        if len(rows):
            self.redis.store(rows, ports[rows])


def _redis(settings: LabelSettings, table: LabelTable, notify: Callable[[str], object]) -> LabelRedis | None:
    """The writer to Redis; None if the settings name no server."""
    if not settings.redis:
        return None
    from ...labels.redis import LabelRedis

    return LabelRedis(
        settings.redis, settings.prefix, table.ports_of,
        notify,
    )  # fmt: skip
