"""How a member leaves, and comes back: `hopscope cluster drain`.

The request to a member is an entry in a bucket (`ClusterNames.drains`), so that it also reaches a member that
is away now. The member goes through stages, and publishes its stage, and what it waits for, in a second
entry:

live → withdrawing (its route, `route.Route`) → silence (until no switch sends to it) → flushing (until the
lake has its events) → drained. It stays a member in this state until it is stopped; then it is not missing.
Events still occur while it waits and later, when switches become silent and flows expire. Therefore the ends
of its shards are read repeatedly, so that late events reach the lake, too.

Each wait has a limit, after which the member continues, and states what did not happen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ...base.log import logger
from ...lake.backlog import Backlog
from ...lake.status import ask_to_flush, read_status
from ...present.collector_state import CollectorState
from ..buckets import Bucket
from ..connection import ClusterError, Connection
from ..process import Context, Part
from ..setup import lacking
from .drain_request import FILE_NAME, MAX_BYTES, DrainRequest, decode, remember, remembered
from .members import Directory, as_text
from .route import Route

Stage = Literal["live", "withdrawing", "silence", "flushing", "drained"]
QUIET_SECONDS = 2.0
"""Switches count as silent after this time without a report."""
WITHDRAW_SECONDS = 30.0
FLUSH_SECONDS = 120.0
LOOK_SECONDS = 1.0
"""How often a drained member checks for late events."""
TURN_SECONDS = 0.25
PROGRESS_SECONDS = 1.0
"""How often the progress is updated during a wait."""
PATIENCE_SECONDS = 2.0
"""Each time this has passed without news from a member, the command checks why."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a member."""

    stage: Stage = "live"
    waits_for: Annotated[str, Field(max_length=500)] = ""
    problem: Annotated[str, Field(max_length=500)] = ""
    """What did not happen in an earlier stage before its limit."""
    sources: int = 0
    """Switches that still send to it."""
    number: int = 0
    """Number of the request."""


class Drains:
    """Requests to all members, and their progress, in NATS. Methods raise ClusterError."""

    def __init__(self, connection: Connection) -> None:
        self._bucket = Bucket(connection, connection.names.drains)

    def ask(self, member: str, request: DrainRequest) -> None:
        """Store a request to a member."""
        self._bucket.put(f"request.{member}", request.encode())

    def requested(self, member: str) -> DrainRequest | None:
        """The request to a member; None: there was none, or NATS has lost it."""
        entry = self._bucket.get(f"request.{member}")
        return None if entry is None else decode(entry.value)

    def report(self, member: str, progress: Progress) -> None:
        """Publish the progress of a member."""
        self._bucket.put(f"progress.{member}", json.dumps(asdict(progress)).encode())

    def progress(self, member: str) -> Progress:
        """The progress that a member published last."""
        entry = self._bucket.get(f"progress.{member}")
        return Progress() if entry is None else _progress(entry.value)

    def forget(self, member: str) -> None:
        """Remove both entries."""
        for kind in ("request", "progress"):
            if self._bucket.get(f"{kind}.{member}") is not None:
                self._bucket.delete(f"{kind}.{member}")


