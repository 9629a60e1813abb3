"""The supervisor: owns the data folder, starts and restarts the other processes, takes changes."""

from __future__ import annotations

import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from subprocess import TimeoutExpired
from typing import Any

import numpy as np

from ...base import log
from ...base.errors import HopscopeError
from ...base.names import DISCOVERED, Names
from ...base.process.service import Service
from ...capture.sockets import bind_share, require_linux
from ...control import rules
from ...control.status import read_status
from ...detect.counters import COUNTERS, DETECTOR, INDEX, attach_counters, counter_files
from ...detect.links import read_links
from ...detect.thresholds import CONTROL_FILE, create_control
from ...history.writing.start_clock import StartClock, check_clock
from ...labels.counters import LABEL_COUNTERS
from ...memory.data_folder import DataFolder
from ...memory.private_file import HASH_SECRET, hash_secret
from ...settings.collector import Settings
from ...settings.source import url
from ..checks.environment import memory_text
from ..labels.process import listen_settings
from ..pipeline.mode import mode_of
from ..pipeline.shard import keep_leftovers
from ..pipeline.summary import summary_lines
from ..processes import fork_server
from ..processes.child import receive, send
from ..processes.processors import check as check_processors
from ..warmup import steps_for
from .control import ControlServer
from .listeners import Listeners
from .live_limits import LiveLimits
from .member import Member
from .reload import SHOW_NAMES, reload
from .take_over import VERSION as TAKE_OVER_VERSION
from .take_over import Estate, hand_over, may_take_over, take_over
from .tracking import answer_rules
from .watch import Watch, limit_of

STOP_SECONDS = 15.0
"""How long a process may take to end before it is killed."""
TURN_SECONDS = 0.1
EXIT_SECONDS = 0.05
"""How long a process may take to end once its channel is closed."""
STANDBY_SECONDS = 1.0
"""Pause before the next standby starts: the one that took over is busy until then."""
SILENT_SECONDS = 2.0, 10.0
"""How long a start may be silent: at first, and after each line, until one says what it waits for."""
FORK_SERVER = "fork-server"


class CollectorError(HopscopeError):
    """The collector could not start, or one of its processes kept ending."""


