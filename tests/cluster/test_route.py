"""The route of a member: commands of the settings, readiness that is asked for; ExaBGP and BIRD, real BGP."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hopscope.cli.cluster.demo.fabric import owner
from hopscope.cluster.membership import route
from hopscope.cluster.membership.route import Probe, Route
from hopscope.testbed.ecmp import SERVICE, EcmpNetwork
from hopscope.testbed.namespaces import inside
from support.network.bgp import Router
from support.waiting import eventually

PORT = 8080
SOURCES = 600
RCVBUFFORCE = 33  # asm-generic/socket.h: a datagram of each source waits until it is read


class Readiness:
    """A /readyz on loopback whose answer a test chooses."""

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(outer.status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/readyz"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """No answer any more: the port is closed."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def readiness() -> Iterator[Readiness]:
    made = Readiness()
    yield made
    made.close()


def turned(one: Route, wanted: bool, done: Callable[[], object]) -> None:
    """Turn until something is so."""

    def turn() -> object:
        one.turn(wanted)
        return done()

    eventually(turn, lambda: one)


def test_commands_run_once_per_change(tmp_path: Path) -> None:
    """`announce` and `withdraw` run when what is wanted changes, without a shell, and not again; at the end
    the route is withdrawn.
    """
    file = tmp_path / "said"
    lines: list[str] = []
    write = ["sh", "-c", 'echo "$1" >> "$2"', "sh"]
    made = Route([*write, "up; $HOME", str(file)], [*write, "down", str(file)], lines.append)
    assert made.state == "unknown"
    turned(made, True, lambda: made.announced)
    for _ in range(3):
        made.turn(True)
    assert file.read_text() == "up; $HOME\n"
    turned(made, False, lambda: made.announced is False)
    turned(made, True, lambda: made.announced)
    made.close()
    assert file.read_text().split("\n") == ["up; $HOME", "down", "up; $HOME", "down", ""]
    assert lines == ["route announced", "route withdrawn"] * 2


def test_a_command_that_fails_is_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its status and output, that it is missing, or that it ran too long are the problem until it works."""
    monkeypatch.setattr(route, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(route, "COMMAND_SECONDS", 0.2)
    switch = tmp_path / "good"
    words = ["sh", "-c", f"test -e {switch} || {{ echo no session >&2; exit 3; }}"]
    made = Route(words, [], lambda line: None)
    turned(made, True, lambda: made.problem)
    assert made.problem == "sh: ended with 3: no session"
    assert made.announced is None
    switch.touch()
    turned(made, True, lambda: made.announced)
    assert made.problem == ""
    for words, problem in (
        (["/no/such/program"], "/no/such/program: No such file or directory"),
        (["sleep", "60"], "sleep: ran longer than 0.2 s"),
    ):
        failing = Route(words, [], lambda line: None)
        eventually(lambda failing=failing: failing.turn(True) or failing.problem)
        assert failing.problem == problem


def test_readiness_counts_after_some_answers(readiness: Readiness) -> None:
    """The first answer decides; later ones only after `rises` or `falls` of them in a row; a closed port is
    no answer.
    """
    probe = Probe(readiness.url, rises=2, falls=3)
    assert probe.look()
    readiness.status = 503
    assert [probe.look() for _ in range(3)] == [True, True, False]
    assert probe.reason == "status 503"
    readiness.status = 200
    assert [probe.look() for _ in range(2)] == [False, True]
    readiness.close()
    assert [probe.look() for _ in range(3)] == [True, True, False]
    assert probe.reason == "Connection refused"


def test_readiness_that_hangs_is_none() -> None:
    """A collector that is stopped (SIGSTOP) takes connections and never answers: it counts as not ready."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        probe = Probe(f"http://127.0.0.1:{silent.getsockname()[1]}/readyz", seconds=0.05)
        assert not probe.look()
    assert probe.reason == "timed out"


