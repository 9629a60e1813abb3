"""The process of a member: a connection to NATS, and the parts that use it.

A part is one task of a member in its cluster: `members` (its record), `configuration`, `queries`, `owners`,
`drain`, … Each has a thread of its own, so that a part that waits delays neither other parts nor the tick for
the supervisor. Only that thread calls its methods:

- `start` once NATS is connected and the member has joined; after a failure it is called again.
- `turn` every `seconds`, or at once after `Context.wake(name)`, while NATS is connected.
- `stop` when the process ends, the connection is closed for good, or another process has taken the member's
  name. `start` may follow, with a new connection. `stop` may raise; NATS may be unreachable.

nats-py reconnects by itself, with all subscriptions, without calls of `stop` and `start`. After any
exception, the failure is counted and shown, and the call repeated; a ClusterError is expected, any other
exception is a defect of the part. A call must return within `HANG_SECONDS`, or the process ends and is
restarted.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..base.errors import HopscopeError, described
from ..base.log import logger
from ..base.process.stop import Stop
from ..memory.counter_region import CounterRegion
from ..settings.collector import Settings
from .connection import ClusterError, Connection
from .counters import PARTS
from .membership.members import MemberRecord
from .status import write_status

TURN_SECONDS = 0.1
STATUS_SECONDS = 1.0
"""How often the status file is written if nothing changes."""
RETRY_SECONDS = 1.0
"""Pause after a failed attempt to connect, or a failed call of a part."""
HANG_SECONDS = 45.0
"""How long a part may stay in one call."""
STOP_SECONDS = 5.0
"""How long all parts may take to stop, except as for SILENT_SECONDS."""
SILENT_SECONDS = 2.0
"""A part that has waited this long for an answer is not awaited, since NATS hangs."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a collector, for its record."""

    ready: bool = True
    reason: str = ""
    reports_per_second: float = 0.0
    events_per_second: float = 0.0
    address: str = ""
    started_ns: int = 0
    lag_events: int | None = None
    lag_seconds: float | None = None
    lag_problem: str = ""

    def fields(self) -> dict[str, Any]:
        """Fields of a record."""
        return asdict(self)


