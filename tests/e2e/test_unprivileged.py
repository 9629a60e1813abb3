"""A user without rights collects; with the three capabilities of hopscope-sink.service it is a sink."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.history.query import History
from hopscope.wire.records import Link
from support.network.veth import Namespace
from support.packets.by_hand import ethernet, group, int_2, ipv4, single, u32, udp
from support.packets.wire_cases import frame_batch
from support.processes.unprivileged import USER, as_user, home_of_user
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(900)]
TELEMETRY = ethernet(ipv4(udp(int_2(0xA000, [u32(9, 900), u32(8, 800)], 2)), dscp=0x17))
CAPABILITIES = ("net_raw", "net_admin", "bpf")


class Program:
    """`hopscope` as USER, with its data and regions in `home`."""

    def __init__(self, home: Path, command: str, *options: str, capabilities: Sequence[str] = (),
                 prefix: Sequence[str] = ()) -> None:  # fmt: skip
        self.data, self.regions, self._log = home / "data", home / "regions", home / "log"
        words = [
            sys.executable, "-m", "hopscope", command, "--data", str(self.data),
            "--set", f"regions={self.regions}", "--set", "detect.flow_rows=64",
            "--set", "history.ring_events=16384", *options,
        ]  # fmt: skip
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [*prefix, *as_user(words, home, capabilities)], stdout=log, stderr=log, text=True
            )
        while '"collecting"' not in self.said():  # it may compile: the time of the test is the limit
            assert self.process.poll() is None, self.said()
            time.sleep(0.05)

    def said(self) -> str:
        """All that it has printed."""
        return self._log.read_text()

    @property
    def owner(self) -> dict[str, Any]:
        """Its owner.json."""
        return json.loads((self.data / "owner.json").read_text())

    def rights(self) -> set[tuple[int, int]]:
        """(User, effective capabilities) of the supervisor and all its processes."""
        found, pids = set(), [self.process.pid]
        for pid in pids:
            with suppress(FileNotFoundError):  # it has ended
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                status = dict(line.split(":\t", 1) for line in lines)
                found.add((int(status["Uid"].split()[1]), int(status["CapEff"], 16)))
                for task in Path(f"/proc/{pid}/task").iterdir():
                    pids += map(int, (task / "children").read_text().split())
        return found

    def stop(self) -> None:
        """End it; what it leaves is the user's own, and closed to others."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(HANG_SECONDS) == 0, self.said()
        assert not list(self.regions.iterdir()), "shared memory was left behind"
        left = [self.data, *self.data.rglob("*")]
        assert {path.lstat().st_uid for path in left} == {USER}
        assert not self.data.stat().st_mode & 0o007
        for word in ("Traceback", "Permission denied", "not permitted"):
            assert word not in self.said(), self.said()


@contextmanager
def program(*words: Any, **options: Any) -> Iterator[Program]:
    """One that certainly ends."""
    with home_of_user() as home:
        made = Program(home, *words, **options)
        try:
            yield made
        finally:
            if made.process.poll() is None:
                made.process.terminate()
                made.process.wait(HANG_SECONDS)


def test_a_collector_needs_no_rights() -> None:
    """Reports in, events in history and on the page, with no capability at all."""
    with program("collect", "--listen", "udp://127.0.0.1:0", "--http-port", "0") as one:
        assert one.rights() == {(USER, 0)}
        sender = UdpSender("127.0.0.1", int(one.owner["listen"][0].rpartition(":")[2]))
        sender.send(frame_batch([group(single(TELEMETRY))], Link.UDP_PAYLOAD))
        sender.close()
        with History(one.data) as history:
            eventually(lambda: len(history.events(kinds=["new_key"])) > 0, one.said)
        with urllib.request.urlopen(f"{one.owner['api']}readyz", timeout=HANG_SECONDS) as answer:
            assert answer.status == 200
        one.stop()


def test_a_sink_needs_three_capabilities(namespace: Namespace) -> None:
    """Frames go on without their INT, and the bypass is in place."""
    namespace.ip("link", "add", "out", "type", "veth", "peer", "name", "rest")
    for end in ("out", "rest"):
        namespace.run("sysctl", "-qw", f"net.ipv6.conf.{end}.disable_ipv6=1")
        namespace.ip("link", "set", end, "up")
    namespace.ip("link", "set", "lo", "up")
    prefix = ("ip", "netns", "exec", namespace.name)
    with (
        program("sink", "--pair", "near:out", "--no-serve", capabilities=CAPABILITIES, prefix=prefix) as one,
        namespace.raw("far") as far,
        namespace.raw("rest", 3) as rest,
    ):
        ((user, rights),) = one.rights()
        assert user == USER
        assert rights == 1 << 13 | 1 << 12 | 1 << 39  # linux/capability.h
        far.send(TELEMETRY)
        passed = rest.recv(2048)
        assert passed[:12] == TELEMETRY[:12]
        assert len(passed) == len(TELEMETRY) - 12 - 16 - 4
        with History(one.data) as history:
            eventually(lambda: len(history.events(kinds=["new_key"])) > 0, one.said)
        one.stop()
