"""The switches of a fabric: one process, with a receive and a transmit ring at every port of every switch."""

from __future__ import annotations

import select
import signal
import socket
import threading

from .. import log
from ..capture.ring import RingListener
from ..capture.ring_sender import RingSender
from ..config import ListenSettings
from ..config_label import LabellingSettings
from ..stop import Stop
from .fabric import Plan, next_ports
from .namespaces import enter
from .registers import Registers
from .state import State

RING_BYTES = 1 << 20
"""Of each ring; two at a port."""
_TURN_SECONDS = 0.1


class Switches:
    """All switches of a fabric; in the thread that has entered their namespace."""

    def __init__(
        self, parts: Plan, registers: Registers, labelling: LabellingSettings, export: socket.socket
    ) -> None:
        self.parts = parts
        self.registers = registers
        self.export = export
        self._next = next_ports(parts)
        self._hosts = {bytes(map(int, host.ipv4.split("."))): at for at, host in enumerate(parts.hosts)}
        self._listeners: list[RingListener] = []
        self._senders: list[RingSender] = []
        self._poll = select.epoll()

    def open(self) -> None:
        """Open the rings and let frames in. Raises CaptureError."""
        for port in self.parts.ports:
            self._senders.append(RingSender(port.interface, ring_bytes=RING_BYTES))
        for port in self.parts.ports:
            # where it goes on: said so that the kernel hands frames over at once, and not sixteen ms later
            other = next(
                one.interface for one in self.parts.ports if one.node == port.node and one is not port
            )
            listen = ListenSettings(
                kind="mirror", interface=port.interface, output=other, ring_bytes=RING_BYTES
            )
            listener = RingListener(listen)
            listener.open()
            self._listeners.append(listener)
            self._poll.register(listener.fileno(), select.EPOLLIN)
        self._rows = {listener.fileno(): row for row, listener in enumerate(self._listeners)}

    def turn(self, seconds: float) -> int:
        """Wait for frames, at most so long, and move what is there; how many came. Raises CaptureError."""
        moved = 0
        for handle, _ in self._poll.poll(seconds):
            moved += self._move(self._rows[handle])
        for sender in self._senders:
            if sender.waiting:
                sender.flush()
        return moved

    def _move(self, row: int) -> int:
        import numpy as np

        listener, node, moved = self._listeners[row], self.parts.ports[row].node, 0
        while batch := listener.receive():
            for frame in batch.frames:
                raw = batch.arena[int(frame["offset"]) : int(frame["offset"]) + int(frame["length"])]
                ways = self._next.get((node, self._hosts.get(raw[30:34].tobytes(), -1)))
                if ways:
                    sender = self._senders[ways[0]]
                    (at,) = sender.slots(1)
                    sender.arena[int(at) : int(at) + len(raw)] = raw
                    sender.send(np.array([len(raw)], np.uint32))
            moved += len(batch)
        return moved

    def close(self) -> None:
        """Close the rings."""
        self._poll.close()
        for listener in self._listeners:
            listener.close()
        for sender in self._senders:
            sender.close()


def run(state: State, labelling: LabellingSettings, stop: Stop | None = None) -> None:
    """Be the switches until `stop`, or SIGTERM. Raises HopscopeError."""
    stop = stop or _until_told()
    parts = state.plan()
    registers = Registers.attach(state.registers, writable=True)
    host, _, port = state.export.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as export:
        export.connect((host, int(port)))  # before the namespace, where there is no way to the controller
        enter(parts.switches)
        switches = Switches(parts, registers, labelling, export)
        try:
            switches.open()
            log.logger("switches").info(
                "switching", switches=len(parts.topology.switches), ports=len(parts.ports)
            )
            while not stop.is_set():
                switches.turn(_TURN_SECONDS)
        finally:
            switches.close()


def _until_told() -> Stop:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