class Drain(Part):
    """`drain`: keeps the route in the desired state, and drains the member on request."""

    name = "drain"
    needs_nats = False  # the route follows readiness, whether or not NATS answers
    seconds = TURN_SECONDS

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cluster = context.settings.cluster
        self._log = logger("cluster")
        self._has_commands = bool(cluster.announce or cluster.withdraw)
        self._route = Route(cluster.announce, cluster.withdraw, self._log.info)
        self._drains = Drains(context.connection)
        self._state = CollectorState(context.data)
        self._request = self._noted = remembered(context.data)
        self._unnoted = ""
        """Why the request could not be stored in the data folder; empty: it was."""
        self._progress = Progress(number=self._request.number)
        self._reported: Progress | None = None
        self._report_at = self._since = self._quiet_since = 0.0
        self._reports = -1
        self._backlog = Backlog(context.data)
        self._look_at = 0.0

    def turn(self) -> None:
        """Read the request, and take the next step towards it."""
        context = self.context
        online = context.connected and context.joined
        if online:
            self._learn(self._drains.requested(context.name))
        self._note()
        if self._has_commands:
            self._route.turn(context.condition().ready and not self._request.drained)
            context.own["route_problem"] = as_text(self._route.problem)
        self._go_on()
        route = (
            {"route": self._route.state, "route_problem": self._route.problem} if self._has_commands else {}
        )
        problems = filter(None, (self._progress.problem, self._unnoted))
        progress = replace(self._progress, problem="; ".join(problems)[:500])
        context.shown[self.name] = {"drain": asdict(progress) | route}
        if online and (progress != self._reported or time.monotonic() >= self._report_at):
            self._drains.report(context.name, progress)
            self._reported = progress
            waits = progress.stage not in ("live", "drained")
            self._report_at = time.monotonic() + (PROGRESS_SECONDS if waits else 60 * PROGRESS_SECONDS)

    def stop(self) -> None:
        """Withdraw the route: this member gets no more reports."""
        if self._has_commands:
            self._route.close()
        self._backlog.close()

    # ----------------------------------------------------------------------------------------- stages

    def _go_on(self) -> None:
        stage = self._progress.stage
        if not self._request.drained:
            if stage != "live":
                self._enter("live")
            return
        if stage == "live":
            self._enter("withdrawing")
        elif stage == "withdrawing":
            if not self._has_commands or self._route.announced is False:
                self._enter("silence")
            else:
                self._wait(
                    self._route.problem or "the command that withdraws the route", WITHDRAW_SECONDS, "silence"
                )
        elif stage == "silence":
            sources, silent = self._listen()
            if silent:
                self._enter("flushing")
            else:
                what = f"silence: {sources} sources still send"
                if self._quiet_since - self._since > (limit := self._request.silence_seconds):
                    self._enter("flushing", f"waited {limit:g} s for {what}")
                else:  # a silence that began in time may be completed
                    self._progress = replace(self._progress, waits_for=what, sources=sources)
        elif stage == "flushing":
            lacks, problem = self._flush()
            if lacks:
                self._wait(f"the lake to take {lacks:,} events{problem}", FLUSH_SECONDS, "drained")
            else:
                self._enter("drained")
        elif (now := time.monotonic()) >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._flush()

    def _enter(self, stage: Stage, problem: str = "") -> None:
        self._progress = Progress(
            stage,
            problem="; ".join(filter(None, (self._progress.problem if stage != "live" else "", problem)))[
                :500
            ],
            number=self._request.number,
        )
        self._since = self._quiet_since = time.monotonic()
        self._reports = -1
        self._log.info("drain", stage=stage, **({"problem": problem} if problem else {}))
        own = "live" if stage == "live" else "drained" if stage == "drained" else "draining"
        if self.context.own.get("state", "live") != own:
            self.context.own["state"] = own
            self.context.wake("members")

    def _wait(self, what: str, seconds: float, then: Stage) -> None:
        if time.monotonic() - self._since >= seconds:
            self._enter(then, f"waited {seconds:g} s for {what}")
            return
        self._progress = replace(self._progress, waits_for=what[:500])

    def _listen(self) -> tuple[int, bool]:
        """(sources with a report in the last QUIET_SECONDS, whether no report came for as long)."""
        now, reports = time.monotonic(), self._state.counters()["reports_total"]
        if reports != self._reports:
            if self._reports < 0:  # first check: no silence is known, however late it is
                self._since = now
            self._reports, self._quiet_since = reports, now
        rows = self._state.sources()
        recent = time.time_ns() - int(QUIET_SECONDS * 1e9)
        return int((rows["last_ns"] >= recent).sum()), now - self._quiet_since >= QUIET_SECONDS

    def _flush(self) -> tuple[int, str]:
        """Have the lake write all present events; returns (number of events that it lacks, reason)."""
        if not self.context.settings.lake.enabled:
            return 0, ""
        self._backlog.look()
        status = read_status(self.context.regions)
        marks = {int(shard): int(each["next"]) for shard, each in status.get("shards", {}).items()}
        lacks = self._backlog.waiting(marks)
        if lacks:
            ask_to_flush(self.context.regions, self._backlog.ends)
        return lacks, f" ({status['problem']})" if status.get("problem") else ""

    # ---------------------------------------------------------------------------------------- the request

    def _learn(self, request: DrainRequest | None) -> None:
        if request is None:
            if self._request.drained:  # drained until undone
                self._drains.ask(self.context.name, self._request)
        elif request != self._request:
            self._request = request
            self._progress = replace(self._progress, number=request.number)

    def _note(self) -> None:
        """Store the request for a start without NATS. If the disk is full, retry later; the drain goes on."""
        if self._noted == self._request:
            return
        try:
            remember(self.context.data, self._request)
            self._noted, self._unnoted = self._request, ""
        except OSError as error:
            problem = f"{FILE_NAME} cannot be written: {error.strerror}"
            if problem != self._unnoted:
                self._log.warning("drain", problem=problem)
            self._unnoted = problem


def follow(
    connection: Connection,
    member: str,
    request: DrainRequest,
    seconds: float,
    on_progress: Callable[[Progress], object],
    on_stall: Callable[[str], object] = lambda why: None,
) -> Progress:
    """Send a request to a member, and wait until it is done. `on_progress` gets every change of its progress,
    `on_stall` the reason if there is no news. Returns the last progress: its stage is `drained` or `live` as
    requested, or, after `seconds`, it says what the member waits for, and why there is no news.
    """
    drains = Drains(connection)
    drains.ask(member, request)
    until, look_at = time.monotonic() + seconds, time.monotonic() + PATIENCE_SECONDS
    last, why = Progress(waits_for=f"an answer of {member}"), ""
    wanted = "drained" if request.drained else "live"
    while True:
        progress, now = drains.progress(member), time.monotonic()
        if progress.number == request.number and progress != last:
            on_progress(progress)
            last, why, look_at = progress, "", now + PATIENCE_SECONDS
            if progress.stage == wanted:
                return progress
        if now >= look_at:
            before, why = why, _stall_reason(connection, member)
            if why and why != before:
                on_stall(why)
            look_at = time.monotonic() + PATIENCE_SECONDS
        if now >= until:
            return replace(last, problem="; ".join(filter(None, (last.problem, why))))
        time.sleep(0.1)


def _stall_reason(connection: Connection, member: str) -> str:
    """Why there may be no news of a member; empty: nothing is known."""
    try:
        if member not in Directory(connection).living():
            return "it is not running; the request waits until it is"
        full = [line for line in lacking(connection) if connection.names.drains in line]
    except ClusterError as error:
        return str(error)
    return full[0] if full else ""


def _progress(value: bytes) -> Progress:
    """Decode a progress; an invalid one counts as none, since anyone with credentials can write it."""
    try:
        return TypeAdapter(Progress).validate_json(value[: MAX_BYTES + 1])
    except ValidationError:
        return Progress()