@dataclass
class Context:
    """State that all parts of a member share. Each attribute is written by one part."""

    settings: Settings
    data: Path
    regions: Path
    counters: CounterRegion
    incarnation: str
    """Incarnation of the data folder."""
    condition: Callable[[], Condition] = Condition
    """Examines this collector."""
    connection: Connection = field(init=False)
    """Opened before any part is started, except for parts that need no NATS."""
    living: dict[str, MemberRecord] = field(default_factory=dict)
    """Present members, including this one, at the last heartbeat (`members` writes)."""
    known: dict[str, MemberRecord] = field(default_factory=dict)
    """All members that ever were, except forgotten ones (`members` writes)."""
    clocks: dict[str, str] = field(default_factory=dict)
    """Known members whose clock is wrong, with a text (`members` writes)."""
    bad: dict[str, str] = field(default_factory=dict)
    """Invalid records, with the reason (`members` writes)."""
    joined: bool = False
    """Whether this process is the member with its name (`members` writes)."""
    heartbeat_at: float = 0.0
    """When NATS accepted the newest record, monotonic (`members` writes)."""
    refused: str = ""
    """Why it is not: another process has the name (`members` writes)."""
    record: MemberRecord | None = None
    """This member's newest record in NATS (`members` writes)."""
    own: dict[str, Any] = field(default_factory=dict)
    """Fields that parts set in this member's next record: `revision`, `state`, … (`wake("members")`)."""
    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Keys that parts add to the status, by part, as JSON. A part replaces its keys as a whole."""
    changed: bool = False
    """Set by a part when the status has changed, so that it is written at once."""
    counts: Counter[str] = field(default_factory=Counter)
    """See `counters`."""
    failures: Counter[str] = field(default_factory=Counter)
    wakers: dict[str, threading.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection = Connection(self.settings.cluster, self.name, keep=True)

    @property
    def name(self) -> str:
        """Name of this member."""
        return self.settings.member_name

    @property
    def connected(self) -> bool:
        """Whether NATS answers."""
        return self.connection.connected

    def wake(self, part: str) -> None:
        """Have a part turn now, if one with this name exists."""
        if part in self.wakers:
            self.wakers[part].set()

    def wake_all(self) -> None:
        """Have all parts turn now."""
        for waker in self.wakers.values():
            waker.set()


class Part(ABC):
    """One task of a member; see the module's docstring."""

    name: ClassVar[str]
    """One of `counters.PARTS`."""
    needs_nats: ClassVar[bool] = True
    """False: it also starts and turns while NATS is unreachable, and before the member has joined."""
    seconds: float = 1.0
    """Time between two turns."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def start(self) -> None:  # noqa: B027 - optional for a part
        """Subscribe, open, prepare."""

    @abstractmethod
    def turn(self) -> None:
        """Do what is due."""

    def stop(self) -> None:  # noqa: B027
        """Undo `start`."""


class _PartThread:
    """Calls one part."""

    def __init__(self, part: Part, process: ClusterProcess) -> None:
        self.part, self._process = part, process
        self.problem = ""
        """Why the last call failed; empty: it did not."""
        self.since = 0.0
        """When the current call began, monotonic; 0: there is none."""
        self._session = 0
        """The connection with which the part was started; 0: it was not."""
        self._ending = False
        self._waits = True
        """Whether its calls wait for NATS."""
        self._wake = process.context.wakers.setdefault(part.name, threading.Event())
        self._thread = threading.Thread(target=self._work, name=part.name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tell the part to stop."""
        self._ending = True
        self._wake.set()

    def await_end(self, until: float) -> None:
        """Wait until the part has stopped, `until` is reached (monotonic), or the part hangs on NATS."""
        while self._thread.is_alive() and (now := time.monotonic()) < until:
            if self._waits and self.since and now - self.since > SILENT_SECONDS:
                return
            self._thread.join(TURN_SECONDS)

    def _work(self) -> None:
        while not self._ending:
            self._wake.clear()
            if self._ending:
                break
            pause = self.part.seconds if self._turn() else RETRY_SECONDS
            self._wake.wait(pause)
        if self._session:
            self._waits = self.part.needs_nats
            self._call(self.part.stop)

    def _turn(self) -> bool:
        """Call the part once; False: it failed, or may not turn yet."""
        wanted = self._process.session_for(self.part)
        if self._session and self._session != wanted:
            self._session = 0
            self._call(self.part.stop)
        if not wanted:
            return False
        if not self._session:
            if not self._call(self.part.start):
                with suppress(Exception):  # `start` may have failed early
                    self.part.stop()
                return False
            self._session = wanted
        if self.part.needs_nats and not self._process.context.connected:
            return False
        return self._call(self.part.turn)

    def _call(self, what: Callable[[], object]) -> bool:
        self.since = time.monotonic()
        try:
            what()
        except Exception as error:
            problem = described(error)
            self._process.context.failures[self.part.name] += 1
            if problem != self.problem and self._process.context.connected:
                self._process.log.warning("failed, and is repeated", part=self.part.name, reason=problem)
            self.problem = problem
            return False
        finally:
            self.since = 0.0
        self.problem = ""
        return True


