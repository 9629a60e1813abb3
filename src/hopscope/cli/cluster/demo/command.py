"""`hopscope cluster demo`: runs a cluster, kills one collector, and proves that no event is missing."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from ....base.errors import HopscopeError
from ....base.process.stop import at_signals
from ...options.declare import Options, option
from ...output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from .demo_cluster import DemoCluster
    from .member import Member
    from .view import Story

SEEN = 1000
"""Number of events in the last answer before the kill; all of them must reach the lake."""


@dataclass(frozen=True)
class DemoOptions(Options):
    """How much is shown."""

    nodes: int = option("--nodes N", "Number of collectors.", 3, min=2, max=9)
    rate: float = option("--rate N", "Reports per second, of all switches.", 3_000, min=100, max=100_000)
    load_seconds: float = option("--load-seconds S", "Time of load before the kill.", 6.0, min=2, max=600)
    down_seconds: float = option(
        "--down-seconds S", "Time until the killed collector is started again.", 5.0, min=4, max=600
    )
    seed: int = option("--seed N", "Same seed, same traffic.", 1, min=0)
    keep: bool = option("--keep", "Leave it running until Ctrl-C, and print what to try.", False)
    loopback: bool = option("--loopback", "Use loopback ports even as root, without namespaces.", False)
    form: SummaryOption = Summary.TEXT


def demo(options: DemoOptions) -> None:
    """Run a whole cluster on this machine, kill one collector, and prove that no event is missing or doubled.

    Starts three NATS servers, PostgreSQL, an S3 server (SeaweedFS), collectors with [cluster] and [lake], and
    a simulated fabric. As root, collectors are in network namespaces and a router spreads switches over them
    by ECMP; otherwise everything is on loopback, and switches choose by a hash. Takes about a minute.
    Everything that it made is removed when it ends or is interrupted, or, if it was killed, at the next
    start.

    Exit status 1: the proof failed; 2: it could not start.
    """
    from ...demo.folder import temporary_folder
    from .demo_cluster import DemoCluster
    from .place import Loopback, choose
    from .servers import find
    from .view import Story, summary

    if sys.platform != "linux":
        raise HopscopeError("collectors need Linux")
    programs, stop, story = find(), threading.Event(), Story()
    at_signals(stop.set, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def turn(waits_for: str) -> None:
        if stop.is_set():
            raise typer.Exit(130)
        story.wait(waits_for)

    with ExitStack() as stack:
        stack.callback(story.close)
        place = Loopback() if options.loopback else choose()
        cluster = DemoCluster(place, stack.enter_context(temporary_folder()), programs, stack)
        cluster.on_turn = turn
        result = _Demo(options, cluster, story).run()
        story.close()
        print(json.dumps(result) if options.form is Summary.JSON else "\n".join(summary(result)), flush=True)
        if options.keep:
            _keep(cluster, story, options)
    raise typer.Exit(int(not result["holds"]))


def _keep(cluster: DemoCluster, story: Story, options: DemoOptions) -> None:
    """Print commands to try, and keep the cluster running until Ctrl-C."""
    first = cluster.first
    inside = cluster.place.command("router")
    for member in cluster.members.values():
        story.say(member.name, f"{member.url}   settings {member.config}")
    last = list(cluster.members)[-1]
    for words in ("cluster status", "query events --scope cluster", f"cluster drain {last}"):
        story.say("try", f"{inside}hopscope {words} --config {first.config}")
    cluster.start_fabric(options.rate, options.seed)
    story.say("running", "until Ctrl-C")
    cluster.until(lambda: False, "running until Ctrl-C", float("inf"))


class _Demo:
    """The course of the demo: load, a kill, a restart, the proof."""

    def __init__(self, options: DemoOptions, cluster: DemoCluster, story: Story) -> None:
        self._options, self._cluster, self._story = options, cluster, story

    def run(self) -> dict[str, Any]:
        """Run the demo; returns the result for JSON."""
        options, cluster, story = self._options, self._cluster, self._story
        names = [f"c{number}" for number in range(1, options.nodes + 1)]
        story.title(f"A cluster of {len(names)} collectors: {cluster.place.title}")
        cluster.start_servers(names)
        story.say("servers", "NATS × 3 with JetStream, PostgreSQL, S3 (SeaweedFS)")
        cluster.start_members()
        for member in cluster.members.values():
            story.say(member.name, f"collects, its route is announced; page {member.url}")
        cluster.start_fabric(options.rate, options.seed)
        from .demo_cluster import LEAVES

        story.say("fabric", f"{LEAVES} leaf switches send {options.rate:,.0f} reports/s")
        self._load(options.load_seconds)
        victim = cluster.members[names[len(names) // 2]]
        killed = self._kill(victim)
        again = self._start_again(victim, killed)
        self._load(2.0)
        cluster.fabric.stop()
        story.say("fabric", f"stopped after {cluster.fabric.reports:,} reports")
        result = self._prove(victim, killed.pop("received"))
        return {"members": names, "switches": LEAVES, "killed": killed, "started_again": again, **result}

    def _load(self, seconds: float) -> None:
        """Let the fabric send for `seconds`, and report what each member received."""
        from .demo_cluster import Poller

        cluster = self._cluster
        with Poller(cluster.first) as poller:
            until = time.monotonic() + seconds
            cluster.until(
                lambda: time.monotonic() >= until and poller.complete,
                lambda: f"load: {cluster.fabric.reports:,} reports sent",
            )
        parts = (
            f"{member.name} {member.senders()} switches, {member.reports():,} reports"
            for member in cluster.members.values()
        )
        self._story.say("load", "; ".join(parts))

    def _kill(self, victim: Member) -> dict[str, Any]:
        from .demo_cluster import Poller

        cluster, story = self._cluster, self._story
        before = cluster.owners()
        own = {source for source, name in before.items() if name == victim.name}
        self._seen = victim.answered(SEEN)
        base = {name: member.sources() for name, member in cluster.members.items() if member is not victim}
        witness = cluster.witness(victim)
        done: dict[str, float] = {}
        with Poller(witness) as poller:
            victim.kill()
            story.say("SIGKILL", f"{victim.name}: all its processes", "bold red")
            received = victim.reports()
            self._ends = cluster.ends(victim)

            def look() -> bool:
                now = time.monotonic() - victim.killed_at
                if victim.name not in cluster.place.using:
                    self._mark(done, "withdrawn", now, "route", f"of {victim.name} withdrawn")
                if own <= _grown(base, cluster):
                    self._mark(done, "moved", now, "switches", f"{len(own)} of {victim.name} reach others")
                if any(each["name"] == victim.name for each in witness.status().get("missing", ())):
                    self._mark(done, "gone", now, "members", f"{victim.name} is missing")
                if poller.names(victim.name):
                    self._mark(done, "answered", now, "answers", f"name {victim.name}")
                return len(done) == 4 and now >= self._options.down_seconds

            cluster.until(look, f"{victim.name} is dead")
            self._between = cluster.owners()
        others = {source: name for source, name in before.items() if name != victim.name}
        moved = [source for source, name in others.items() if self._between.get(source, name) != name]
        return {
            "member": victim.name,
            "sources": len(own),
            "others": len(others),
            "others_moved": len(moved),
            **_rounded(done),
            "answers": len(poller.answers),
            "named": sum(victim.name in missing for _, missing, _ in poller.answers),
            "slowest_answer_seconds": round(poller.slowest, 3),
            "received": received,
        }

    def _start_again(self, victim: Member, killed: dict[str, Any]) -> dict[str, Any]:
        from .demo_cluster import COMPILE_SECONDS, Poller

        cluster = self._cluster
        begin = time.monotonic()
        killed["down_seconds"] = round(begin - victim.killed_at, 1)
        self._story.say("start", f"{victim.name} again, on what its disk has", "bold green")
        victim.start()
        done: dict[str, float] = {}
        with Poller(cluster.witness(victim)) as poller:

            def look() -> bool:
                now = time.monotonic() - begin
                if victim.receives():
                    self._mark(done, "received", now, victim.name, "receives again")
                if victim.name in cluster.place.using and victim.senders():
                    self._mark(done, "sources", now, "switches", f"send to {victim.name} again")
                if poller.complete:
                    self._mark(done, "complete", now, "answers", "are complete again")
                if "lake" not in done and cluster.lake_has(victim, self._ends):
                    self._mark(done, "lake", now, "lake", f"has all that {victim.name} had at the kill")
                return len(done) == 4

            cluster.until(look, f"{victim.name} comes back", COMPILE_SECONDS)
        after = cluster.owners()
        moved = [s for s, name in self._between.items() if after.get(s, name) not in (name, victim.name)]
        return {
            **_rounded(done),
            "sources": sum(name == victim.name for name in after.values()),
            "of": len(after),
            "others_moved": len(moved),
        }

    def _mark(self, done: dict[str, float], key: str, now: float, what: str, text: str) -> None:
        if key not in done:
            done[key] = now
            self._story.say(what, f"{text}, after {now:.2f} s")

    def _prove(self, victim: Member, received_before: int) -> dict[str, Any]:
        from .proof import summed

        cluster, begin = self._cluster, time.monotonic()
        cluster.catch_up()
        caught_up = time.monotonic() - begin
        self._story.say("lake", f"has caught up, {caught_up:.2f} s after the last report")
        proof = summed(cluster.proof())
        counts = {name: member.reports() for name, member in cluster.members.items()}
        counts[victim.name] += received_before  # those of a new process begin at 0
        sent, received = cluster.fabric.reports, sum(counts.values())
        in_lake = cluster.in_lake(victim, self._seen)
        return {
            "place": type(cluster.place).__name__.lower(),
            "lake_seconds": round(caught_up, 3),
            "reports": {"sent": sent, "received": received, "lost": sent - received, "by_member": counts},
            "seen": {"events": len(self._seen), "in_lake": in_lake},
            "proof": proof,
            "holds": proof["holds"] and in_lake == len(self._seen) > 0 and received <= sent,
            "seconds": round(self._story.seconds, 1),
        }


def _grown(base: dict[str, dict[str, int]], cluster: DemoCluster) -> set[str]:
    """Switches of which one of these members has received reports since `base`."""
    return {
        source
        for name, sources in base.items()
        for source, count in cluster.members[name].sources().items()
        if count > sources.get(source, 0)
    }


def _rounded(done: dict[str, float]) -> dict[str, float]:
    return {f"{key}_seconds": round(value, 3) for key, value in done.items()}