def test_announce_prints_what_exabgp_reads(readiness: Readiness) -> None:
    """Lines of ExaBGP's text API by readiness; SIGTERM withdraws what is announced."""
    words = [
        "--prefix",
        "192.0.2.1/32",
        "--prefix",
        "2001:db8::1/128",
        "--url",
        readiness.url,
        "--every",
        "0.05",
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "hopscope", "cluster", "announce", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = process.stdout
        assert [lines.readline() for _ in range(2)] == [
            "announce route 192.0.2.1/32 next-hop self\n", "announce route 2001:db8::1/128 next-hop self\n"
        ]  # fmt: skip
        readiness.status = 503
        assert lines.readline() == "withdraw route 192.0.2.1/32 next-hop self\n"
        lines.readline()
        readiness.status = 200
        assert lines.readline().startswith("announce")
        lines.readline()
        process.send_signal(signal.SIGTERM)
        assert lines.readline() == "withdraw route 192.0.2.1/32 next-hop self\n"
        assert process.wait() == 0
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
    assert said == [
        "hopscope: route announced",
        "hopscope: route withdrawn: status 503",
        "hopscope: route announced",
        "hopscope: route withdrawn: this command ends",
    ]


def test_only_the_switches_of_a_member_that_leaves_choose_another() -> None:
    """Rendezvous hashing over 4 members and 4,000 switches: shares are even, and a member that leaves moves
    its own switches and no other.
    """
    sources = range(0x7F000101, 0x7F000101 + 4000)
    four = dict.fromkeys(("c1", "c2", "c3", "c4"))
    three = dict.fromkeys(("c1", "c2", "c4"))
    before = {source: owner(source, four) for source in sources}
    after = {source: owner(source, three) for source in sources}
    assert {before[s] for s in sources if before[s] != after[s]} == {"c3"}
    assert "c3" not in after.values()
    # 1,000 expected, standard deviation sqrt(4000 * 1/4 * 3/4) = 27.4: within five of them
    assert all(abs(count - 1000) < 137 for count in Counter(before.values()).values())


class Switches:
    """Senders with addresses of their own behind the router, and a receiver in each member."""

    def __init__(self, network: EcmpNetwork, stack: ExitStack) -> None:
        def sender(number: int) -> socket.socket:
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.bind((f"198.19.{number >> 8}.{number & 255}", 0))
            return made

        def receiver() -> socket.socket:
            made = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            made.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 1 << 22)
            made.bind((SERVICE, 5000))
            made.setblocking(False)
            return made

        self._senders = inside(network.full("fabric"), lambda: [sender(n) for n in range(1, SOURCES + 1)])
        self._receivers = {name: inside(network.full(name), receiver) for name in network.members}

    def owners(self) -> dict[str, str]:
        """Each sends one datagram: the member that got it, by address of the sender."""
        for sender in self._senders:
            sender.sendto(b"report", (SERVICE, 5000))  # veth delivers before this returns
        found = {}
        for name, receiver in self._receivers.items():
            while True:
                try:
                    found[receiver.recvfrom(16)[1][0]] = name
                except BlockingIOError:
                    break
        return found


@pytest.mark.e2e
def test_routes_by_bgp_move_only_the_switches_of_a_member(tmp_path: Path, tool: Callable[..., str]) -> None:
    """600 switches over three members that announce one address by BGP: two with ExaBGP, one with BIRD.

    One that is not ready, one whose collector is gone, one whose ExaBGP is killed, and one whose link is down
    lose their switches to the others, and no other switch moves. Where datagrams arrive is the witness of the
    kernel's buckets.
    """
    if os.geteuid():
        pytest.skip("namespaces need root")
    with ExitStack() as stack:
        network = EcmpNetwork(f"hopscope-bgp-{os.getpid()}", ["c1", "c2", "c3"])
        stack.callback(network.remove)
        network.create()
        ready = {name: inside(network.full(name), lambda: Readiness(PORT)) for name in network.members}
        switches = Switches(network, stack)
        router = Router(network, tmp_path, stack, tool)
        often = ("--every", "0.1")
        speakers = {name: router.exabgp(name, *often) for name in ("c1", "c2")}
        router.bird("c3", *often)

        def routed(*members: str) -> dict[str, str]:
            eventually(lambda: router.follow() == set(members), lambda: f"routes to {router.routes()}", 0.05)
            assert set(network.buckets()) == set(members)
            return switches.owners()

        def left(before: dict[str, str], gone: str, *members: str) -> dict[str, str]:
            after = routed(*members)
            assert after.keys() == before.keys()
            assert {before[s] for s in before if before[s] != after[s]} == {gone}
            return after

        every = routed("c1", "c2", "c3")
        assert len(every) == SOURCES
        # 200 expected of 256 buckets, 85 each: within five standard deviations of the sources, 11.5
        assert all(abs(count - SOURCES / 3) < 58 for count in Counter(every.values()).values())
        for gone, others in (("c1", ("c2", "c3")), ("c3", ("c1", "c2"))):  # by ExaBGP, and by BIRD
            before = routed("c1", "c2", "c3")
            ready[gone].status = 503
            left(before, gone, *others)
            ready[gone].status = 200
        before = routed("c1", "c2", "c3")
        ready["c1"].close()
        before = left(before, "c1", "c2", "c3")
        speakers["c2"].send_signal(signal.SIGKILL)
        before = left(before, "c2", "c3")
        assert set(before.values()) == {"c3"}
        ready["c1"] = inside(network.full("c1"), lambda: Readiness(PORT))
        before = routed("c1", "c3")
        network.link("c1", up=False)
        left(before, "c1", "c3")
        for each in ready.values():
            each.close()
