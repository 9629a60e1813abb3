"""`hopscope cluster`, with members that are records in NATS: what it prints, and its exit status."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.cli.cluster import config
from hopscope.cluster.configuration import Configuration, Configurations, Limits
from hopscope.cluster.connection import Connection
from hopscope.cluster.membership.members import MemberRecord, Registration
from support.cluster.members import make, settings_of
from support.processes.command import Run
from support.servers.server_process import NatsServer, free_port

GOOD = MemberRecord(
    "c1", "x" * 32, address="http://192.0.2.1:8080", version="1.0", lag_events=1200, lag_seconds=4.0
)


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    """A server."""
    made = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def given(nats: NatsServer, request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Options that name a cluster of the test's own, which is made."""
    name = request.node.name[:32].strip("_")
    make(settings_of(nats.url, name, "x", member_seconds=60))
    return "--nats", nats.url, "--cluster", name


@pytest.fixture
def connection(given: tuple[str, ...]) -> Iterator[Connection]:
    """To the cluster."""
    with Connection(settings_of(given[1], given[3], "x").cluster, "test") as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """A command in a wide terminal, without settings of this machine."""
    from support.processes import command

    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return command.run


def test_status_says_what_is_wrong(run: Run, connection: Connection, given: tuple[str, ...]) -> None:
    """Exit status 0 if all is well; 1 with a line for each member that is missing, not ready or late."""
    there, gone = Registration(connection, 0), Registration(connection, 0)
    there.put(GOOD)
    there.remember(GOOD)
    status, text, _ = run("cluster", "status", *given)
    assert status == 0, text
    assert "c1      ready" in text
    assert "1 member, 0 missing, 1,200 events not in the lake" in text

    two = replace(GOOD, name="c2", lag_events=7)
    gone.put(two)
    gone.leave(replace(two, state="stopped"))
    gone.remember(replace(GOOD, name="c3"))
    assert "missing for at most" in run("cluster", "status", *given)[1]
    bad = replace(
        GOOD, ready=False, reason="no disk", route_problem="birdc: ended with 1",
        time_ns=time.time_ns() - 600 * 10**9,
    )  # fmt: skip
    there.put(bad)
    there.remember(bad)
    Configurations(connection).put(Configuration(Limits({"hop_latency": {"change": 1}})), 0)
    status, text, _ = run("cluster", "status", *given)
    assert status == 1
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- c2 is stopped: start it, or remove it for good by: hopscope cluster forget c2",
        "- c3 is missing: start it, or remove it for good by: hopscope cluster forget c3",
        "- c1: not ready: no disk",
        "- c1: it has revision 0 of the configuration, not 1",
        "- c1: its clock is 10 min behind that of NATS: times of its events are wrong",
        "- c1: route: birdc: ended with 1",
    ]
    status, text, _ = run("cluster", "status", "--format", "json", *given)
    found: dict[str, Any] = json.loads(text)
    assert status == 1
    assert [each["name"] for each in found["members"]] == ["c1"]
    assert [(each["name"], each["lag_events"]) for each in found["missing"]] == [("c2", 7), ("c3", 1200)]
    assert len(found["problems"]) == 6


def test_only_missing_members_are_forgotten(run: Run, connection: Connection, given: tuple[str, ...]) -> None:
    """One that is there stays without --force; then it is gone from the status."""
    registration = Registration(connection, 0)
    registration.put(GOOD)
    registration.remember(GOOD)
    status, _, error = run("cluster", "forget", "c1", *given)
    assert (status, error) == (2, "hopscope: c1: the member is running; stop it first\n")
    assert run("cluster", "forget", "c9", *given)[0] == 2
    status, text, _ = run("cluster", "forget", "c1", "--force", "--json", *given)
    assert (status, json.loads(text)) == (0, {"forgotten": "c1", "problem": ""})
    assert json.loads(run("cluster", "status", "--json", *given)[1])["missing"] == []


