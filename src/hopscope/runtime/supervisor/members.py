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
from .member import Member
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


class Members:
    """Runs processes, and restarts those that end. CollectorError: see `Supervisor`."""

    def __init__(
        self, settings: Settings, folder: DataFolder, listeners: Listeners, stopping: threading.Event
    ) -> None:
        """`stopping`: set to abort a start."""
        self.settings = settings
        """The settings that new processes get."""
        self.locks: list[int] = []
        """Locks that were taken over from another sink after the fork server had started."""
        self.server = Member(FORK_SERVER, FORK_SERVER)
        self.all = [self.server]
        self._folder, self._listeners, self._stopping = folder, listeners, stopping
        self._log = log.logger("supervisor")
        self._selector = selectors.DefaultSelector()
        self._watch = Watch()
        self._standby: Member | None = None
        """Replaces a worker that ends, at once, because frames wait to be forwarded."""
        self._receiving = ("worker", DETECTOR) if settings.workers else ("labels",)
        """Roles without which the collector cannot run."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[0]

    def __iter__(self) -> Iterator[Member]:
        return iter(self.all)

    def close(self) -> None:
        """Stop following processes; call it once all have ended."""
        self._selector.close()

    def follow_interfaces(self) -> None:
        """Hand workers new sockets when an interface comes back."""
        if (interfaces := self._listeners.interfaces) is not None:
            self._selector.register(interfaces, selectors.EVENT_READ, interfaces.drain)

    def add(self, role: str) -> Member:
        """Add a process, which starts in the next turn."""
        self.all.append(Member(role, role, due=time.monotonic()))
        return self.all[-1]

    def add_standby(self) -> None:
        """Keep a process ready to replace a worker."""
        self._standby = self.add("standby")

    def turn(self) -> None:
        """Wait a tenth of a second for messages from the processes; restart those that ended and are due."""
        for key, _ in self._selector.select(TURN_SECONDS):
            key.data()
        for worker, message, files in self._listeners.follow():
            for member in self.all:
                if (member.role, member.index) == ("worker", worker):
                    self.send(member, message, files)
        now = time.monotonic()
        for member in self._watch.hung(self.all, now):
            self._kill_hung(member)
        for member in self.all:
            if member.process is not None and member.process.poll() is not None:
                self._reap(member)
            if member.process is not None and member.renewed and now >= member.renewed:
                member.renewed = inf
                self._kill(member)
            if member.process is None and member.due and now >= member.due and self._can_start(member):
                member.restarts += self.launch(member) and bool(member.exits)

    def wait_for(self, members: list[Member], what: str) -> None:
        """Turn until all members have reported `what`. Raises CollectorError if one ends before."""
        while not self._stopping.is_set():
            waiting = [member.name for member in members if not getattr(member, what)]
            if not waiting:
                return
            if time.monotonic() >= self._silent_until:
                self._announced()
                named = ["kernels" if each == FORK_SERVER else each for each in waiting]
                self._log.info("starting", waiting_for=", ".join(named))
            self.turn()
            for member in [self.server, *members]:
                if member.exits:
                    raise CollectorError(member.reason)

    def launch(self, member: Member) -> bool:
        """Start a process; False: the fork server did not answer, and has to be restarted first."""
        if member is self.server:
            member.started(*fork_server.start([lock for lock in self._folder.locks if lock >= 0]))
            self._follow(member)
            if member.exits:
                self.load_kernels()
            return True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            send(ours, {
                "name": member.name,
                "index": member.index,
                "settings": self.settings.model_dump(mode="json"),
                "data": str(self._folder.path),
                "regions": str(self._folder.regions),
            }, self.locks)  # fmt: skip
            try:
                member.started(fork_server.fork(self.server.channel, member.role, theirs), ours)
            except fork_server.ForkServerError as error:
                ours.close()
                member.due = time.monotonic()
                self.server.error, self.server.warm = str(error), False
                if self.server.process is not None:
                    self.server.process.kill()
                return False
        self._follow(member)
        self.send_sockets(member)
        return True

    def renew(self, roles: Iterable[str]) -> None:
        """End the processes of these roles, so that they start again."""
        for member in self.all:
            if member.role in roles and member.process is not None:
                member.renewed = time.monotonic() + STOP_SECONDS
                self.send(member, {"stop": True})

    def end(self, role: str, *, released: bool) -> None:
        """End the processes of a role; `released`: workers leave frames not yet taken to a successor."""
        running = [member for member in self.all if member.role == role and member.process is not None]
        for member in running:
            release = {"release": True} if released and member.role == "worker" else {}
            self.send(member, {"stop": True, **release})
        until = time.monotonic() + STOP_SECONDS
        for member in running:
            self._end_one(member, until)

    def load_kernels(self) -> None:
        """Have the fork server load the roles' kernels; it forks nothing meanwhile."""
        self.send(self.server, {"load": steps_for(self.settings)})

    def send(self, member: Member, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        """Send a message, with descriptors of files, to a process that may have ended."""
        if member.channel is not None:
            with suppress(OSError):  # it has ended: `turn` sees it
                send(member.channel, message, files)

    def send_sockets(self, member: Member) -> None:
        """Hand a process the sockets that it receives on, once they are open."""
        if member.role == "worker":
            message, files = self._listeners.of_worker(member.index)
        elif member.role == "labels":
            message, files = self._listeners.of_labels()
        else:
            files = [listener.fileno() for listener in member.sockets]
            message = {"sockets": len(files)}
        if files:
            self.send(member, message, files)

    def _announced(self) -> None:
        """Note that a line was logged, so that a start may be silent again for a while."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[1]

    def _can_start(self, member: Member) -> bool:
        """Whether a process can be started now: the server forks roles only when it is not loading kernels.

        Raises CollectorError if a receiving role waits for a server that keeps ending.
        """
        if member is self.server or (self.server.warm and self.server.channel is not None):
            return True
        if self.server.stopped and member.role in self._receiving:
            raise CollectorError(self.server.exits_text)
        return False

    def _follow(self, member: Member) -> None:
        self._selector.register(member.channel, selectors.EVENT_READ, partial(self._receive, member))

    def _receive(self, member: Member) -> bool:
        """Take one message from a process; False after the last."""
        message, _ = receive(member.channel)
        if message is None:
            self._selector.unregister(member.channel)
            member.channel.close()
            member.channel = None
            if member.process is not None:
                with suppress(TimeoutExpired):
                    member.process.wait(EXIT_SECONDS)
            return False
        member.ready |= bool(message.get("ready"))
        member.warm |= bool(message.get("warm"))
        if "tick" in message:
            member.tick()
        member.error = message.get("error", member.error)
        if "message" in message:
            self._log.info(message["message"])
            self._announced()
        if "warning" in message:
            self._log.warning(message["warning"])
        if "names" in message:
            self._log.info("names of devices have changed")
            self.renew(SHOW_NAMES)
        return True

    def _reap(self, member: Member) -> None:
        while member.channel is not None and self._receive(member):
            pass
        if member.renewed:
            member.process, member.due = None, time.monotonic()
            return
        pause = member.exited(time.monotonic())
        if member.role == "worker" and not member.stopped and self._take_over(member):
            self._log.warning("taken over by the standby", process=member.name, reason=member.last_error)
        elif not member.stopped:
            self._log.warning(
                "restarting", process=member.name, reason=member.last_error, after_seconds=pause
            )
        elif member.role in self._receiving:
            raise CollectorError(member.exits_text)
        else:
            self._log.error("left stopped", process=member.exits_text, next_start_seconds=pause)

    def _take_over(self, member: Member) -> bool:
        """Let the standby replace this worker, and start another a little later; False: there is none."""
        standby = self._standby
        if standby is None or standby.process is None or not standby.warm:
            return False
        member.started(standby.process, standby.channel)
        member.restarts += 1
        self._selector.modify(member.channel, selectors.EVENT_READ, partial(self._receive, member))
        standby.process = standby.channel = None
        standby.warm, standby.due = False, time.monotonic() + STANDBY_SECONDS
        self.send(member, {"index": member.index, "name": member.name})
        self.send_sockets(member)
        return True

    def _kill_hung(self, member: Member) -> None:
        """Kill a hung process; it is restarted like any other process that ends."""
        assert member.process is not None
        member.error = f"it hung for {limit_of(member):g} s, and was killed"
        member.process.kill()

    def _end_one(self, member: Member, until: float) -> None:
        assert member.process is not None
        try:
            member.process.wait(max(0.1, until - time.monotonic()))
        except TimeoutExpired:
            self._folder.events_wait = True
            self._kill(member)
            member.process.wait()
        while member.channel is not None and self._receive(member):
            pass
        if member.error:
            self._log.warning("ended with an error", process=member.name, reason=member.error)
        member.process = None

    def _kill(self, member: Member) -> None:
        """Kill a process that was asked to end."""
        assert member.process is not None
        self._log.warning("killed, because it did not stop", process=member.name)
        member.process.kill()