class ClusterProcess:
    """Runs parts until it is stopped. The first part is stopped last."""

    def __init__(self, context: Context, parts: Sequence[Part]) -> None:
        assert {part.name for part in parts} <= set(PARTS)
        self.context, self._parts = context, parts
        self.log = logger("cluster")
        self._threads: list[_PartThread] = []
        self._session = 0
        """Counts connections that were opened."""
        self._problem = "it has not been reached yet"
        """Why NATS is unreachable."""
        self._state, self._since_ns = "", 0
        self._open_at = self._write_at = 0.0

    def run(self, stop: Stop) -> None:
        """Take part in the cluster until `stop` is set. Raises ClusterError if a part hangs."""
        self._threads = [_PartThread(part, self) for part in self._parts]
        try:
            while not stop.wait(TURN_SECONDS):
                self._link()
                self._show()
                self._check()
        finally:
            self._end()

    def session_for(self, part: Part) -> int:
        """The connection that a part may use now; 0: none."""
        if not part.needs_nats:
            return -1
        return self._session if part.name == "members" or self.context.joined else 0

    def status(self) -> dict[str, Any]:
        """The content of the status file."""
        context, settings = self.context, self.context.settings.cluster
        problems = {each.part.name: each.problem for each in self._threads if each.problem}
        return {
            "time_ns": time.time_ns(),
            "cluster": settings.name,
            "member": context.name,
            "incarnation": context.incarnation,
            "nats": settings.place,
            "state": self._state,
            "since_ns": self._since_ns,
            "problem": self._why(problems),
            "problems": problems,
            "members": [asdict(record) for _, record in sorted(context.living.items())],
            "missing": [asdict(context.known[name]) for name in missing(context)],
            "clocks": context.clocks,
            "bad": context.bad,
            "configuration": {"newest": 0, "revision": 0, "revision_problem": ""},
            **{key: value for shown in list(context.shown.values()) for key, value in shown.items()},
        }

    # ------------------------------------------------------------------------------------------- turns

    def _link(self) -> None:
        """Connect, if there is no connection; a lost one recovers by itself."""
        connection, now = self.context.connection, time.monotonic()
        if not connection.closed or now < self._open_at:
            return
        self._open_at = now + RETRY_SECONDS
        self._session_ends()
        try:
            connection.open()
        except HopscopeError as error:
            self._problem = str(error)
            self.context.counts["unreachable"] += 1
            return
        self.context.counts["connections"] += 1
        self._session = self.context.counts["connections"]
        self.context.wake_all()

    def _session_ends(self) -> None:
        if self._session:
            self._session = 0
            with suppress(HopscopeError):
                self.context.connection.close()

    def _show(self) -> None:
        context, now = self.context, time.monotonic()
        state = self._state_now(now)
        if state != self._state:
            self._say(state)
            self._state, self._since_ns = state, time.time_ns()
            context.changed = True
        if not context.changed and now < self._write_at:
            return
        context.changed = False
        self._write_at = now + STATUS_SECONDS
        counts = context.counts
        counts["members"], counts["missing"] = len(context.living), len(missing(context))
        counts["not_ready"] = sum(not record.ready for record in context.living.values())
        counts["bad"], counts["revision"] = len(context.bad), context.own.get("revision", 0)
        counts["late"] = bool(context.own.get("revision_problem"))
        context.counters.collect(context)
        write_status(context.regions, self.status())

    def _state_now(self, now: float) -> str:
        context = self.context
        late = now - context.heartbeat_at > context.settings.cluster.member_seconds
        if not context.connected or (context.joined and late):
            return "away"
        return "joined" if context.joined else "refused" if context.refused else "joining"

    def _say(self, state: str) -> None:
        cluster = self.context.settings.cluster
        if state == "joined":
            self.log.info("joined", cluster=cluster.name, member=self.context.name, nats=cluster.place)
        elif state == "away":
            self.log.warning("local only: NATS is away", nats=cluster.place, reason=self._away())

    def _why(self, problems: dict[str, str]) -> str:
        if self._state == "away":
            return f"NATS is away: {self._away()}"
        return problems.get("members", "")

    def _away(self) -> str:
        if not self.context.connected:
            return self.context.connection.problem or self._problem
        return next(each.problem for each in self._threads if each.part.name == "members") or "no answer"

    def _check(self) -> None:
        now = time.monotonic()
        for each in self._threads:
            if each.since and now - each.since > HANG_SECONDS:
                raise ClusterError(f"cluster: {each.part.name} has not come back for {HANG_SECONDS:g} s")

    def _end(self) -> None:
        until = time.monotonic() + STOP_SECONDS
        first, *others = self._threads
        for each in others:
            each.end()
        for each in others:
            each.await_end(until)
        first.end()
        first.await_end(until + 1)
        self._session_ends()


def missing(context: Context) -> list[str]:
    """Names of known members that are neither present nor drained."""
    away = context.known.keys() - context.living.keys()
    return sorted(name for name in away if not context.known[name].left)