def test_what_programs_read(
    run: Run, connection: Connection, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command answers with one JSON object: what was there, who has a revision and who has not, and
    where a drain stopped.
    """
    monkeypatch.setenv("HOPSCOPE_CLUSTER__REPLICAS", "1")  # newer servers refuse more of a single one
    registration = Registration(connection, 0)
    registration.put(replace(GOOD, revision_problem="revision 1: no such limit"))
    registration.remember(GOOD)
    assert set(json.loads(run("cluster", "init", "--json", *given)[1]).values()) == {"changed", "unchanged"}
    assert set(json.loads(run("cluster", "init", "--json", *given)[1]).values()) == {"unchanged"}
    status, text, _ = run("cluster", "config", "set", "hop_latency.change=1", "--json", *given)
    assert status == 1
    expected = {"revision": 1, "applied_by": [], "not_applied_by": {"c1": "revision 1: no such limit"}}
    assert json.loads(text) == expected


def test_what_a_member_said_before_is_no_answer(
    run: Run, connection: Connection, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of before a change, with a problem of an earlier revision, or with a larger number of before
    NATS lost its buckets, neither refuses the new revision nor has applied it.
    """
    monkeypatch.setattr(config, "WAIT_SECONDS", 0.1)
    registration = Registration(connection, 0)
    records = replace(GOOD, revision_problem="revision 1: no such limit"), replace(GOOD, revision=70)
    for number, record in enumerate((GOOD, *records), 1):
        registration.put(record)
        status, text, _ = run("cluster", "config", "set", f"hop_latency.change={number}", "--json", *given)
        expected = {"revision": number, "applied_by": [], "not_applied_by": {"c1": "no answer yet"}}
        assert (status, json.loads(text)) == (1, expected)


def test_configuration_changes(run: Run, connection: Connection, given: tuple[str, ...]) -> None:
    """Set, take out, show, history and rollback; what no member could apply is refused, and so is a change
    that comes second.
    """
    for words, found in (
        (("set", "hop_latency.raise_above=50us", "flow_latency.change=never"), "revision 1\n"),
        (("set", "hop_latency.raise_above=60us", "--node", "7", "--note", "seven"), "revision 2\n"),
        (("set", "hop_latency.raise_above=settings"), "revision 3\n"),
    ):
        assert run("cluster", "config", *words, *given)[:2] == (0, found)
    status, text, _ = run("cluster", "config", "show", "-f", "json", *given)
    assert [json.loads(line) for line in text.splitlines()] == [
        {"switch": "all", "metric": "flow_latency", "limit": "change", "value": "never"},
        {"switch": "7", "metric": "hop_latency", "limit": "raise_above", "value": "60.0 µs"},
    ]
    assert run("cluster", "config", "rollback", "1", *given)[:2] == (0, "revision 4\n")
    assert Configurations(connection).newest().configuration.limits == Limits(
        {"hop_latency": {"raise_above": 50_000}, "flow_latency": {"change": None}}
    )
    shown = run("cluster", "config", "history", "-f", "csv", *given)[1].splitlines()
    assert [line.split(",")[0] for line in shown] == ["revision", "4", "3", "2", "1"]
    assert shown[1].endswith(",2,rollback to revision 1")
    refused: tuple[tuple[tuple[str, ...], int, str], ...] = (
        (("set", "hop_latency.speed=1"), 2, "speed: unknown limit"),
        (("set", "hop_latncy.raise_above=50us"), 2, "unknown metric 'hop_latncy'; did you mean hop_latency?"),
        (("set", "hop_latency.clear_below=90us"), 2, "clear_below"),
        (("set", "hop_latency.change=1", "--after", "2"), 1, "to revision 4: nothing was changed"),
        (("rollback", "77"), 2, "revision 77 of the configuration is not kept"),
    )
    for wrong, expected, problem in refused:
        status, _, error = run("cluster", "config", *wrong, *given)
        assert (status, problem in error) == (expected, True), error
    assert Configurations(connection).newest().number == 4


def test_without_nats(run: Run) -> None:
    """Exit status 2, and what to set or where nothing answers."""
    status, _, error = run("cluster", "status")
    assert (status, "cluster.nats" in error) == (2, True)
    port = free_port()
    status, _, error = run("cluster", "status", "--nats", f"nats://127.0.0.1:{port}")
    assert (status, f"127.0.0.1:{port}" in error) == (2, True)
    status, _, error = run("cluster", "status", "--nats", "nats://192.0.2.1:4222")
    assert (status, "without an identity" in error) == (2, True)
