"""A whole cluster on this machine: servers, collectors, a fabric, a router that follows announced routes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....base.errors import HopscopeError
from ....history.follow import ends_of
from ....settings.configuration.file import load
from .fabric import Fabric, Request
from .member import Member
from .place import Place
from .proof import ShardProof, identities, prove
from .servers import Servers

if TYPE_CHECKING:
    from ....lake.catalog import Lake

TURN_SECONDS = 0.1
STEP_SECONDS = 60.0
"""Timeout of one step."""
COMPILE_SECONDS = 600.0
"""Timeout of a start, which may compile kernels."""
OWNER_SECONDS = 1.0
"""Every switch sends within this time."""
TOPOLOGY = "leaf-spine:60x4x1"
LEAVES = 60
"""Switches that send reports: the leaves."""


class DemoCluster:
    """A cluster with its servers and fabric. `start_…` starts the parts; all end with `stack`."""

    def __init__(self, place: Place, folder: Path, programs: Mapping[str, str], stack: ExitStack) -> None:
        self.place, self._folder, self._programs, self._stack = place, folder, programs, stack
        self.members: dict[str, Member] = {}
        self.servers: Servers
        self.fabric: Fabric
        self.lake: Lake
        self.on_turn: Callable[[str], object] = lambda waits_for: None
        """Called repeatedly during a wait, with a text that says for what; it may raise."""

    # ------------------------------------------------------------------------------------------- start

    def start_servers(self, names: Sequence[str]) -> None:
        """Make the place for members of these names, and start NATS, PostgreSQL and S3."""
        self._stack.callback(self.place.remove)
        self.place.create(names)
        self.servers = Servers(self.place, self._folder, self._programs)
        self._stack.callback(self.servers.stop)
        self.servers.start(lambda: self.on_turn("starting NATS, PostgreSQL and S3"))
        settings = self.servers.settings()
        self.members = {name: Member(name, self.place, self._folder, settings) for name in names}
        self.hopscope("init")

    def start_members(self) -> None:
        """Start all collectors, and wait until their routes are announced."""
        from ....lake.catalog import Lake

        for member in self.members.values():
            member.start()
            self._stack.callback(member.stop)
        for member in self.members.values():
            self.until(member.receives, "starting collectors", COMPILE_SECONDS)
        for member in self.members.values():
            member.announce()
        self.lake = Lake(load(self.first.config, []).settings.lake, read_only=True)
        self._stack.callback(self.lake.close)
        self.until(lambda: len(self.place.using) == len(self.members), "waiting for routes")

    def add_member(self, name: str) -> Member:
        """Start another collector, and the process that announces its route, without waiting."""
        self.place.add(name)
        member = self.members[name] = Member(name, self.place, self._folder, self.servers.settings())
        member.start()
        self._stack.callback(member.stop)
        member.announce()
        return member

    def start_fabric(self, rate: float, seed: int) -> None:
        """Let the switches send."""
        request = Request(TOPOLOGY, rate, seed, **self.place.fabric())
        self.fabric = Fabric(self.place, request, self._folder / "fabric.log")
        self._stack.callback(self.fabric.stop)

        def ready() -> bool:
            if self.fabric.ended:
                text = self.fabric.log.read_text(errors="replace")
                raise HopscopeError(f"the fabric ended: {text[-300:]}")
            return self.fabric.ready

        self.until(ready, "starting the fabric", COMPILE_SECONDS)
        self.place.follow(self.fabric.send_to)
        self.fabric.begin()

    # ------------------------------------------------------------------------------------------ turns

    def until(
        self, done: Callable[[], object], waits_for: str | Callable[[], str], seconds: float = STEP_SECONDS
    ) -> None:
        """Wait until `done` is true, following routes meanwhile. Raises HopscopeError after `seconds`."""
        until = time.monotonic() + seconds
        while True:
            self.follow_routes()
            if done():
                return
            text = waits_for if isinstance(waits_for, str) else waits_for()
            if time.monotonic() > until:
                raise HopscopeError(f"it took longer than {seconds:.0f} s: {text}")
            self.on_turn(text)
            time.sleep(TURN_SECONDS)

    def follow_routes(self) -> None:
        """Send to the members that announce their route."""
        announced = sorted(name for name, member in self.members.items() if member.announced)
        if announced != self.place.using:
            self.place.use(announced)

    # ------------------------------------------------------------------------------------------- queries

    @property
    def first(self) -> Member:
        """The first member."""
        return next(iter(self.members.values()))

    def witness(self, of: Member) -> Member:
        """A member that observes another one."""
        return next(member for member in self.members.values() if member is not of)

    def hopscope(self, *words: str, seconds: float = STEP_SECONDS) -> str:
        """The output of `hopscope cluster WORDS` on the hub. Raises HopscopeError if it fails."""
        log = self._folder / "command.log"
        log.unlink(missing_ok=True)
        command = [sys.executable, "-m", "hopscope", "cluster", *words, "--config", str(self.first.config)]
        process = self.place.start(command, log)
        until = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < until:
            self.follow_routes()
            time.sleep(TURN_SECONDS)
        process.kill()
        status = process.wait()
        text = log.read_text(errors="replace").strip()
        if status:
            raise HopscopeError(f"hopscope cluster {words[0]} ended with {status}: {text[-300:]}")
        return text

    def owners(self) -> dict[str, str]:
        """The member to which each switch sends now, by address of the switch: the one whose count grows."""
        running = {name: member for name, member in self.members.items() if member.runs}
        before = {name: member.sources() for name, member in running.items()}
        until = time.monotonic() + OWNER_SECONDS
        self.until(lambda: time.monotonic() > until, "looking which switch sends to whom")
        return {
            source: name
            for name, member in running.items()
            for source, count in member.sources().items()
            if count > before[name].get(source, 0)
        }

    def ends(self, member: Member) -> dict[int, int]:
        """By shard of a member: 1 + the highest sequence number that it has assigned."""
        return ends_of(member.data)

    def lake_has(self, member: Member, ends: Mapping[int, int]) -> bool:
        """Whether the marks of a member have reached these ends."""
        marks = self.lake.connection.execute(
            f"SELECT shard, max(next) FROM {self.lake.marks} WHERE member = ? GROUP BY shard", [member.name]
        ).fetchall()
        found = {int(shard): int(mark) for shard, mark in marks}
        return all(found.get(shard, 0) >= end for shard, end in ends.items())

    def catch_up(self) -> None:
        """Wait until no more reports arrive, and the lake has all events."""

        def quiet() -> bool:
            counts = [member.reports() for member in self.members.values()]
            time.sleep(0.3)
            return counts == [member.reports() for member in self.members.values()]

        self.until(quiet, "waiting for the last reports")
        ends = {name: self.ends(member) for name, member in self.members.items()}
        self.until(
            lambda: all(self.lake_has(member, ends[name]) for name, member in self.members.items()),
            "waiting for the lake",
        )

    def in_lake(self, member: Member, events: set[tuple[int, ...]]) -> int:
        """How many of these events of a member (`proof.identities`) the lake has."""
        rows = self.lake.connection.execute(
            f"SELECT * FROM {self.lake.events} WHERE member = ?", [member.name]
        ).fetchnumpy()
        return len(events & identities(rows))

    def proof(self) -> list[ShardProof]:
        """See `prove`."""
        return prove(self.lake, {name: member.data for name, member in self.members.items()})


class Poller:
    """Asks the cluster repeatedly, through one member, while it is open."""

    PATH = "/api/v0/summary?scope=cluster"

    def __init__(self, member: Member, pause: float = 0.1) -> None:
        self._member, self._pause = member, pause
        self.answers: list[tuple[float, Mapping[str, str], bool]] = []
        """(seconds, missing members with reasons, whether it was complete) of each answer."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Poller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)

    @property
    def slowest(self) -> float:
        """Duration of the slowest answer in seconds."""
        return max((seconds for seconds, _, _ in self.answers), default=0.0)

    @property
    def complete(self) -> bool:
        """Whether the last answer was complete."""
        return bool(self.answers) and self.answers[-1][2]

    def names(self, member: str) -> bool:
        """Whether the last answer named a member as missing."""
        return bool(self.answers) and member in self.answers[-1][1]

    def _run(self) -> None:
        while not self._end.wait(self._pause):
            begin = time.monotonic()
            try:
                said: dict[str, Any] = self._member.get(self.PATH, 20)["cluster"]
            except (OSError, KeyError):
                continue
            self.answers.append((time.monotonic() - begin, said["missing"], bool(said["complete"])))
