"""A fabric of namespaces, as `hopscope fabric` makes it: for tests with real packets."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.labels.state import FILE_NAME, LabelReader
from hopscope.testbed import namespaces, state
from hopscope.testbed.fabric import FabricPlan
from hopscope.testbed.traffic import Datagrams, send_datagrams
from support.processes.command import hopscope
from support.waiting import eventually

NAME = f"test-{os.getpid()}"
LOSS = 0.6
"""On links towards the hosts, as in the paper's Fig. 13 at its right end."""
WINDOW_SECONDS = 3.0


def fabric(command: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`hopscope fabric COMMAND` of this test's fabric; `up`, which starts processes, in one of its own."""
    arguments = ("fabric", command, "--name", NAME, *words)
    if command != "up":
        return hopscope(*arguments)
    path = os.pathsep.join([str(Path(__file__).parents[3] / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "hopscope", *arguments], capture_output=True, text=True, check=False,
        timeout=800, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


class Fabric:
    """The fabric that is up."""

    def __init__(self) -> None:
        self.state = state.running(NAME)
        self.parts: FabricPlan = self.state.plan()
        self.first, self.last = self.parts.hosts[0], self.parts.hosts[-1]
        self.registers = Registers.attach(self.state.registers)

    def missed(self) -> int:
        """Frames that switches and sockets lost since the machine was busy, and have counted."""
        time.sleep(0.3)
        full = sum(namespaces.inside(host.namespace, _full_sockets) for host in self.parts.hosts)
        return int(self.registers.count(PortCounter.MISSED).sum()) + full

    def coverage(self) -> float:
        """As the controller measures it: of ports and telemetry intervals with traffic, while two hosts send
        as in the paper (section 6.1): 1 kB to random others, 5 Mbit/s. Measured again if the machine was too
        busy to send on most ports and intervals.
        """
        found = eventually(self._measure, "the machine was too busy to measure coverage")
        assert found is not None
        return found[0]

    def _measure(self) -> tuple[float] | None:
        path = Path(self.state.data, "regions", FILE_NAME)
        reader = LabelReader.attach(path)
        senders = [self.first, self.last]
        begin = time.time_ns() + 500_000_000
        seconds = WINDOW_SECONDS + 0.5
        send_datagrams(self.parts, senders, Datagrams(), seconds, threading.Event())
        rows = reader.coverage(4 * int(seconds * 10))
        times = rows["begin_ns"]
        rows = rows[(times >= begin) & (times < begin + int((WINDOW_SECONDS - 0.2) * 1e9))]
        if len(rows) < 0.9 * 10 * (WINDOW_SECONDS - 0.2):
            return None
        if rows["active"].sum() <= 0.8 * len(self.parts.ports) * len(rows):
            return None
        return (float(rows["reported"].sum() / rows["active"].sum()),)


@contextmanager
def traffic(live: Fabric) -> Iterator[None]:
    """All the while, that of the paper's evaluation (section 6.1)."""
    stop = threading.Event()
    words = live.parts, [live.first, live.last], Datagrams(), 600.0, stop
    thread = threading.Thread(target=send_datagrams, args=words)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _full_sockets() -> int:
    """Datagrams that found the buffer of their socket full, in the namespace of this thread."""
    lines = Path("/proc/thread-self/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Udp:"))
    six = dict(line.split() for line in Path("/proc/thread-self/net/snmp6").read_text().splitlines())
    return int(values[names.index("RcvbufErrors")]) + int(six["Udp6RcvbufErrors"])


def lose(live: Fabric, share: float) -> None:
    """On all links from spines to leaves; on one of them as a user would ask for it."""
    writable = Registers.attach(live.state.registers, writable=True)
    spines = [one for one in live.parts.ports if live.parts.topology.switch_name(one.node)[:5] == "spine"]
    for one in spines[1:]:
        writable.set_loss(one.node, one.number, share)
    told = fabric("loss", live.parts.topology.switch_name(spines[0].node), str(spines[0].number), str(share))
    assert told.returncode == 0, told.stderr
    assert sorted(set(live.registers.lossy().tolist())) == pytest.approx([0, share])
