"""One configuration for all members: whole or not at all, also for those that were away."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.process.control_client import RejectedError, request
from hopscope.cluster.configuration import Configuration, Configurations, ConflictError, Limits, merged
from hopscope.cluster.configuration_applier import ConfigurationApplier
from hopscope.cluster.connection import ClusterError, Connection
from support.cluster.members import Member, make, running, settings_of, with_nats
from support.processes.control_end import ControlEnd, control_end
from support.servers.server_process import NatsServer
from support.waiting import eventually

Start = Callable[..., tuple[Member, ControlEnd]]


@pytest.fixture
def start(nats: NatsServer, cluster: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a member by name, with the control socket of a collector whose detection has `thresholds`."""
    with ExitStack() as ends:

        def start(name: str, **more: Any) -> tuple[Member, ControlEnd]:
            settings = settings_of(nats.url, cluster, name).model_copy(update=more)
            end = ends.enter_context(control_end(settings, tmp_path / name))
            member = Member(settings, tmp_path / name, lambda context: [ConfigurationApplier(context)])
            ends.enter_context(running(member))
            return member, end

        make(settings_of(nats.url, cluster, "x"))
        yield start


@pytest.fixture
def configurations(nats: NatsServer, cluster: str, start: Start) -> Iterator[Configurations]:
    """As a command has them."""
    with Connection(settings_of(nats.url, cluster, "x").cluster, "test") as connection:
        yield Configurations(connection)


def hop(**limits: int | None) -> Configuration:
    return Configuration(Limits({"hop_latency": dict(limits)}), "ada@host")


def says(member: Member, name: str, revision: int, problem: str = "") -> bool:
    """Whether a member reads in the record of `name` that it has a revision."""
    found = {each["name"]: each for each in member.status()["members"]}
    said = found.get(name, {})
    return said.get("revision") == revision and problem in said.get("revision_problem", "")


def test_all_members_apply_a_revision(start: Start, configurations: Configurations) -> None:
    """Each has it in force, says so in its record, and a request at one member does not change it."""
    (one, at_one), (two, at_two) = start("c1"), start("c2")
    number = configurations.put(hop(raise_above=70), 0)
    for end in (at_one, at_two):
        eventually(lambda end=end: end.general("hop_latency")["raise_above"] == 70)
    for name in ("c1", "c2"):
        eventually(lambda name=name: says(one, name, number) and says(two, name, number))
    with pytest.raises(RejectedError, match=f"revision {number}"):
        request(one.context.data, {"set_limits": {"general": {"hop_latency": {"raise_above": 9}}}})
    assert configurations.at(number).configuration == hop(raise_above=70)


def test_a_member_that_was_away_catches_up(start: Start, configurations: Configurations) -> None:
    """It has the newest revision after its start, whatever it missed, and history and rollback are there."""
    _, first = start("c1")
    numbers = [configurations.put(hop(change=1), 0)]
    eventually(lambda: first.general("hop_latency")["change"] == 1)
    for change in (2, 3):
        numbers.append(configurations.put(hop(change=change), numbers[-1]))
    late, end = start("c2")
    eventually(lambda: end.general("hop_latency")["change"] == 3)
    assert [each.number for each in configurations.history()] == numbers[::-1]
    number = configurations.put(configurations.at(numbers[0]).configuration, numbers[-1])
    for each in (first, end):
        eventually(lambda each=each: each.general("hop_latency")["change"] == 1)
    eventually(lambda: says(late, "c1", number))
    with pytest.raises(ClusterError, match="revision 99 of the configuration is not kept"):
        configurations.at(99)


def test_a_configuration_that_nats_has_lost(
    nats: NatsServer, start: Start, cluster: str, configurations: Configurations
) -> None:
    """Its bucket is deleted and made again: members keep the revision, and say so. The numbers begin again:
    another revision with the same number is applied.
    """
    member, end = start("c1")
    number = configurations.put(hop(change=7), 0)
    eventually(lambda: says(member, "c1", number))
    with_nats(nats.url, lambda _, jetstream: jetstream.delete_stream(f"KV_hopscope-{cluster}-config"))
    make(settings_of(nats.url, cluster, "x"))
    eventually(lambda: says(member, "c1", number, f"revision {number} stays in force"))
    assert end.general("hop_latency")["change"] == 7
    assert configurations.put(hop(change=8), 0) == number
    eventually(lambda: end.general("hop_latency")["change"] == 8)
    eventually(
        lambda: member.status()["configuration"] == {"newest": 1, "revision": 1, "revision_problem": ""}
    )


