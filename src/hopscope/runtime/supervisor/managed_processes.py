"""The processes of a collector: started, followed, restarted or replaced by a standby, and ended."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from subprocess import TimeoutExpired
from typing import Any

from ...base import log
from ...base.errors import HopscopeError
from ...detect.counters import DETECTOR
from ...memory.data_folder import DataFolder
from ...settings.collector import Settings
from ..processes import fork_server
from ..processes.child import receive, send
from ..warmup import steps_for
from .listeners import Listeners
from .managed_process import ManagedProcess
from .reload import SHOW_NAMES
from .watch import Watch, limit_of

STOP_SECONDS = 15.0
"""How long a process may take to end before it is killed."""
TURN_SECONDS = 0.1
EXIT_SECONDS = 0.05
"""How long a process may take to end once its channel is closed."""
STANDBY_SECONDS = 1.0
"""Pause before the next standby starts: the one that took over is busy until then."""
SILENT_SECONDS = 2.0, 10.0
"""How long a start may log nothing, at first and after each line, until a line says what it waits for."""
FORK_SERVER = "fork-server"


class CollectorError(HopscopeError):
    """The collector could not start, or one of its processes kept ending."""


class ManagedProcesses:
    """Runs processes, and restarts those that end. CollectorError: see `Supervisor`."""

    def __init__(
        self, settings: Settings, folder: DataFolder, listeners: Listeners, stopping: threading.Event
    ) -> None:
        """`stopping`: set to abort a start."""
        self.settings = settings
        """The settings that new processes get."""
        self.locks: list[int] = []
        """Locks that were taken over from another sink after the fork server had started."""
        self.server = ManagedProcess(FORK_SERVER, FORK_SERVER)
        self.all = [self.server]
        self._folder, self._listeners, self._stopping = folder, listeners, stopping
        self._log = log.logger("supervisor")
        self._selector = selectors.DefaultSelector()
        self._watch = Watch()
        self._standby: ManagedProcess | None = None
        """Replaces a worker that ends, at once, because frames wait to be forwarded."""
        self._receiving = ("worker", DETECTOR) if settings.workers else ("labels",)
        """Roles without which the collector cannot run."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[0]

    def __iter__(self) -> Iterator[ManagedProcess]:
        return iter(self.all)

    def close(self) -> None:
        """Stop following processes; call it once all have ended."""
        self._selector.close()

    def follow_interfaces(self) -> None:
        """Hand workers new sockets when an interface comes back."""
        if (interfaces := self._listeners.interfaces) is not None:
            self._selector.register(interfaces, selectors.EVENT_READ, interfaces.drain)

    def add(self, role: str) -> ManagedProcess:
        """Add a process, which starts in the next turn."""
        self.all.append(ManagedProcess(role, role, due=time.monotonic()))
        return self.all[-1]

    def add_standby(self) -> None:
        """Keep a process ready to replace a worker."""
        self._standby = self.add("standby")

    def turn(self) -> None:
        """Wait a tenth of a second for messages from the processes; restart those that ended and are due."""
        for key, _ in self._selector.select(TURN_SECONDS):
            key.data()
        for worker, message, files in self._listeners.follow():
            for managed in self.all:
                if (managed.role, managed.index) == ("worker", worker):
                    self.send(managed, message, files)
        now = time.monotonic()
        for managed in self._watch.hung(self.all, now):
            self._kill_hung(managed)
        for managed in self.all:
            if managed.process is not None and managed.process.poll() is not None:
                self._reap(managed)
            if managed.process is not None and managed.renewed and now >= managed.renewed:
                managed.renewed = inf
                self._kill(managed)
            if managed.process is None and managed.due and now >= managed.due and self._can_start(managed):
                managed.restarts += self.launch(managed) and bool(managed.exits)

    def wait_for(self, processes: list[ManagedProcess], what: str) -> None:
        """Turn until all of them have reported `what`. Raises CollectorError if one ends before."""
        while not self._stopping.is_set():
            waiting = [managed.name for managed in processes if not getattr(managed, what)]
            if not waiting:
                return
            if time.monotonic() >= self._silent_until:
                self._announced()
                named = ["kernels" if each == FORK_SERVER else each for each in waiting]
                self._log.info("starting", waiting_for=", ".join(named))
            self.turn()
            for managed in [self.server, *processes]:
                if managed.exits:
                    raise CollectorError(managed.reason)

    def launch(self, managed: ManagedProcess) -> bool:
        """Start a process; False: the fork server did not answer, and has to be restarted first."""
        if managed is self.server:
            managed.started(*fork_server.start([lock for lock in self._folder.locks if lock >= 0]))
            self._follow(managed)
            if managed.exits:
                self.load_kernels()
            return True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            send(ours, {
                "name": managed.name,
                "index": managed.index,
                "settings": self.settings.model_dump(mode="json"),
                "data": str(self._folder.path),
                "regions": str(self._folder.regions),
            }, self.locks)  # fmt: skip
            try:
                managed.started(fork_server.fork(self.server.channel, managed.role, theirs), ours)
            except fork_server.ForkServerError as error:
                ours.close()
                managed.due = time.monotonic()
                self.server.error, self.server.warm = str(error), False
                if self.server.process is not None:
                    self.server.process.kill()
                return False
        self._follow(managed)
        self.send_sockets(managed)
        return True

    def renew(self, roles: Iterable[str]) -> None:
        """End the processes of these roles, so that they start again."""
        for managed in self.all:
            if managed.role in roles and managed.process is not None:
                managed.renewed = time.monotonic() + STOP_SECONDS
                self.send(managed, {"stop": True})

    def end(self, role: str, *, released: bool) -> None:
        """End the processes of a role; `released`: workers leave frames not yet taken to a successor."""
        running = [managed for managed in self.all if managed.role == role and managed.process is not None]
        for managed in running:
            release = {"release": True} if released and managed.role == "worker" else {}
            self.send(managed, {"stop": True, **release})
        until = time.monotonic() + STOP_SECONDS
        for managed in running:
            self._end_one(managed, until)

    def load_kernels(self) -> None:
        """Have the fork server load the roles' kernels; it forks nothing meanwhile."""
        self.send(self.server, {"load": steps_for(self.settings)})

    def send(self, managed: ManagedProcess, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Send a message, with descriptors of files, to a process that may have ended."""
        if managed.channel is not None:
            with suppress(OSError):  # it has ended: `turn` sees it
                send(managed.channel, message, files)

    def send_sockets(self, managed: ManagedProcess) -> None:
        """Hand a process the sockets that it receives on, once they are open."""
        if managed.role == "worker":
            message, files = self._listeners.of_worker(managed.index)
        elif managed.role == "labels":
            message, files = self._listeners.of_labels()
        else:
            files = [listener.fileno() for listener in managed.sockets]
            message = {"sockets": len(files)}
        if files:
            self.send(managed, message, files)

    def _announced(self) -> None:
        """Note that a line was logged, so that a start may be silent again for a while."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[1]

    def _can_start(self, managed: ManagedProcess) -> bool:
        """Whether a process can be started now: the server forks roles only when it is not loading kernels.

        Raises CollectorError if a receiving role waits for a server that keeps ending.
        """
        if managed is self.server or (self.server.warm and self.server.channel is not None):
            return True
        if self.server.stopped and managed.role in self._receiving:
            raise CollectorError(self.server.exits_text)
        return False

    def _follow(self, managed: ManagedProcess) -> None:
        self._selector.register(managed.channel, selectors.EVENT_READ, partial(self._receive, managed))

    def _receive(self, managed: ManagedProcess) -> bool:
        """Take one message from a process; False after the last."""
        message, _ = receive(managed.channel)
        if message is None:
            self._selector.unregister(managed.channel)
            managed.channel.close()
            managed.channel = None
            if managed.process is not None:
                with suppress(TimeoutExpired):
                    managed.process.wait(EXIT_SECONDS)
            return False
        managed.ready |= bool(message.get("ready"))
        managed.warm |= bool(message.get("warm"))
        if "tick" in message:
            managed.tick()
        managed.error = message.get("error", managed.error)
        if "message" in message:
            self._log.info(message["message"])
            self._announced()
        if "warning" in message:
            self._log.warning(message["warning"])
        if "names" in message:
            self._log.info("names of devices have changed")
            self.renew(SHOW_NAMES)
        return True

    def _reap(self, managed: ManagedProcess) -> None:
        while managed.channel is not None and self._receive(managed):
            pass
        if managed.renewed:
            managed.process, managed.due = None, time.monotonic()
            return
        pause = managed.exited(time.monotonic())
        if managed.role == "worker" and not managed.stopped and self._take_over(managed):
            self._log.warning("taken over by the standby", process=managed.name, reason=managed.last_error)
        elif not managed.stopped:
            self._log.warning(
                "restarting", process=managed.name, reason=managed.last_error, after_seconds=pause
            )
        elif managed.role in self._receiving:
            raise CollectorError(managed.exits_text)
        else:
            self._log.error("left stopped", process=managed.exits_text, next_start_seconds=pause)

    def _take_over(self, managed: ManagedProcess) -> bool:
        """Let the standby replace this worker, and start another a little later; False: there is none."""
        standby = self._standby
        if standby is None or standby.process is None or not standby.warm:
            return False
        managed.started(standby.process, standby.channel)
        managed.restarts += 1
        self._selector.modify(managed.channel, selectors.EVENT_READ, partial(self._receive, managed))
        standby.process = standby.channel = None
        standby.warm, standby.due = False, time.monotonic() + STANDBY_SECONDS
        self.send(managed, {"index": managed.index, "name": managed.name})
        self.send_sockets(managed)
        return True

    def _kill_hung(self, managed: ManagedProcess) -> None:
        """Kill a hung process; it is restarted like any other process that ends."""
        assert managed.process is not None
        managed.error = f"it hung for {limit_of(managed):g} s, and was killed"
        managed.process.kill()

    def _end_one(self, managed: ManagedProcess, until: float) -> None:
        assert managed.process is not None
        try:
            managed.process.wait(max(0.1, until - time.monotonic()))
        except TimeoutExpired:
            self._kill(managed)
            managed.process.wait()
        while managed.channel is not None and self._receive(managed):
            pass
        if managed.error:
            self._log.warning("ended with an error", process=managed.name, reason=managed.error)
        if managed.process.returncode:
            managed.exited(time.monotonic())
        managed.process = None

    def _kill(self, managed: ManagedProcess) -> None:
        """Kill a process that was asked to end."""
        assert managed.process is not None
        self._log.warning("killed, because it did not stop", process=managed.name)
        managed.process.kill()
