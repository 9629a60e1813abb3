"""`hopscope cluster demo`: collectors of one cluster, one of them killed, and the proof that all is there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ....base.errors import HopscopeError
from ...options.declare import Options, option
from ...output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from ....lake.catalog import Lake
    from .fabric import Fabric
    from .member import Member
    from .place import Place
    from .servers import Servers

TURN_SECONDS = 0.1
STEP_SECONDS = 60.0
"""Longest time of one step; beyond it something is wrong."""
COMPILE_SECONDS = 600.0
"""… of the start of collectors, which may compile."""
SWITCHES = 64
TOPOLOGY = "leaf-spine:60x4x1"
LEAVES = 60
"""Switches that send reports."""
SEEN = 1000
"""Events of the last answer before the kill, which have to be in the lake."""


@dataclass(frozen=True)
class DemoOptions(Options):
    """How much is shown."""

    nodes: Annotated[int, option("--nodes", metavar="N", min=2, max=9, help="Collectors.")] = 3
    rate: Annotated[
        float,
        option("--rate", metavar="N", min=100, max=100_000, help="Reports per second, of all switches."),
    ] = 3_000
    load_seconds: Annotated[
        float, option("--load-seconds", metavar="S", min=2, max=600, help="Time of load before the kill.")
    ] = 6.0
    down_seconds: Annotated[
        float, option("--down-seconds", metavar="S", min=4, max=600, help="Time until it is started again.")
    ] = 5.0
    seed: Annotated[int, option("--seed", metavar="N", min=0, help="Same seed, same traffic.")] = 1
    keep: Annotated[bool, option("--keep", help="Leave it running until Ctrl-C, and print what to try.")] = (
        False
    )
    loopback: Annotated[
        bool, option("--loopback", help="Use loopback ports even as root, without namespaces.")
    ] = False
    form: SummaryOption = Summary.TEXT


def demo(options: DemoOptions) -> None:
    """Run a whole cluster on this machine, kill one collector, and prove that no event is missing or doubled.

    Starts three NATS servers, PostgreSQL, an S3 server (SeaweedFS), collectors with [cluster] and [lake],
    and a simulated fabric. As root, collectors are in network namespaces and a router spreads switches over
    them by ECMP; otherwise all is on loopback, and switches choose by a hash. Takes about a minute. All that
    it made goes when it ends or is interrupted, or, if it was killed, at the next start.

    Exit status 1: the proof failed; 2: it could not start.
    """
    from ...demo.folder import temporary_folder
    from .place import Loopback, choose
    from .programs import find

    if sys.platform != "linux":
        raise HopscopeError("collectors need Linux")
    programs = find()
    with ExitStack() as stack:
        run = _Demo(options, Loopback() if options.loopback else choose())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, run.interrupt)
        stack.callback(run.story.close)
        folder = stack.enter_context(temporary_folder())
        result = run.run(stack, folder, programs)
        if options.form is Summary.JSON:
            print(json.dumps(result))
        else:
            from .view import summary

            run.story.close()
            print("\n".join(summary(result)), flush=True)
        if options.keep:
            run.keep()
    raise typer.Exit(int(not result["holds"]))


class _Demo:
    """One run."""

    def __init__(self, options: DemoOptions, place: Place) -> None:
        from .view import Story

        self._options, self._place = options, place
        self.story = Story()
        self._stop = threading.Event()
        self._members: dict[str, Member] = {}
        self._servers: Servers
        self._fabric: Fabric
        self._lake: Lake
        self._names = [f"c{number}" for number in range(1, options.nodes + 1)]

    def interrupt(self, *_: object) -> None:
        """End at the next turn."""
        self._stop.set()

    def run(self, stack: ExitStack, folder: Path, programs: dict[str, str]) -> dict[str, Any]:
        """All of it. Raises typer.Exit if it is interrupted."""
        story = self.story
        story.title(f"A cluster of {len(self._names)} collectors: {self._place.title}")
        stack.callback(self._place.remove)
        self._place.create(self._names)
        self._start_servers(stack, folder, programs)
        self._start_members(stack, folder)
        self._start_fabric(stack, folder)
        self._load(self._options.load_seconds)
        victim = self._members[self._names[len(self._names) // 2]]
        killed, received_before = self._kill(victim)
        again = self._start_again(victim, killed)
        self._load(2.0)
        self._fabric.stop()
        story.say("fabric", f"stopped after {self._fabric.reports:,} reports")
        return self._prove(victim, killed, again, received_before)

    def keep(self) -> None:
        """Print what can be tried, and wait for Ctrl-C."""
        first = next(iter(self._members.values()))
        inside = self._place.command(first.name)
        for member in self._members.values():
            self.story.say(member.name, f"{member.url}   settings {member.config}")
        for words in (
            "cluster status",
            "query events --scope cluster --last 1m",
            f"cluster drain {self._names[-1]}",
        ):
            self.story.say("try", f"{inside}hopscope {words} --config {first.config}")
        self.story.say("running", "until Ctrl-C")
        self._restart_fabric()
        while not self._stop.is_set():
            self._route()
            time.sleep(TURN_SECONDS)

    # ------------------------------------------------------------------------------------------- start

    def _start_servers(self, stack: ExitStack, folder: Path, programs: dict[str, str]) -> None:
        from .servers import Servers

        self.story.wait("starting NATS, PostgreSQL and S3")
        self._servers = Servers(self._place, folder, programs)
        stack.callback(self._servers.stop)
        self._servers.start(self._turn)
        self.story.say("servers", "NATS × 3 with JetStream, PostgreSQL, S3 (SeaweedFS)")

    def _start_members(self, stack: ExitStack, folder: Path) -> None:
        from ....lake.catalog import Lake
        from ....settings.file import load
        from .member import Member

        settings = self._servers.settings()
        self._members = {name: Member(name, self._place, folder, settings) for name in self._names}
        first = next(iter(self._members.values()))
        self._hopscope(folder, "cluster", "init", "--config", str(first.config))
        for member in self._members.values():
            member.start()
            stack.callback(member.stop)
        self._until(
            lambda: all(member.receives() for member in self._members.values()),
            "starting collectors", COMPILE_SECONDS,
        )  # fmt: skip
        for member in self._members.values():
            member.announce()
        self._until(lambda: len(self._place.using) == len(self._names), "waiting for their routes")
        self._lake = Lake(load(first.config, []).settings.lake, read_only=True)
        stack.callback(self._lake.close)
        for member in self._members.values():
            self.story.say(member.name, f"collects, its route is announced; page {member.url}")

    def _start_fabric(self, stack: ExitStack, folder: Path) -> None:
        from .fabric import Fabric, Request

        options = self._options
        self._request = Request(TOPOLOGY, options.rate, options.seed, **self._place.fabric())
        self._fabric_log = folder / "fabric.log"
        self._fabric = Fabric(self._place, self._request, self._fabric_log)
        stack.callback(lambda: self._fabric.stop())
        self._until(self._fabric_is_ready, "starting the fabric", COMPILE_SECONDS)
        self._place.follow(self._fabric.send_to)
        self._fabric.begin()
        self.story.say("fabric", f"{LEAVES} leaf switches send {options.rate:,.0f} reports/s")

    def _restart_fabric(self) -> None:
        from .fabric import Fabric

        self._fabric = Fabric(self._place, self._request, self._fabric_log)
        self._until(self._fabric_is_ready, "starting the fabric", COMPILE_SECONDS)
        self._place.follow(self._fabric.send_to)
        self._fabric.begin()

    def _fabric_is_ready(self) -> bool:
        if self._fabric.ended:
            raise HopscopeError(f"the fabric ended: {self._fabric_log.read_text(errors='replace')[-300:]}")
        return self._fabric.ready

    def _hopscope(self, folder: Path, *words: str) -> None:
        process = self._place.start([sys.executable, "-m", "hopscope", *words], folder / "command.log")
        try:
            status = process.wait(STEP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = -1
        if status:
            text = (folder / "command.log").read_text(errors="replace").strip()
            raise HopscopeError(f"hopscope {words[0]} {words[1]} failed: {text[-300:]}")

    # -------------------------------------------------------------------------------------------- load

    def _load(self, seconds: float) -> None:
        """Let it run, and say what each member does."""
        until = time.monotonic() + seconds
        self._until(
            lambda: time.monotonic() >= until and all(self._counted(m) for m in self._members.values()),
            lambda: f"load: {self._fabric.reports:,} reports sent",
            seconds + STEP_SECONDS,
        )
        parts = (
            f"{member.name} {member.senders()} switches, {self._counted(member):,} reports"
            for member in self._members.values()
        )
        self.story.say("load", "; ".join(parts))

    def _counted(self, member: Member) -> int:
        return int(member.counters()["reports_total"])

    def _owners(self) -> dict[str, str]:
        """The member that each switch sends to now, by its address: whose count grows."""
        before = {name: member.sources() for name, member in self._members.items() if member.runs}
        until = time.monotonic() + 1.0
        self._until(lambda: time.monotonic() > until, "looking who gets what")
        found = {}
        for name in before:
            for source, count in self._members[name].sources().items():
                if count > before[name].get(source, 0):
                    found[source] = name
        return found

    # -------------------------------------------------------------------------------------------- kill

    def _kill(self, victim: Member) -> tuple[dict[str, Any], int]:
        before = self._owners()
        own = {source for source, name in before.items() if name == victim.name}
        self._seen = victim.answered(SEEN)
        base = {name: member.sources() for name, member in self._members.items() if member is not victim}
        witness = next(member for member in self._members.values() if member is not victim)
        with _Questions(witness, victim.name) as questions:
            victim.kill()
            at = victim.killed_at
            self.story.say("SIGKILL", f"{victim.name}: all processes of it", "bold red")
            done: dict[str, float] = {}
            received = self._counted(victim)
            self._ends = self._ends_of(victim)

            def look() -> bool:
                now = time.monotonic() - at
                if victim.name not in self._place.using:
                    self._mark(done, "withdrawn", now, "route", f"of {victim.name} withdrawn")
                grown = {
                    source
                    for name, sources in base.items()
                    for source, count in self._members[name].sources().items()
                    if count > sources.get(source, 0)
                }
                if own <= grown:
                    self._mark(done, "moved", now, "switches", f"{len(own)} of {victim.name} reach others")
                if any(each["name"] == victim.name for each in witness.status().get("missing", ())):
                    self._mark(done, "gone", now, "members", f"{victim.name} is missing")
                return {"withdrawn", "moved", "gone"} <= done.keys() and now >= self._options.down_seconds

            self._until(look, f"{victim.name} is dead")
            after = self._owners()
        moved = [s for s, name in before.items() if name != victim.name and after.get(s, name) != name]
        answers = questions.answers
        self.story.say(
            "answers", f"{len(answers)} of the cluster meanwhile, slowest {questions.slowest:.2f} s"
        )
        return {
            "member": victim.name,
            "sources": len(own),
            "others": len(before) - len(own),
            "others_moved": len(moved),
            **{f"{key}_seconds": round(value, 3) for key, value in done.items()},
            "answers": len(answers),
            "named": sum(victim.name in missing for _, missing, _ in answers),
            "slowest_answer_seconds": round(questions.slowest, 3),
            "owners": after,
        }, received

    def _start_again(self, victim: Member, killed: dict[str, Any]) -> dict[str, Any]:
        killed["down_seconds"] = round(time.monotonic() - victim.killed_at, 1)
        between = killed.pop("owners")
        self.story.say("start", f"{victim.name} again, on what its disk has", "bold green")
        at = time.monotonic()
        victim.start()
        done: dict[str, float] = {}
        witness = next(member for member in self._members.values() if member is not victim)
        with _Questions(witness, victim.name) as questions:

            def look() -> bool:
                now = time.monotonic() - at
                if victim.receives():
                    self._mark(done, "received", now, victim.name, "receives again")
                if victim.name in self._place.using and victim.sources():
                    self._mark(done, "sources", now, "switches", f"send to {victim.name} again")
                if questions.complete:
                    self._mark(done, "complete", now, "answers", "of the cluster are complete")
                if "lake" not in done and self._lake_has(victim, self._ends):
                    self._mark(done, "lake", now, "lake", f"has all that {victim.name} had at the kill")
                return {"received", "sources", "complete", "lake"} <= done.keys()

            self._until(look, f"{victim.name} comes back", COMPILE_SECONDS)
        after = self._owners()
        moved = [s for s, name in between.items() if after.get(s, name) not in (name, victim.name)]
        return {
            **{f"{key}_seconds": round(value, 3) for key, value in done.items()},
            "sources": sum(name == victim.name for name in after.values()),
            "of": len(after),
            "others_moved": len(moved),
        }

    def _mark(self, done: dict[str, float], key: str, now: float, what: str, text: str) -> None:
        if key not in done:
            done[key] = now
            self.story.say(what, f"{text}, after {now:.2f} s")

    # ------------------------------------------------------------------------------------------- proof

    def _prove(
        self, victim: Member, killed: dict[str, Any], again: dict[str, Any], received_before: int
    ) -> dict[str, Any]:
        from .proof import prove, summed

        begin = time.monotonic()
        self._until(self._all_quiet, "waiting for the last reports")
        ends = {name: self._ends_of(member) for name, member in self._members.items()}
        self._until(
            lambda: all(self._lake_has(member, ends[name]) for name, member in self._members.items()),
            "waiting for the lake",
        )
        caught_up = time.monotonic() - begin
        self.story.say("lake", f"has caught up, {caught_up:.2f} s after the last report")
        proof = summed(prove(self._lake, {name: member.data for name, member in self._members.items()}))
        counts = {name: self._counted(member) for name, member in self._members.items()}
        counts[victim.name] += received_before  # those of a new process begin at 0
        sent, received = self._fabric.reports, sum(counts.values())
        in_lake = self._in_lake(victim)
        return {
            "members": self._names,
            "place": type(self._place).__name__.lower(),
            "switches": LEAVES,
            "killed": killed,
            "started_again": again,
            "lake_seconds": round(caught_up, 3),
            "reports": {"sent": sent, "received": received, "lost": sent - received, "by_member": counts},
            "seen": {"events": len(self._seen), "in_lake": in_lake},
            "proof": proof,
            "holds": proof["holds"] and in_lake == len(self._seen) > 0 and received <= sent,
            "seconds": round(self.story.seconds, 1),
        }

    def _all_quiet(self) -> bool:
        counts = [self._counted(member) for member in self._members.values()]
        time.sleep(0.3)
        return counts == [self._counted(member) for member in self._members.values()]

    def _ends_of(self, member: Member) -> dict[int, int]:
        """By shard of a member: 1 + the highest sequence number that it has given."""
        from ....history.follow import EventFollower

        follower = EventFollower(member.data)
        try:
            return {shard: follower.end(shard) for shard in follower.shards()}
        finally:
            follower.close()

    def _lake_has(self, member: Member, ends: dict[int, int]) -> bool:
        marks = self._lake.connection.execute(
            f"SELECT shard, max(next) FROM {self._lake.marks} WHERE member = ? GROUP BY shard", [member.name]
        ).fetchall()
        found = {int(shard): int(mark) for shard, mark in marks}
        return all(found.get(shard, 0) >= end for shard, end in ends.items())

    def _in_lake(self, victim: Member) -> int:
        from .proof import identities

        rows = self._lake.connection.execute(
            f"SELECT * FROM {self._lake.events} WHERE member = ?", [victim.name]
        ).fetchnumpy()
        return len(self._seen & identities(rows))

    # ------------------------------------------------------------------------------------------- turns

    def _turn(self) -> None:
        if self._stop.is_set():
            raise typer.Exit(130)

    def _route(self) -> None:
        """The router sends to whoever announces."""
        announced = sorted(name for name, member in self._members.items() if member.announced)
        if announced != self._place.using:
            self._place.use(announced)

    def _until(
        self, done: Callable[[], bool], waits_for: str | Callable[[], str], seconds: float = STEP_SECONDS
    ) -> None:
        until = time.monotonic() + seconds
        while True:
            self._turn()
            self._route()
            if done():
                return
            text = waits_for if isinstance(waits_for, str) else waits_for()
            if time.monotonic() > until:
                raise HopscopeError(f"it took longer than {seconds:.0f} s: {text}")
            self.story.wait(text)
            time.sleep(TURN_SECONDS)


class _Questions:
    """Asks the cluster again and again, through one member, while it is open."""

    PATH = "/api/v0/summary?scope=cluster"

    def __init__(self, member: Member, victim: str) -> None:
        self._member, self._victim = member, victim
        self.answers: list[tuple[float, list[str], bool]] = []
        """(seconds, members named as missing, whether it was complete) of each."""
        self.failures = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Questions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(10)

    @property
    def slowest(self) -> float:
        """Seconds of the slowest answer."""
        return max((seconds for seconds, _, _ in self.answers), default=0.0)

    @property
    def complete(self) -> bool:
        """Whether the last answer was."""
        return bool(self.answers) and self.answers[-1][2]

    def _run(self) -> None:
        while not self._end.wait(0.1):
            begin = time.monotonic()
            try:
                said = self._member.get(self.PATH)["cluster"]
            except (OSError, KeyError):
                self.failures += 1
                continue
            self.answers.append((time.monotonic() - begin, list(said["missing"]), bool(said["complete"])))
