"""A child process of the supervisor: messages in both directions, and how it ends.

Supervisor and child share a socket pair of packets; each packet is one JSON object, with open files if
needed. When the supervisor is gone, the child reads end of file and stops: no child outlives its supervisor
for longer than its own clean-up takes. Roles are functions that take a `Child`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base import log
from ...base.process.title import show_name
from ...capture.udp.counted_drops import CountedDrops, SocketDrops
from ...settings.collector import Settings

PACKET_BYTES = 1 << 17
MAX_FILES = 253  # SCM_MAX_FD
TICK_SECONDS = 1.0
"""Interval at which a running process sends a sign of life."""
_TICK = json.dumps({"tick": True}).encode()


def send(channel: socket.socket, message: dict[str, Any], files: Sequence[int] = ()) -> None:
    """Send one packet; BrokenPipeError if the other end is gone."""
    socket.send_fds(channel, [json.dumps(message).encode()], list(files))


def receive(channel: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one packet and its open files; (None, []) if the other end is gone."""
    try:
        packet, files, _, _ = socket.recv_fds(channel, PACKET_BYTES, MAX_FILES)
    except ConnectionResetError:
        return None, []
    return (json.loads(packet) if packet else None), list(files)


@dataclass(frozen=True, slots=True)
class Share:
    """Identifies a socket of a listener."""

    listener: int
    """Number of the listener."""
    drops: SocketDrops


@dataclass(frozen=True, slots=True)
class NewListener:
    """A new socket for an interface that has come back."""

    place: int
    """Index of the process's socket that it replaces."""
    handle: socket.socket
    gap_ns: int
    """How long the interface was gone."""


class _StopEvent(threading.Event):
    """The event that ends a role; `looked` is called whenever the role's loop checks it."""

    def __init__(self, looked: Callable[[], None]) -> None:
        super().__init__()
        self._looked = looked

    def is_set(self) -> bool:
        self._looked()
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        self._looked()
        return super().wait(timeout)


class Child:
    """The child's end: its settings, its sockets, and the channel to the supervisor."""

    def __init__(self, role: str, channel: socket.socket) -> None:
        self.role = role
        self._channel = channel
        self._sockets: list[int] | None = None
        self.shares: list[Share] = []
        """Describes each socket, once `sockets` has returned."""
        self.bypass: int | None = None
        """Descriptor of the heartbeats, in a sink with a bypass, once `sockets` has returned."""
        self._given = threading.Event()
        self.listeners: deque[NewListener] = deque()
        """Sockets that replace earlier ones, for the role to take."""
        self._assigned = threading.Event()
        self.stop = _StopEvent(self._tick)
        """Set when the process should end. A role that does not check it for long counts as hung."""
        self._tick_at = 0.0
        self.orphaned = threading.Event()
        """Set before `stop` if the supervisor is gone."""
        self.released = threading.Event()
        """Set before `stop` if another process continues the work of this one."""
        self.started = False
        """Whether the process has anything to clean up. Until then, while it compiles, it ends at once."""
        message, _ = receive(channel)
        if message is None:
            raise SystemExit(0)
        show_name(message["name"])
        self.index: int = message.get("index", 0)
        """Number of this worker."""
        self.settings = Settings.model_validate(message["settings"])
        self.data = Path(message["data"])
        self.regions = Path(message["regions"])

    def begin(self) -> None:
        """Report that it works; from now on it has something to clean up."""
        self.started = True
        self.report(ready=True)

    def rest(self, status: str) -> None:
        """Do nothing until `stop`: settings that were read again need it no more. `status`: its file."""
        self.begin()
        (self.regions / status).unlink(missing_ok=True)
        while not self.stop.wait(0.5):
            pass

    def notify(self, line: str) -> None:
        """Send a line for the supervisor's log."""
        self.report(message=line)

    def warn(self, line: str) -> None:
        """Send a warning for the supervisor's log."""
        self.report(warning=line)

    def report(self, **message: Any) -> None:
        """Send the supervisor `ready`, `warm`, `message`, `warning`, `error`, `names` or (`_tick`) `tick`."""
        try:
            send(self._channel, message)
        except OSError:
            self.stop.set()

    def _tick(self) -> None:
        """Send the supervisor a sign of life once a second, without blocking."""
        now = time.monotonic()
        if now >= self._tick_at:
            self._tick_at = now + TICK_SECONDS
            with suppress(OSError):
                self._channel.send(_TICK, socket.MSG_DONTWAIT)

    def sockets(self) -> list[socket.socket]:
        """Wait for the sockets that the supervisor opened for this process. Empty: the process is to end."""
        while not self._given.wait(0.05):
            if self.stop.is_set():
                return []
        return [socket.socket(fileno=descriptor) for descriptor in self._sockets or []]

    def assigned(self) -> bool:
        """As a standby, wait for the `index` of the worker to replace. False: the process is to end."""
        while not self._assigned.wait(0.05):
            if self.stop.is_set():
                return False
        return True

    def watch(self) -> None:
        """Follow the channel in a separate thread.

        Ignore the signals that a terminal or systemd sends to all processes. The supervisor handles them and
        ends its children in order: a detector that ended before its workers would lose their last reports.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._follow, name="channel", daemon=True).start()

    def _end(self) -> None:
        if not self.started:
            os._exit(0)
        self.stop.set()

    def _follow(self) -> None:
        """Take the supervisor's messages; the process ends when the supervisor does."""
        try:
            self._take_messages()
        finally:
            self.orphaned.set()
            self._end()

    def _take_messages(self) -> None:
        while True:
            message, files = receive(self._channel)
            if message is None:
                return
            if "listener" in message:
                handle = socket.socket(fileno=files[0])
                self.listeners.append(NewListener(message["listener"], handle, message["gap_ns"]))
            if "log" in message:
                log.configure(**message["log"])
            if "index" in message:
                self.index = message["index"]
                show_name(message["name"])
                self._assigned.set()
            if "release" in message:
                self.released.set()
            if "stop" in message:
                self._end()
            if "sockets" in message:
                self._sockets, rest = files[: message["sockets"]], files[message["sockets"] :]
                more = dict(zip(message.get("more", ()), rest, strict=True))
                self.bypass = more.get("bypass")
                if "drops" in more:
                    with closing(CountedDrops(more["drops"])) as drops:
                        self.shares = [
                            Share(listener, drops.of_socket(number, before))
                            for listener, number, before in message["shares"]
                        ]
                self._given.set()