def test_one_of_two_racing_changes_wins(
    nats: NatsServer, cluster: str, configurations: Configurations
) -> None:
    """Of changes that start from the same revision one is stored; the others learn by whom, and nothing of
    theirs is stored.
    """
    barrier = threading.Barrier(4)
    lost: list[str] = []
    won: list[tuple[int, int]] = []

    def race(value: int) -> None:
        with Connection(settings_of(nats.url, cluster, "x").cluster, "test") as connection:
            barrier.wait()
            try:
                won.append((Configurations(connection).put(hop(change=value), 0), value))
            except ConflictError as error:
                lost.append(str(error))

    racers = [threading.Thread(target=race, args=(value,)) for value in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(won) == 1
    assert len(lost) == 3
    assert all("changed by ada@host meanwhile" in each for each in lost)
    number, value = won[0]
    assert [(each.number, each.configuration) for each in configurations.history()] == [
        (number, hop(change=value))
    ]


def test_a_member_that_cannot_apply_a_revision_says_why(start: Start, configurations: Configurations) -> None:
    """It keeps its revision as a whole, and states the reason; the next good revision is applied."""
    member, end = start("c1")
    good = configurations.put(hop(change=1), 0)
    eventually(lambda: says(member, "c1", good))
    bad = Configuration(Limits({"hop_latency": {"change": 2}, "speed": {"change": 1}}))
    number = configurations.put(bad, good)
    eventually(lambda: says(member, "c1", good, f"revision {number}: speed: unknown metric"))
    assert end.general("hop_latency")["change"] == 1
    number = configurations.put(Configuration(Limits({"x" * 1000: {"y" * 1000: 1}})), number)
    eventually(lambda: says(member, "c1", good, f"revision {number}: xxx"))
    number = configurations.put(hop(change=4), number)
    eventually(lambda: says(member, "c1", number))


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[1]", b"[" * 50_000, b'{"limits": {"general": 3}}', b'{"by": "\\u001b[2J"}',
     b'{"limits": {"general": {"hop_latency": {"change": 1e9}}}}',
     b'{"limits": {"general": {"a": {"b": -1}}}}'],
    ids=lambda value: str(value[:30]),
)  # fmt: skip
def test_a_configuration_of_strangers_is_refused(
    nats: NatsServer, cluster: str, configurations: Configurations, value: bytes
) -> None:
    """What is no configuration is shown with its revision and the reason, and a change can replace it."""

    async def write(_: Any, jetstream: Any) -> None:
        await (await jetstream.key_value(f"hopscope-{cluster}-config")).put("configuration", value)

    with_nats(nats.url, write)
    newest = configurations.newest()
    assert newest.problem.isprintable()
    assert newest.problem
    configurations.put(hop(change=1), newest.number)
    assert configurations.newest().problem == ""


def test_merging() -> None:
    """Given limits are set, those in `without` go, and what becomes empty is not kept."""
    before = Limits({"hop_latency": {"change": 1, "raise_above": 9}}, {"7": {"hop_latency": {"change": 2}}})
    after = merged(
        before, Limits({"flow_latency": {"change": None}}), Limits({"hop_latency": {"change": None}})
    )
    assert after == Limits(
        {"hop_latency": {"raise_above": 9}, "flow_latency": {"change": None}}, before.switches
    )
    given = Limits(switches={"8": {"hop_latency": {"change": "general"}}, "9": None})
    gone = Limits(switches={"7": {"hop_latency": {"change": None}}})
    assert merged(before, given, gone) == Limits(before.general, given.switches)
    assert json.loads(Configuration(before).encode())["limits"]["switches"] == before.switches
