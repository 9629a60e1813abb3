"""A whole cluster of real processes that fail: routes, answers, and that no event is missing or doubled.

The cluster is that of `hopscope cluster demo`: three collectors in namespaces behind a router with resilient
ECMP, NATS × 3, PostgreSQL, an S3 server, and a fabric whose 60 leaves send reports.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from hopscope.base.process.control_client import ControlError, request
from hopscope.cli.cluster.demo.demo_cluster import COMPILE_SECONDS, DemoCluster, Poller
from hopscope.cli.cluster.demo.member import Member
from hopscope.cli.cluster.demo.place import Namespaces
from hopscope.cli.cluster.demo.servers import Server, find
from hopscope.cli.demo.folder import temporary_folder

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]
KILLS = 20
ANSWERED = 300
"""Newest events of a query before each kill."""
REPORTS_PER_SECOND = 600
PAUSE = 0.25
"""Between two poller; each takes all members some milliseconds of a processor."""
SLACK_SECONDS = 3.0
"""A busy machine: beyond `answer_seconds` (2) an answer has taken only the time that its processes waited."""


@pytest.fixture(scope="module")
def whole(tool: Callable[..., str]) -> Iterator[DemoCluster]:
    """The cluster, under load."""
    if os.geteuid():
        pytest.skip("namespaces need root")
    for name in ("ip", "nats-server", "postgres"):
        tool(name)
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())  # those of pytest are closed to others
        cluster = DemoCluster(Namespaces(), folder, find(), stack)
        cluster.start_servers(["c1", "c2", "c3"])
        cluster.start_members()
        cluster.start_fabric(REPORTS_PER_SECOND, 1)
        with Poller(cluster.first, PAUSE) as poller:
            cluster.until(lambda: poller.complete, "no complete answer")
        yield cluster


def settled(cluster: DemoCluster) -> dict[str, str]:
    """The member that each switch sends to, once all have routes and no switch moves back any more."""
    looks: list[dict[str, str]] = [{}]

    def same() -> bool:
        looks.append(cluster.owners())
        return len(cluster.place.using) == len(cluster.members) and looks[-1] == looks[-2]

    cluster.until(same, "switches that stay where they are", COMPILE_SECONDS)
    return looks[-1]


def changes(
    cluster: DemoCluster, victim: Member, gone: Callable[[], object], back: Callable[[], object]
) -> None:
    """A member goes and comes back: only its own switches move, answers name it within the deadline, and are
    complete again. The table of sources of each member is the witness.
    """
    before = settled(cluster)
    own = {source for source, name in before.items() if name == victim.name}
    assert own
    assert own != before.keys()
    with Poller(cluster.witness(victim), PAUSE) as poller:
        gone()
        cluster.until(lambda: victim.name not in cluster.place.using, f"the route to {victim.name}")
        cluster.until(lambda: poller.names(victim.name), f"answers that name {victim.name}")
        during: dict[str, str] = {}

        def moved() -> bool:
            during.update(cluster.owners())
            return before.keys() <= during.keys() and victim.name not in map(during.get, own)

        cluster.until(moved, f"switches that leave {victim.name}")
        assert {source for source in before if during[source] != before[source]} == own
        back()
        cluster.until(
            lambda: victim.name in cluster.place.using, f"the route back to {victim.name}", COMPILE_SECONDS
        )
        cluster.until(lambda: poller.complete, "complete answers", COMPILE_SECONDS)
    assert poller.slowest < 2 + SLACK_SECONDS
    assert all(victim.name in missing or complete for _, missing, complete in poller.answers)
    cluster.until(
        lambda: victim.name in cluster.owners().values(), f"switches that come back to {victim.name}"
    )


def test_a_member_that_is_stopped(whole: DemoCluster) -> None:
    """SIGSTOP: its connections are open and nothing answers."""
    victim = whole.members["c2"]
    changes(whole, victim, lambda: victim.kill(signal.SIGSTOP), lambda: victim.kill(signal.SIGCONT))


def test_a_member_that_is_cut_off(whole: DemoCluster) -> None:
    """Its link is down: it goes on by itself, without NATS and without the lake, and catches up."""
    victim, place = whole.members["c3"], whole.place
    assert isinstance(place, Namespaces)

    def cut() -> None:
        place.network.link(victim.name, up=False)  # the router sees it at once, as a switch does
        place.use(set(place.using) - {victim.name})
        victim.announced = False

    def join() -> None:
        place.network.link(victim.name, up=True)
        victim.announced = True

    changes(whole, victim, cut, join)


def test_a_member_that_is_drained(whole: DemoCluster) -> None:
    """`hopscope cluster drain`: its switches go, its events come into the lake, also those that tell of the
    silence after it, and the command ends with 0.
    """
    victim = whole.members["c3"]
    before = settled(whole)
    own = {source for source, name in before.items() if name == victim.name}
    said = whole.hopscope("drain", victim.name, seconds=120)
    assert "drained" in said
    assert victim.name not in whole.place.using
    whole.until(lambda: whole.lake_has(victim, whole.ends(victim)), "the lake")
    after: dict[str, str] = {}

    def seen() -> bool:
        after.update(whole.owners())
        return before.keys() <= after.keys()

    whole.until(seen, "switches that have not sent")
    assert {source for source in before if after[source] != before[source]} == own
    assert "drained" in whole.hopscope("status")  # and not missing: it ends with 0
    assert "takes reports again" in whole.hopscope("drain", victim.name, "--undo")
    whole.until(lambda: victim.name in whole.owners().values(), "switches that come back")


class Killer:
    """Kills a random part, and starts what does not start by itself."""

    def __init__(self, cluster: DemoCluster, seed: int) -> None:
        self._cluster, self._random = cluster, random.Random(seed)
        self.killed: list[str] = []
        self.answered: dict[str, set[tuple[int, ...]]] = {name: set() for name in cluster.members}
        """Events that queries have answered with, by member."""
        # a collector takes seconds to start: few of them, and more of what is back at once
        kinds = ["collector"] * 3 + ["lake"] * 7 + ["PostgreSQL"] * 3 + ["S3"] * 3 + ["NATS leader"] * 4
        self._random.shuffle(kinds)
        assert len(kinds) == KILLS
        self._kinds = kinds

    def run(self) -> None:
        """All kills."""
        for kind in self._kinds:
            member = self._random.choice(list(self._cluster.members.values()))
            self.answered[member.name] |= member.answered(ANSWERED)
            self.killed.append(self._kill(kind, member))
            until = time.monotonic() + self._random.uniform(0.1, 1.0)
            self._cluster.until(lambda until=until: time.monotonic() > until, kind)

    def _kill(self, kind: str, member: Member) -> str:
        servers = self._cluster.servers
        if kind == "collector":
            self._cluster.until(member.receives, "an earlier start", COMPILE_SECONDS)
            member.kill()
            member.start()
        elif kind == "lake":
            if pid := _lake_process(member):
                os.kill(pid, signal.SIGKILL)
        elif kind == "NATS leader":
            self._restart(servers.leader())
        else:
            self._restart(servers.postgres if kind == "PostgreSQL" else servers.store)
        return f"{kind} {member.name}"

    def _restart(self, server: Server) -> None:
        server.kill()
        server.start()


def _lake_process(member: Member) -> int | None:
    """Process that writes into the lake; None: it, or its collector, is just starting."""
    try:
        processes = request(member.data, {"status": {}})["processes"]
    except ControlError:
        return None
    return next((each["pid"] for each in processes if each["name"] == "lake"), None)


def test_each_event_is_in_the_lake_once_whatever_is_killed(whole: DemoCluster) -> None:
    """20 random SIGKILLs under load: of collectors, lake processes, PostgreSQL, S3 and the leader of NATS.

    Then per member and shard count = distinct = max + 1 in the lake; with the history of members nothing
    is missing; and all events that a query had answered with are in the lake, unchanged.
    """
    killer = Killer(whole, seed=18)
    killer.run()
    for server in whole.servers.all:
        server.wait()
    for member in whole.members.values():
        whole.until(member.receives, f"the start of {member.name}", COMPILE_SECONDS)
    whole.fabric.stop()
    whole.catch_up()
    proof = whole.proof()
    assert {each.member for each in proof} == whole.members.keys()
    assert all(each.holds for each in proof), (killer.killed, proof)
    assert all(each.lake == each.distinct == each.mark for each in proof)
    for name, answered in killer.answered.items():
        assert len(answered) >= ANSWERED
        assert whole.in_lake(whole.members[name], answered) == len(answered), killer.killed
