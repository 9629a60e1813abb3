"""Traffic of a fabric, without one: threads that fail, an iperf3 that says much, signals, what is
reported.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from hopscope.cli.fabric.traffic import TrafficRequest
from hopscope.cli.output.running import interruptible
from hopscope.fabric.topology import parse_topology
from hopscope.testbed import traffic
from hopscope.testbed.fabric import FabricPlan, TestbedError, plan
from hopscope.testbed.namespaces import is_running
from hopscope.testbed.traffic import HostTraffic, iperf
from support.waiting import HANG_SECONDS

LISTENS = "#!/bin/sh\ncase \"$*\" in *' -s '*) echo $$ > {0}/server; echo listening;"


@pytest.fixture
def parts() -> FabricPlan:
    """A fabric that does not exist."""
    return plan(parse_topology("leaf-spine:2x2x2"), "unmade", max_hop=5)


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs are found first; it has an iperf3 that is never called directly."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    write(tmp_path / "iperf3", "#!/bin/sh\n")
    return tmp_path


def write(path: Path, text: str) -> None:
    """An executable file."""
    path.write_text(text)
    path.chmod(0o755)


def test_what_a_thread_raises_reaches_the_caller() -> None:
    """One sender's failure ends the others, and is raised; so does what is found by looking."""
    end = threading.Event()

    def fail() -> None:
        raise TestbedError("this one")

    with pytest.raises(TestbedError, match="this one"):
        traffic._at_once([lambda: assert_waited(end), fail], end, lambda: None)
    end = threading.Event()
    with pytest.raises(TestbedError, match="this one"):
        traffic._at_once([lambda: assert_waited(end)], end, fail)


def assert_waited(end: threading.Event) -> None:
    """Go on until told."""
    assert end.wait(HANG_SECONDS)


def test_a_sender_without_the_right_to_hurry(parts: FabricPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without CAP_SYS_NICE it sends all the same."""

    def refuse(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    monkeypatch.setattr(traffic, "inside", lambda _, work: work())
    told, other = HostTraffic("host-0-0"), parts.hosts[1]
    one = traffic._Sender(parts.hosts[0], [other], traffic.Datagrams(), 1, told)
    one._to = [("127.0.0.1", 9)]
    one.run(until=time.monotonic() + 0.01, stop=threading.Event())
    one.close()
    assert told.sent > 0


def test_a_fabric_that_ends_is_reported(parts: FabricPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic without an end stops, with one line, when the namespaces are gone."""
    monkeypatch.setattr(traffic, "inside", lambda _, work: work())
    monkeypatch.setattr(traffic, "PORT", 0)
    with pytest.raises(TestbedError, match="fabric 'unmade' has ended"):
        traffic.send_datagrams(parts, parts.hosts[:1], traffic.Datagrams(), 0, threading.Event())


def test_a_server_that_says_much(parts: FabricPlan, commands: Path) -> None:
    """iperf3 says a line a second: more than a pipe holds stops nothing."""
    write(
        commands / "ip",
        LISTENS.format(commands) + f" head -c 300000 /dev/zero; touch {commands}/said; exec sleep 60;; esac\n"
        f"for i in 1 2 3 4 5 6 7 8 9 10; do test -e {commands}/said && break; sleep 0.5; done\n"
        f'test -e {commands}/said && echo \'{{"end": {{"bytes": 7}}}}\'\n',
    )
    assert iperf(parts.hosts[0], parts.hosts[1], seconds=5) == {"bytes": 7}
    assert not is_running(int((commands / "server").read_text()))


def test_a_server_that_cannot_listen(parts: FabricPlan, commands: Path) -> None:
    """What it said is reported."""
    write(commands / "ip", "#!/bin/sh\necho 'Address already in use'; exit 1\n")
    with pytest.raises(TestbedError, match="iperf3 at host-0-1: Address already in use"):
        iperf(parts.hosts[0], parts.hosts[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_both_programs(parts: FabricPlan, commands: Path, number: int) -> None:
    """Neither the server nor the client is left, so that the next run finds its port free."""
    write(
        commands / "ip",
        LISTENS.format(commands)
        + " exec sleep 60;; esac\n"
        + f"echo $$ > {commands}/client; sleep 0.5; kill -{int(number)} {os.getpid()}; exec sleep 60\n",
    )
    with pytest.raises(KeyboardInterrupt), interruptible():
        iperf(parts.hosts[0], parts.hosts[1])
    assert not any(is_running(int((commands / name).read_text())) for name in ("server", "client"))


@pytest.mark.parametrize(
    ("one", "failed"),
    [
        (HostTraffic("a", sent=3, received=3, seconds=1), False),
        (HostTraffic("a", sent=3, received=2, seconds=1), True),
        (HostTraffic("a", sent=3, received=3, rejected=1, seconds=1), True),
        (HostTraffic("a", rejected=9, seconds=1), True),
        (HostTraffic("a"), True),
    ],
)
def test_unsent_packets_are_reported(
    parts: FabricPlan,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    one: HostTraffic,
    failed: bool,
) -> None:
    """Refused packets have a column, a word in the summary, and are a failure; so is nothing at all."""
    monkeypatch.setattr(traffic, "send_datagrams", lambda *_: [one])
    rows, told = TrafficRequest().send(parts)
    assert told is failed
    assert rows[0]["rejected"] == one.rejected
    assert f"{one.rejected} rejected" in capsys.readouterr().err
