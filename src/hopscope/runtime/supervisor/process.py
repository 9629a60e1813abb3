"""The supervisor: owns the data folder, decides which processes run, and applies changes."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from ...base import log
from ...base.errors import HopscopeError
from ...base.names import DISCOVERED
from ...base.process.service import Service
from ...control import rules
from ...control.status import read_status
from ...detect.counters import COUNTERS, DETECTOR, attach_counters, by_key, counter_files
from ...detect.records import EVENT_VERSION
from ...detect.thresholds import CONTROL_FILE, create_control
from ...history.files.layout import reject_later
from ...history.writing.start_clock import StartClock, check_clock
from ...labels.counters import LABEL_COUNTERS
from ...memory.data_folder import DataFolder
from ...memory.private_file import HASH_SECRET, hash_secret
from ...settings.collector import Settings
from ...settings.source import url
from ..labels.process import listen_settings
from ..pipeline.lost_alarms import end_alarms
from ..pipeline.mode import mode_of
from ..pipeline.shard import keep_leftovers
from ..processes import fork_server
from ..processes.processors import check as check_processors
from .control import ControlServer
from .listeners import Listeners
from .live_limits import LiveLimits
from .managed_process import ManagedProcess
from .managed_processes import FORK_SERVER, CollectorError, ManagedProcesses
from .reload import reload, stamps
from .requirements import check_requirements
from .reserved_numbers import reserve_numbers
from .stored_sockets import StoredSockets
from .take_over import VERSION as TAKE_OVER_VERSION
from .take_over import InheritedState, hand_over, may_take_over, take_over
from .tracking import answer_rules


def helpers_of(settings: Settings) -> dict[str, bool]:
    """Whether the settings use each helper, in the order in which helpers end: all processes other than the
    API and those that receive.
    """
    return {
        "control": bool(settings.switches),
        "cluster": settings.cluster.enabled,
        "export": bool(settings.destinations or settings.metrics),
        "lake": settings.lake.enabled,
        "archive": True,
        "names": bool(settings.names_from),
    }


class Supervisor:
    """A collector: `start` it, `turn` it until it should end, `stop` it.

    Raises HopscopeError (one line) if it cannot start, or if a process that receives (a worker, the
    detector; without workers, that of the labels) ended MAX_EXITS times within a minute. Any other process
    that does so is left stopped for a while: capture goes on.
    """

    def __init__(
        self, settings: Settings, *, take_over: bool = False, service: Service | None = None
    ) -> None:
        """`take_over`: continue from the sink that runs on this data folder, if there is one. `service`: the
        unit whose sockets systemd keeps.
        """
        self.settings = settings
        self._files = stamps(settings)
        """Stamps of the files as the processes have read them."""
        self._inherits = take_over
        self._collecting = False
        self.folder = DataFolder(settings.data, settings.regions, keep_leftovers)
        self.url: str | None = None
        """Address of the console and the API on this machine, once started."""
        self.bound: str | None = None
        """The same with the address that is bound, such as `0.0.0.0`."""
        self.labels: str | None = None
        """Address on which labels are received."""
        self._control = ControlServer(self.folder.path, self._answer)
        self._log = log.logger("supervisor")
        self._limits: LiveLimits | None = None
        self._changing = threading.Lock()
        """Held while limits change, by a request or a reload."""
        udp = [*settings.listen, *([listen_settings(settings.label)] if settings.label.listen else [])]
        self._kept = StoredSockets(service or Service({}), udp)
        self._listeners = Listeners(settings, self._kept)
        self._clock = StartClock()
        self.stopping = threading.Event()
        """Set to end the collector, even while it starts."""
        self.processes = ManagedProcesses(settings, self.folder, self._listeners, self.stopping)
        self.last_counters: dict[str, int] = {}
        """Counters of all workers after they ended."""

    # ---------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Own the folder, bind everything, start all processes; return once all receiving ones are ready."""
        with suppress(HopscopeError, OSError):  # `acquire` reports what is wrong with the folder
            self._clock = check_clock(self.folder.path)
        try:
            reject_later(self.folder.path)
            inherited = self._inherit() if self._inherits else None
            if inherited is None:
                self.folder.acquire()
                self.folder.remove_orphans(self._log.warning)
                if not self.folder.events_wait:
                    reserve_numbers(self.folder.path, self.settings, self._log.warning)
                    end_alarms(self.folder, self.settings.detect.queue_by_port)
            if self._clock.problem:
                self._log.warning(self._clock.problem)
            if not hash_secret(self.folder.path):
                reason = "hashes are not secret: this file cannot be made, or others can read it"
                self._log.warning(reason, file=HASH_SECRET)
            self._start(inherited)
        except BaseException:
            self.stop()
            raise

    def _inherit(self) -> InheritedState | None:
        """Take over from the running sink, once kernels are loaded; None: no sink runs."""
        sources = self._listeners.sources()
        if not may_take_over(self.folder.path, sources):
            return None
        self._prepare()
        self.processes.load_kernels()
        self.processes.wait_for([self.processes.server], "warm")
        if self.stopping.is_set():
            raise CollectorError("--take-over: stopped before; the running sink goes on")
        inherited = take_over(self.folder.path, sources)
        self.processes.locks = inherited.locks
        self.folder.adopt(inherited.regions, inherited.locks)
        return inherited

    def _prepare(self) -> None:
        """Start the fork server, and check once the files that the settings name."""
        settings = self.settings
        check_processors(settings)
        if not settings.listen and not settings.label.listen:
            raise CollectorError("nothing to collect: set listen or label.listen")
        if settings.sink.enabled and any(listen.kind != "mirror" for listen in settings.listen):
            raise CollectorError("listen: found none with kind mirror, expected an interface for the sink")
        if not settings.sink.enabled and any(listen.output for listen in settings.listen):
            raise CollectorError("listen: found an output in a collector, expected it in `hopscope sink`")
        self.processes.launch(self.processes.server)  # before this process has threads
        check_requirements(settings)

    def _start(self, inherited: InheritedState | None) -> None:
        settings = self.settings
        if inherited is None:
            self._prepare()
        control, sink = self.folder.regions / CONTROL_FILE, settings.sink.enabled
        self._limits = LiveLimits(
            create_control(control, settings.limits, sink=sink), settings, self.folder.path
        )
        self._limits.resume(self._log.warning)
        self._set_rules()
        workers = [ManagedProcess(f"worker-{i}", "worker", i) for i in range(settings.workers)]
        if inherited is not None:
            self._listeners.adopt(inherited)
            self.processes.all += workers
            for managed in workers:  # at once: frames wait
                self.processes.launch(managed)
        detectors = self._make_queues()
        receivers = workers + detectors
        page = ManagedProcess("serve", "serve")
        if settings.serve.enabled:
            from ...serve.server import bind, url_of

            listener = bind(settings.serve, self.folder.path)
            page.sockets.append(listener)
            tls = settings.serve.cert_file is not None
            self.url, self.bound = url_of(listener, tls=tls), url_of(listener, bound=True, tls=tls)
        helpers = [page] if settings.serve.enabled else []
        helpers += [ManagedProcess(role, role) for role, used in helpers_of(settings).items() if used]
        if not settings.names_from:
            (self.folder.path / DISCOVERED).unlink(missing_ok=True)
        if inherited is None:
            self._kept.find()
            self._listeners.probe()
        labels = self._open_labels()
        self._write_owner()
        self._control.start()
        self.processes.all = [self.processes.server, *receivers, *helpers, *labels]
        for managed in helpers:  # they need no kernels, which may take a minute to compile
            self.processes.launch(managed)
        if inherited is None:
            self.processes.load_kernels()
            self.processes.wait_for([self.processes.server], "warm")
        for managed in receivers + labels:
            if managed.process is None and not managed.due and not self.stopping.is_set():
                self.processes.launch(managed)
        self.processes.wait_for(receivers, "warm")
        if inherited is None:
            self._listeners.open()
            for managed in workers:
                self.processes.send_sockets(managed)
        self.processes.follow_interfaces()
        self.processes.wait_for(receivers + labels, "ready")
        self._write_owner()
        if any(listen.output for listen in settings.listen):
            self.processes.add_standby()
        self._collecting = True

    def turn(self) -> None:
        """Run one turn of `processes`; end if another sink takes over."""
        self.processes.turn()
        if self._control.heir is not None:
            self.stopping.set()

    def reload(self, settings: Settings, author: str) -> None:
        """Apply those new settings that may change; log them, and those that need a restart and are not
        applied.

        Limits return to those of the settings. Raises ValueError, HopscopeError: nothing has changed.
        """
        check_requirements(settings)
        files = stamps(settings)
        written = [key for key, stamp in files.items() if self._files.get(key, stamp) != stamp]
        found = reload(self.settings, settings, written)
        assert self._limits is not None
        with self._changing:
            self._limits.configure(found.settings, author)
            self.settings = self.processes.settings = settings = found.settings
            self._files = files
            self._set_rules()
        form = {"level": settings.log.level, "form": settings.log.format}
        log.configure(level=form["level"], form=form["form"])
        for managed in self.processes:
            self.processes.send(managed, {"log": form})
        self.processes.renew(found.roles)
        for role in found.roles & helpers_of(settings).keys() - {managed.role for managed in self.processes}:
            self.processes.add(role)
        self._write_owner()
        self._log.info("settings read again", by=author, changed=found.changed)
        if found.left:
            self._log.warning("settings that need a restart, which stay as they were", settings=found.left)

    def _set_rules(self) -> None:
        """Set the rules of switches to those of the settings."""
        if self.settings.switches:
            rules.write_rules(self.folder.regions, rules.configured(self.settings))

    def stop(self) -> None:
        """End all processes, workers first; then give the folder back. It may be called at any time.

        If another sink takes over, helpers end first, so that workers forward to the last moment.
        """
        if self.processes.server.process is not None:
            self.processes.server.process.kill()  # it has nothing to clean up
        heir = self._control.heir
        roles = ["standby", "worker", DETECTOR, "labels", *helpers_of(self.settings), "serve", FORK_SERVER]
        if heir is not None:
            roles = [*roles[2:], *roles[:2]]
        for role in roles:
            self.processes.end(role, released=heir is not None)
        if self.folder.lock >= 0:
            self.last_counters = self.counters()
            waiting = (self.last_counters[key] for key in ("journal_waiting_events", "label_waiting_events"))
            lost = (self._collecting and managed.has_lost_alarms for managed in self.processes)
            self.folder.events_wait |= any(waiting) or any(lost)
        self._control.close()
        for managed in self.processes:
            for listener in managed.sockets:
                listener.close()
            managed.sockets.clear()
        left = heir is not None and self._leave(heir)
        self._listeners.close(left=left)
        self._kept.close()
        self.processes.close()
        self.folder.close(left=left)
        fork_server.disown()

    def _leave(self, heir: socket.socket) -> bool:
        """Hand everything to the sink that takes over; False: that sink is gone."""
        with heir:
            try:
                hand_over(heir, self._listeners.leave(self.folder.regions, self.folder.locks))
            except OSError as error:
                self._log.error("the sink that takes over is gone", reason=error.strerror)
                return False
        self._log.info("another sink has taken over")
        return True

    def _make_queues(self) -> list[ManagedProcess]:
        """The detector, if there is one, with its queues; else none."""
        mode = mode_of(self.settings)
        mode.make_queues(self.folder.regions)
        return [ManagedProcess(DETECTOR, DETECTOR)] if mode.has_detector else []

    def _open_labels(self) -> list[ManagedProcess]:
        """The process that takes labels, with its socket; none without `label.listen`."""
        if not self.settings.label.listen:
            return []
        self.labels = self._listeners.open_labels(listen_settings(self.settings.label))
        return [ManagedProcess("labels", "labels")]

    # ---------------------------------------------------------------------------------- for others

    @property
    def listening(self) -> list[str]:
        """Addresses on which reports are received, such as `udp://127.0.0.1:32766`."""
        return self._listeners.urls

    def _write_owner(self) -> None:
        names, links = self.settings.names, self.settings.postcards.links
        self.folder.write_owner(
            events=EVENT_VERSION,
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
                "processes": [managed.status() for managed in self.processes],
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
        """Check whether another sink may take over; it is answered later. Raises ValueError."""
        if not self.settings.sink.enabled:
            raise ValueError("a collector of reports runs here, and only a sink can be taken over")
        if wanted["version"] != TAKE_OVER_VERSION:
            raise ValueError("the running sink is of a version that cannot be taken over by this one")
        if wanted["sources"] != self._listeners.sources():
            found = ", ".join(map(url, self.settings.listen))
            raise ValueError(f"the running sink has other interfaces, workers or rings: {found}")
        if not self._collecting or self.stopping.is_set():
            raise ValueError("the running sink is starting or ending")
        return {"later": wanted["now"]}

    def counters(self) -> dict[str, int]:
        """Counters of all workers, and of the process that takes labels, by key."""
        total = np.zeros(len(COUNTERS), np.uint64)
        for path in counter_files(self.folder.regions).values():
            total += attach_counters(path)
        return by_key(total) | LABEL_COUNTERS.read(self.folder.regions)