class Supervisor:
    """A collector: `start` it, `turn` it until it should end, `stop` it.

    Raises HopscopeError (one line) if it cannot start, or if a process that receives (a worker, the
    detector; without workers, that of the labels) ended MAX_EXITS times within a minute.  Any other process
    that does so is left stopped for a while: capture goes on.
    """

    def __init__(self, settings: Settings, *, take_over: bool = False) -> None:
        """`take_over`: go on where the sink that runs on this data folder is, if there is one."""
        self.settings = settings
        self._inherits = take_over
        self._inherited: list[int] = []
        """Locks of a sink that this one took over from, after the fork server had started."""
        self._collecting = False
        self.folder = DataFolder(settings.data, settings.regions, keep_leftovers)
        self.url: str | None = None
        """Address of the console and the API on this machine, once started."""
        self.bound: str | None = None
        """The same as it is listened on, `0.0.0.0` if on all addresses."""
        self.labels: str | None = None
        """Address on which labels are taken."""
        self._server = Member(FORK_SERVER, FORK_SERVER)
        self.members: list[Member] = []
        self._control = ControlServer(self.folder.path, self._answer)
        self._log = log.logger("supervisor")
        self._selector = selectors.DefaultSelector()
        self._limits: LiveLimits | None = None
        self._changing = threading.Lock()
        """Held while limits change, by a request or a reload."""
        self._listeners = Listeners(settings)
        self._watch = Watch()
        self._clock = StartClock()
        self._standby: Member | None = None
        """Takes over from a worker that ends, at once: frames that should go on wait for it."""
        self._receiving = ("worker", DETECTOR) if settings.workers else ("labels",)
        """Roles without which there is no collector."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[0]
        self.stopping = threading.Event()
        """Set it to end the collector, even while it starts."""
        self.last_counters: dict[str, int] = {}
        """Counters of all workers after they ended."""

    # ---------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Own the folder, bind everything, start all processes; return once all that receive do so."""
        with suppress(HopscopeError, OSError):  # `acquire` says what is wrong with the folder
            self._clock = check_clock(self.folder.path)
        try:
            estate = self._inherit() if self._inherits else None
            if estate is None:
                self.folder.acquire()
                self.folder.remove_orphans(self._log.warning)
            if self._clock.problem:
                self._log.warning(self._clock.problem)
            if not hash_secret(self.folder.path):
                self._log.warning("hashes are not secret: others can read this file", file=HASH_SECRET)
            self._start(estate)
        except BaseException:
            self.stop()
            raise

    def _inherit(self) -> Estate | None:
        """Take over from the sink that runs, once kernels are loaded; None: no sink runs."""
        sources = self._listeners.sources()
        if not may_take_over(self.folder.path, sources):
            return None
        self._prepare()
        self._load_kernels()
        self._await([self._server], "warm")
        if self.stopping.is_set():
            raise CollectorError("--take-over: stopped before; the running sink goes on")
        estate = take_over(self.folder.path, sources)
        self._inherited = estate.locks
        self.folder.adopt(estate.regions, estate.locks)
        return estate

    def _prepare(self) -> None:
        """Start the fork server, and report errors in files that the settings name, once."""
        settings = self.settings
        check_processors(settings)
        if not settings.listen and not settings.label.listen:
            raise CollectorError("nothing to collect: set listen or label.listen")
        self.members = [self._server]
        self._launch(self._server)  # before this process has threads
        _check_needed(settings)
        if settings.label.redis:
            from ...export.kinds import require_client

            require_client("label.redis")
        if settings.destinations or settings.metrics:
            from ...export.kinds import check_exports

            check_exports(settings)
        read_links(settings.postcards.links)

    def _start(self, estate: Estate | None) -> None:
        settings = self.settings
        if estate is None:
            self._prepare()
        control, sink = self.folder.regions / CONTROL_FILE, settings.sink.enabled
        self._limits = LiveLimits(
            create_control(control, settings.limits, sink=sink), settings, self.folder.path
        )
        self._limits.resume(self._log.warning)
        self._set_rules()
        workers = [Member(f"worker-{i}", "worker", i) for i in range(settings.workers)]
        if estate is not None:
            self._listeners.adopt(estate)
            self.members += workers
            for member in workers:  # at once: frames wait
                self._launch(member)
        detectors = self._make_queues()
        receivers = workers + detectors
        page = Member("serve", "serve")
        if settings.serve.enabled:
            from ...serve.server import bind, url_of

            listener = bind(settings.serve, self.folder.path)
            page.sockets.append(listener)
            tls = settings.serve.cert_file is not None
            self.url, self.bound = url_of(listener, tls=tls), url_of(listener, bound=True, tls=tls)
        helpers = [page] if settings.serve.enabled else []
        helpers.append(Member("archive", "archive"))
        if settings.destinations or settings.metrics:
            helpers.append(Member("export", "export"))
        if settings.names_from:
            helpers.append(Member("names", "names"))
        else:
            (self.folder.path / DISCOVERED).unlink(missing_ok=True)
        if settings.switches:
            helpers.append(Member("control", "control"))
        if settings.cluster.enabled:
            helpers.append(Member("cluster", "cluster"))
        if settings.lake.enabled:
            helpers.append(Member("lake", "lake"))
        if estate is None:
            self._listeners.probe()
        labels = self._open_labels()
        self._write_owner()
        self._control.start()
        self.members = [self._server, *receivers, *helpers, *labels]
        for member in helpers:  # they need no kernels, which may take a minute to compile
            self._launch(member)
        if estate is None:
            self._load_kernels()
            self._await([self._server], "warm")
        for member in receivers + labels:
            if member.process is None and not member.due and not self.stopping.is_set():
                self._launch(member)
        self._await(receivers, "warm")
        if estate is None:
            self._listeners.open()
            for member in workers:
                self._send_sockets(member)
        if self._listeners.interfaces is not None:
            self._selector.register(
                self._listeners.interfaces, selectors.EVENT_READ, self._listeners.interfaces.drain
            )
        self._await(receivers + labels, "ready")
        self._write_owner()
        if any(listen.output for listen in settings.listen):
            self._standby = Member("standby", "standby", due=time.monotonic())
            self.members.append(self._standby)
        self._collecting = True

    def turn(self) -> None:
        """Wait a tenth of a second for reports of the processes; restart those that ended and are due."""
        for key, _ in self._selector.select(TURN_SECONDS):
            key.data()
        if self._control.heir is not None:
            self.stopping.set()
        for worker, message, files in self._listeners.follow():
            for member in self.members:
                if (member.role, member.index) == ("worker", worker):
                    self._send(member, message, files)
        now = time.monotonic()
        for member in self._watch.hung(self.members, now):
            self._kill_hung(member)
        for member in self.members:
            if member.process is not None and member.process.poll() is not None:
                self._reap(member)
            if member.process is not None and member.renewed and now >= member.renewed:
                member.renewed = inf
                self._kill(member)
            if member.process is None and member.due and now >= member.due and self._can_start(member):
                member.restarts += self._launch(member) and bool(member.exits)

    def reload(self, settings: Settings, author: str) -> None:
        """Take what may change from new settings; log it, and what needs a restart and stays.

        Limits are those of the settings again. Raises ValueError, HopscopeError: nothing has changed.
        """
        _check_needed(settings)
        if settings.destinations or settings.metrics:
            from ...export.kinds import check_exports

            check_exports(settings)
        found = reload(self.settings, settings)
        assert self._limits is not None
        with self._changing:
            self._limits.configure(found.settings, author)
            self.settings = settings = found.settings
            self._set_rules()
        form = {"level": settings.log.level, "form": settings.log.format}
        log.configure(level=form["level"], form=form["form"])
        for member in self.members:
            self._send(member, {"log": form})
        self._renew(found.roles)
        for role in found.roles & {"export", "names", "control", "cluster", "lake"} - {
            member.role for member in self.members
        }:
            self.members.append(Member(role, role, due=time.monotonic()))
        self._write_owner()
        self._log.info("settings read again", by=author, changed=found.changed)
        if found.left:
            self._log.warning("settings that need a restart, which stay as they were", settings=found.left)

    def _set_rules(self) -> None:
        """The rules of switches are those of the settings."""
        if self.settings.switches:
            rules.write_rules(self.folder.regions, rules.configured(self.settings))

    def _renew(self, roles: Iterable[str]) -> None:
        """End processes that are to start again."""
        for member in self.members:
            if member.role in roles and member.process is not None:
                member.renewed = time.monotonic() + STOP_SECONDS
                member.process.terminate()

    def stop(self) -> None:
        """End all processes, workers first; then give the folder back. It may be called at any time.

        If another sink takes over, helpers end first: workers forward to the last moment.
        """
        if self._server.process is not None:
            self._server.process.kill()  # it has nothing to clean up
        heir = self._control.heir
        roles = [
            "standby",
            "worker",
            DETECTOR,
            "labels",
            "control",
            "cluster",
            "export",
            "lake",
            "archive",
            "names",
        ]
        roles.append("serve")
        roles.append(FORK_SERVER)
        if heir is not None:
            roles = [*roles[2:], *roles[:2]]
        for role in roles:
            self._end_all([m for m in self.members if m.role == role], released=heir is not None)
        if self.folder.lock >= 0:
            self.last_counters = self.counters()
            self.folder.events_wait |= any(
                self.last_counters[key] for key in ("journal_waiting_events", "label_waiting_events")
            )
        self._control.close()
        for member in self.members:
            for listener in member.sockets:
                listener.close()
            member.sockets.clear()
        left = heir is not None and self._leave(heir)
        self._listeners.close(left=left)
        self._selector.close()
        self.folder.close(left=left)
        fork_server.disown()

    def _leave(self, heir: socket.socket) -> bool:
        """Leave everything to the sink that takes over; False: it is gone."""
        with heir:
            try:
                hand_over(heir, self._listeners.leave(self.folder.regions, self.folder.locks))
            except OSError as error:
                self._log.error("the sink that takes over is gone", reason=error.strerror)
                return False
        self._log.info("another sink has taken over")
        return True

    def _end_all(self, members: Iterable[Member], *, released: bool) -> None:
        """End these; `released`: workers leave what they have not taken to others."""
        running = [member for member in members if member.process is not None]
        for member in running:
            if released and member.role == "worker":
                self._send(member, {"release": True})
            else:
                member.process.terminate()  # type: ignore[union-attr]
        until = time.monotonic() + STOP_SECONDS
        for member in running:
            self._end(member, until)

    def _end(self, member: Member, until: float) -> None:
        assert member.process is not None
        try:
            member.process.wait(max(0.1, until - time.monotonic()))
        except TimeoutExpired:
            self.folder.events_wait = True
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

    def _kill_hung(self, member: Member) -> None:
        """Kill a process that stands still; it is restarted as any other that ends."""
        assert member.process is not None
        member.error = f"it hung for {limit_of(member):g} s, and was killed"
        member.process.kill()

    def _make_queues(self) -> list[Member]:
        """The detector, if there is one, with its queues; else none."""
        mode = mode_of(self.settings)
        mode.make_queues(self.folder.regions)
        return [Member(DETECTOR, DETECTOR)] if mode.has_detector else []

    # ---------------------------------------------------------------------------------- processes

    def _can_start(self, member: Member) -> bool:
        """Whether a process can be started now: roles are forked by a server that loads nothing.

        Raises CollectorError if one that receives waits for a server that keeps ending.
        """
        if member is self._server or (self._server.warm and self._server.channel is not None):
            return True
        if self._server.stopped and member.role in self._receiving:
            raise CollectorError(self._server.exits_text)
        return False

    def _load_kernels(self) -> None:
        """Let the server load what roles call; it forks nothing meanwhile."""
        self._send(self._server, {"load": steps_for(self.settings)})

    def _launch(self, member: Member) -> bool:
        """Start a process; False: the fork server did not answer, and is restarted first."""
        if member is self._server:
            member.started(*fork_server.start([lock for lock in self.folder.locks if lock >= 0]))
            self._follow(member)
            if member.exits:
                self._load_kernels()
            return True
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            send(ours, {
                "name": member.name,
                "index": member.index,
                "settings": self.settings.model_dump(mode="json"),
                "data": str(self.folder.path),
                "regions": str(self.folder.regions),
            }, self._inherited)  # fmt: skip
            try:
                member.started(fork_server.fork(self._server.channel, member.role, theirs), ours)
            except fork_server.ForkServerError as error:
                ours.close()
                member.due = time.monotonic()
                self._server.error, self._server.warm = str(error), False
                if self._server.process is not None:
                    self._server.process.kill()
                return False
        self._follow(member)
        self._send_sockets(member)
        return True

    def _follow(self, member: Member) -> None:
        self._selector.register(member.channel, selectors.EVENT_READ, partial(self._receive, member))

    def _send_sockets(self, member: Member) -> None:
        """Hand a process the sockets that it receives on, once they are open."""
        if member.role == "worker":
            message, files = self._listeners.of_worker(member.index)
        else:
            files = [listener.fileno() for listener in member.sockets]
            message = {"sockets": len(files)}
        if files:
            self._send(member, message, files)

    def _send(self, member: Member, message: dict[str, Any], files: Sequence[int] = ()) -> None:
        if member.channel is not None:
            with suppress(OSError):  # it has ended: `turn` sees it
                send(member.channel, message, files)

    def _receive(self, member: Member) -> bool:
        """Take one message of a process; False after its last."""
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
            self._renew(SHOW_NAMES)
        return True

    def _await(self, members: list[Member], what: str) -> None:
        """Turn until all of them have reported `what`; if one ends before, so does the program."""
        while not self.stopping.is_set():
            waiting = [member.name for member in members if not getattr(member, what)]
            if not waiting:
                return
            if time.monotonic() >= self._silent_until:
                self._announced()
                self._log.info(
                    "starting", waits_for=["kernels" if each == FORK_SERVER else each for each in waiting]
                )
            self.turn()
            for member in [self._server, *members]:
                if member.exits:
                    raise CollectorError(member.reason)

    def _announced(self) -> None:
        """Something was logged: a start may be silent again for a while."""
        self._silent_until = time.monotonic() + SILENT_SECONDS[1]

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
        """Make the standby this worker, and let another standby start a little later; False without one."""
        standby = self._standby
        if standby is None or standby.process is None or not standby.warm:
            return False
        member.started(standby.process, standby.channel)
        member.restarts += 1
        self._selector.modify(member.channel, selectors.EVENT_READ, partial(self._receive, member))
        standby.process = standby.channel = None
        standby.warm, standby.due = False, time.monotonic() + STANDBY_SECONDS
        self._send(member, {"index": member.index, "name": member.name})
        self._send_sockets(member)
        return True

    def _open_labels(self) -> list[Member]:
        """The process that takes labels, with its socket; none without `label.listen`."""
        if not self.settings.label.listen:
            return []
        member = Member("labels", "labels")
        listen = listen_settings(self.settings.label)
        member.sockets.append(bind_share(listen))
        listen = listen.model_copy(update={"port": member.sockets[0].getsockname()[1]})
        self.labels = url(listen)
        return [member]

    # ---------------------------------------------------------------------------------- for others

    @property
    def listening(self) -> list[str]:
        """Addresses on which reports are received, as `udp://127.0.0.1:32766`."""
        return self._listeners.urls

    def _write_owner(self) -> None:
        names, links = self.settings.names, self.settings.postcards.links
        self.folder.write_owner(
            api=self.url,
            listen=self.listening,
            labels=self.labels,
            names=None if names is None else str(names.absolute()),
            links=None if links is None else str(links.absolute()),
            listeners=[
                {"kind": each.kind, "url": address, "dialect": each.dialect, "output": each.output}
                for each, address in zip(self.settings.listen, self.listening, strict=True)
            ],
            retention=self.settings.history.model_dump(include={"keep_days", "keep_bytes", "keep_free"}),
            sink=self.settings.sink.model_dump(exclude={"report"}) if self.settings.sink.enabled else None,
            clock_problem=self._clock.problem,
            clock_ahead_ns=self._clock.ahead_ns,
        )

    def _answer(self, request: dict[str, Any], author: str) -> dict[str, Any]:
        if "ping" in request:
            return {}
        if "status" in request:
            return {
                "processes": [member.status() for member in self.members],
                "interfaces": self._listeners.status(),
            }
        if "take_over" in request:
            return self._agree(request["take_over"])
        if "switches" in request:
            return {"switches": read_status(self.folder.regions)}
        assert self._limits is not None
        if request.keys() & {"tracked", "set_tracked", "watch", "set_watch"}:
            with self._changing:
                return answer_rules(self.settings, self.folder.regions, request)
        with self._changing:
            answer = self._limits.answer(request, author)
        if answer is None:
            raise ValueError(f"unknown request {next(iter(request))!r}")
        return answer

    def _agree(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Whether another sink may take over, and is answered later; raises ValueError."""
        if not self.settings.sink.enabled:
            raise ValueError("a collector of reports runs here, and only a sink can be taken over")
        if wanted["version"] != TAKE_OVER_VERSION:
            raise ValueError("the running sink is of a version that cannot be taken over by this one")
        if wanted["sources"] != self._listeners.sources():
            found = ", ".join(map(url, self.settings.listen))
            raise ValueError(f"the running sink has other interfaces, workers or rings: {found}")
        if not self._collecting or self.stopping.is_set():
            raise ValueError("the running sink starts or ends")
        return {"later": wanted["now"]}

    def counters(self) -> dict[str, int]:
        """Counters of all workers, and of the process that takes labels, by key."""
        total = np.zeros(len(COUNTERS), np.uint64)
        for path in counter_files(self.folder.regions).values():
            total += attach_counters(path)
        workers = {key: int(total[slot]) for key, slot in INDEX.items()}
        return workers | LABEL_COUNTERS.read(self.folder.regions)


def _check_needed(settings: Settings) -> None:
    """Raises HopscopeError if the file of names cannot be read, or a package to reach devices or the lake is
    missing.
    """
    Names.load(settings.names)
    if settings.lake.enabled:
        from ...lake.extensions import check_lake

        check_lake()
    devices = [each.kind for each in settings.names_from.values()]
    for kind in devices + [each.kind for each in settings.switches.values()]:
        from ...export.kinds import require_client

        require_client(kind)


def run(
    settings: Settings,
    load: Callable[[], Settings],
    ready: Callable[[], object] = lambda: None,
    *,
    take_over: bool = False,
) -> int:
    """Collect until SIGINT or SIGTERM; returns the exit status. Events are logged, the summary is printed.

    `load` reads the settings again, at SIGHUP; `ready` is called once all processes work; `take_over`: from
    the sink that runs on this data folder. At the end of its terminal the collector ends.
    """
    require_linux()
    log.configure(level=settings.log.level, form=settings.log.format)
    supervisor, due = Supervisor(settings, take_over=take_over), threading.Event()
    on_terminal = sys.stderr.isatty()

    def hang_up(*_: object) -> None:
        (supervisor.stopping if on_terminal and not sys.stderr.isatty() else due).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: supervisor.stopping.set())
    signal.signal(signal.SIGHUP, hang_up)
    logger, service = log.logger("supervisor"), Service()
    supervisor.start()
    try:
        if not supervisor.stopping.is_set():
            logger.info(
                "collecting",
                listen=supervisor.listening,
                **({"labels": supervisor.labels} if supervisor.labels else {}),
                memory=memory_text(settings),
                data=str(supervisor.folder.path),
                page=supervisor.bound,
            )
            service.ready()
            ready()
        while not supervisor.stopping.is_set():
            supervisor.turn()
            service.alive()
            fork_server.reap_orphans({m.process.pid for m in supervisor.members if m.process is not None})
            if due.is_set():
                due.clear()
                service.reloading()
                try:
                    supervisor.reload(load(), "SIGHUP")
                except (HopscopeError, ValueError) as error:
                    logger.error("settings not read again", reason=" ".join(str(error).split()))
                service.ready()
    finally:
        service.stopping()
        logger.info("stopping")
        supervisor.stop()
    print("\n".join(summary_lines(supervisor.last_counters)), file=sys.stderr)
    return 0
