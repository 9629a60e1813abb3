"""The switches of a fabric: one process, with a receive and a transmit ring at every port of every switch."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import numpy as np

from ..base import log
from ..base.clock import SteadyClock
from ..base.process import loop
from ..base.process.stop import Stop, at_signals
from ..capture.errors import CaptureError
from ..capture.ring.listener import RingListener
from ..capture.ring.sender import RingSender
from ..capture.ring.socket import bind_ring
from ..labels.records import PortCounter
from ..labels.registers import Registers
from ..settings.label import LabelSettings
from ..settings.listen import ListenSettings
from ..settings.section import host_and_port
from ..wire.address import network
from ..wire.records import FRAME, FrameBatch
from .fabric import RING_BYTES, SLOTS, FabricPlan, next_ports, slot_bytes
from .forwarder import Forwarder, RoutingTables
from .namespaces import enter
from .state import FabricState

BLOCK_BYTES = 1 << 13
"""Block size of a port's receive ring of 256 blocks. Linux hands over a block when it is full, or after 1 ms,
so the process may stall for a quarter of a second before frames are lost, and less at high rates.
"""
NICE = -10
"""Priority of TestbedSwitches, above other processes."""
FRAMES = SLOTS // 2
"""Maximum frames moved at once; a transmit ring has two slots for each, since fragmentation takes both."""
ETHERNET_BYTES = 14
_TURN_SECONDS = 0.1
_COUNT_SECONDS = 0.2


class TestbedSwitches:
    """All switches of a fabric; it must run in a thread that has entered their namespace.

    A port whose interface is deleted is ignored from then on: frames for it are counted as rejected.
    """

    def __init__(
        self, parts: FabricPlan, registers: Registers, settings: LabelSettings, export: socket.socket
    ) -> None:
        """Compiles the kernels. `export`: a non-blocking socket that is connected to the controller, and was
        opened outside of the namespace.
        """
        self.parts = parts
        self._export = export
        to_host = [port.host >= 0 for port in parts.ports]
        self._registers = registers
        down = set(np.flatnonzero(registers.down).tolist())
        self._forwarder = Forwarder(registers, routes(parts, down), to_host, settings.labelling)
        self._rejected = registers.count(PortCounter.REJECTED)
        self._missed = registers.count(PortCounter.MISSED)
        self._rejected_exports = registers.count(PortCounter.REJECTED_EXPORTS)
        self._counted = 0.0
        self._now = SteadyClock()
        """Clock of labels and of Reg1."""
        self._listeners: list[RingListener] = []
        self._senders: list[RingSender] = []
        self._row_of: dict[int, int] = {}
        self._poll = select.epoll()

    def _warm(self) -> None:
        """Compile or load the kernels before frames arrive."""
        nothing = FrameBatch(np.zeros(1, np.uint8), np.zeros(0, FRAME))
        arena, slots = np.zeros(1, np.uint8), np.zeros(0, np.uint64)
        rows = self._forwarder.route(nothing, 0)
        self._forwarder.forward(nothing, rows, 0, arena, slots, room=1, mtu=1, now_ns=1)

    def open(self) -> None:
        """Open the rings. Raises CaptureError."""
        self._warm()
        slot = slot_bytes(self.parts.inner_mtu)
        for port in self.parts.ports:
            self._senders.append(RingSender(port.interface, ring_bytes=SLOTS * slot))
        for row, port in enumerate(self.parts.ports):
            # with an output interface the kernel delivers frames at once, not after 16 ms
            other = next(peer for peer in self.parts.ports if peer.node == port.node and peer is not port)
            listen = ListenSettings(
                kind="mirror", interface=port.interface, output=other.interface, ring_bytes=RING_BYTES
            )
            ring = bind_ring(listen, block_bytes=BLOCK_BYTES)
            listener = RingListener(listen, sock=ring, block_bytes=BLOCK_BYTES)
            listener.open()
            self._listeners.append(listener)
            self._row_of[listener.fileno()] = row
            self._poll.register(listener.fileno(), select.EPOLLIN)

    def turn(self, seconds: float = _TURN_SECONDS) -> int:
        """Wait for frames, at most `seconds`, and forward them; returns the number received. Raises
        CaptureError.
        """
        moved = 0
        self._follow_links()
        for handle, _ in self._poll.poll(seconds):
            row = self._row_of[handle]
            batch = self._received(row, handle)
            if batch is None:
                continue
            if self._registers.down[row]:
                counted = [PortCounter.RECEIVED, PortCounter.LINK_DOWN]
                self._registers.counters[row, counted] += np.uint64(len(batch))
                continue
            # frames that arrive meanwhile wait for the other ports' turn; the handle stays readable
            for first in range(0, len(batch), FRAMES):
                part = batch.frames[first : first + FRAMES]
                self._move(FrameBatch(batch.arena, part, batch.first_packet + first), row)
            moved += len(batch)
        for row, sender in enumerate(self._senders):
            if sender.waiting:
                sender.flush()
            self._rejected[row] = sender.rejected + sender.dropped
        if time.monotonic() - self._counted > _COUNT_SECONDS:
            self._counted = time.monotonic()
            for row, listener in enumerate(self._listeners):
                counts = listener.counts()
                self._missed[row] = counts["kernel_drops_total"] + counts["oversized_frames_total"]
        return moved

    def _follow_links(self) -> None:
        """If the state of links has changed, route around those that are down."""
        registers = self._registers
        changes = registers.changes[0]
        if changes != registers.followed[0]:
            down = np.flatnonzero(registers.down).tolist()
            self._forwarder.set_routes(routes(self.parts, set(down)))
            registers.followed[0] = changes

    def _received(self, row: int, handle: int) -> FrameBatch | None:
        """Frames received at a port; a failed port is dropped, and the others continue."""
        try:
            return self._listeners[row].receive()
        except CaptureError as error:
            self._poll.unregister(handle)
            self._listeners[row].close()
            log.logger("switches").warning("port removed after an error", reason=str(error))
            return None

    def _move(self, batch: FrameBatch, ingress: int) -> None:
        now = self._now()
        stamps = batch.frames["time_ns"]
        stamps += self._now.ahead_ns  # from the machine's clock to ours
        np.minimum(stamps, now, out=stamps)  # for frames that arrived before a clock step
        rows = self._forwarder.route(batch, ingress)
        for egress in np.unique(rows[rows >= 0]).tolist():
            sender = self._senders[egress]
            lengths = self._forwarder.forward(
                batch, rows, egress, sender.arena, sender.slots(2 * len(batch)), room=sender.room,
                mtu=sender.longest - ETHERNET_BYTES, now_ns=self._now(), queued=sender.waiting_bytes,
            )  # fmt: skip
            sender.send(lengths)
        for datagram in self._forwarder.exports():
            try:
                self._export.send(datagram)
            except OSError:  # port unreachable, or its buffer is full
                self._rejected_exports[ingress] += np.uint64(1)

    def drain(self) -> None:
        """Do nothing: a switch that stops loses the frames in its rings."""

    def close(self) -> None:
        """Close the rings."""
        self._poll.close()
        for listener in self._listeners:
            listener.close()
        for sender in self._senders:
            sender.close()


def routes(parts: FabricPlan, down: Collection[int] = ()) -> RoutingTables:
    """Routing tables of all switches to all host addresses, without the ports whose link is down."""
    addresses = [
        (network(text)[0], number)
        for number, host in enumerate(parts.hosts)
        for text in (host.ipv4, host.ipv6)
    ]
    return RoutingTables(addresses, next_ports(parts, down))


def run(
    state: FabricState,
    settings: LabelSettings,
    stop: Stop | None = None,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Run the switches until `stop`, or SIGTERM; `ready` is called once they work. Raises HopscopeError."""
    stop = stop or _until_signal()
    parts = state.plan()
    registers = Registers.attach(state.registers, writable=True)
    host, port = host_and_port(state.export)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as export:
        export.connect((host, port))  # before entering the namespace, which has no route to the controller
        with suppress(PermissionError):  # works without CAP_SYS_NICE too
            os.nice(NICE)
        enter(parts.switches)
        switches = TestbedSwitches(parts, registers, settings, export)
        try:
            switches.open()
        except BaseException:
            switches.close()
            raise
        log.logger("switches").info(
            "switching", switches=len(parts.topology.switches), ports=len(parts.ports)
        )
        ready()
        loop.run(switches, stop, idle=lambda moved: None)  # a turn waits for frames


def _until_signal() -> Stop:
    stop = threading.Event()
    at_signals(stop.set, signal.SIGTERM, signal.SIGINT)
    return stop
