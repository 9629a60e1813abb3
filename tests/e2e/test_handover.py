"""A service that is restarted loses nothing silently: what arrives meanwhile is read, or counted."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hopscope
from hopscope.history.query import History
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL
from hopscope.wire.records import Link
from support.packets import ipfix_make, sflow_make
from support.processes.collector_process import Collector, Load
from support.servers.server_process import free_port
from support.servers.service_manager import ServiceManager
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

SOURCES = 16


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    """Keeps the sockets between two starts."""
    made = ServiceManager(tmp_path)
    yield made
    made.close()


class Sender:
    """Sends reports of several sources, each in a datagram of its own."""

    def __init__(self, load: Load, port: int) -> None:
        self._load, self._to = load, ("127.0.0.1", port)
        self.sent = 0

    def send(self, each: int) -> None:
        """So many reports of each source."""
        for last in range(1, SOURCES + 1):
            batch = encode_reports(self._load.batch(each), link=Link.UDP_PAYLOAD)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((f"127.0.4.{last}", 0))
                for offset, length in batch.frames[["offset", "length"]].tolist():
                    sender.sendto(batch.arena[offset : offset + length].tobytes(), self._to)
                    self.sent += 1


def counted(one: Collector, what: str) -> int:
    """A number of the summary that a collector prints at its end."""
    found = re.search(rf"([\d,]+) {what}", one.said())
    return int(found[1].replace(",", "")) if found else 0


def received(one: Collector) -> int:
    """Reports that a collector that has ended received; the kernel dropped some, and nobody else."""
    assert counted(one, "not handed to the detector") == 0, one.said()
    return counted(one, "reports in")


def pause(pid: int) -> None:
    """SIGSTOP; returns when each of its threads stands still."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    eventually(
        lambda: all(
            task.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "T" for task in tasks.iterdir()
        )
    )


def so_far(one: Collector) -> int:
    """Reports that a running collector has received, and those that the kernel dropped."""
    counters = hopscope.open(one.data).state.counters()
    return counters["reports_total"] + counters["kernel_drops_total"]


def flags(port: int, workers: int = 1, buffer: int = 2**22) -> tuple[str, ...]:
    """Of a collector on this port."""
    address = f"udp://127.0.0.1:{port}?workers={workers}&receive_buffer_bytes={buffer}"
    return ("--listen", address, "--no-serve", "--set", "detect.enabled=false")


def test_reports_wait_while_the_collector_is_restarted(
    collector: Callable[..., Any], load: Callable[..., Any], manager: ServiceManager
) -> None:
    """Also while it gets more workers, and fewer. All that was sent is received, in history once."""
    port, total = free_port(), 0
    sender = Sender(load(), port)
    for workers in (1, 3, 2):
        one = collector(*flags(port, workers), manager=manager)
        one.start()
        sender.send(10)
        assert one.stop() == 0
        assert counted(one, "dropped by the kernel") == 0
        total += received(one)
        sender.send(10)
    one = collector(*flags(port, 1), manager=manager)
    one.start()
    assert '"datagrams that arrived during the restart are read now"' in one.said()
    assert one.stop() == 0
    assert total + received(one) == sender.sent
    with History(one.data) as history:
        assert history.flows(limit=None)["packets"].sum() == sender.sent


def test_what_does_not_fit_is_counted_once(
    collector: Callable[..., Any], load: Callable[..., Any], manager: ServiceManager
) -> None:
    """A small buffer overflows before, between and after starts: received and dropped are what was sent."""
    port, total = free_port(), 0
    dropped = list[int]()
    sender = Sender(load(), port)
    for workers in (2, 2, 1):
        one = collector(*flags(port, workers, 2**15), manager=manager)
        one.start()
        before = total + sum(dropped)
        eventually(
            lambda one=one, before=before: before + so_far(one) == sender.sent,
            "what waited is not counted",
        )
        pid = one.status()["worker-0"]["pid"]
        pause(pid)
        sender.send(40)
        os.kill(pid, signal.SIGKILL)  # its drops are counted by its successor
        eventually(lambda one=one: one.status()["worker-0"]["restarts"] == 1)
        assert one.stop() == 0
        total += received(one)
        dropped.append(counted(one, "dropped by the kernel"))
        sender.send(40)
    one = collector(*flags(port, 1, 2**15), manager=manager)
    one.start()
    assert one.stop() == 0
    dropped.append(counted(one, "dropped by the kernel"))
    assert all(dropped), "nothing was dropped: nothing was proven"
    assert total + received(one) + sum(dropped) == sender.sent, dropped


def test_reports_wait_while_a_killed_collector_is_replaced(
    collector: Callable[..., Any], load: Callable[..., Any], manager: ServiceManager
) -> None:
    """The supervisor is killed, then all processes at once: values of each report are in history once."""
    port = free_port()
    sender = Sender(load(), port)
    for everything in (False, True):
        one = collector(*flags(port, 2), manager=manager)
        one.start()
        sender.send(10)
        eventually(lambda one=one: values(one) == 8 * sender.sent, "what waited, or came later, is missing")
        if everything:
            one.kill_all()
        else:
            one.process.kill()
            one.process.wait()
        sender.send(10)
    one = collector(*flags(port, 2), manager=manager)
    one.start()
    assert one.stop() == 0
    assert values(one) == 8 * sender.sent


def test_sockets_of_all_sources_are_kept(
    collector: Callable[..., Any], load: Callable[..., Any], manager: ServiceManager
) -> None:
    """Reports, sFlow, IPFIX and labels that arrive while no collector runs are received by the next one."""
    ports = [free_port() for _ in range(4)]
    label = np.zeros(1, LABEL)
    label["node_id"], label["egress_port"], label["count"] = 7, 1, 1
    payloads = [
        encode_reports(load().batch(1), link=Link.UDP_PAYLOAD).arena.tobytes(),
        sflow_make.datagram(),
        ipfix_make.message(ipfix_make.template(256, ((8, 4),))),
        encode_blocks(label),
    ]
    urls = [
        f"{kind}://127.0.0.1:{port}" for kind, port in zip(("udp", "sflow", "ipfix"), ports, strict=False)
    ]
    listen = [word for address in urls for word in ("--listen", address)]
    words = (*listen, "--set", f"label.listen=127.0.0.1:{ports[3]}", "--no-serve")
    for run in (False, True):
        one = collector(*words, manager=manager)
        one.start()
        assert one.stop() == 0
        said = one.said()
        assert ("reports in 30 frames" in said, "labels     10 " in said) == (run, run), said
        assert len(manager.kept) == 5, "four sockets and their drops"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for port, payload in zip(ports, payloads, strict=True):
                for _ in range(10):
                    sender.sendto(payload, ("127.0.0.1", port))


def values(one: Collector) -> int:
    """Values in history: path, latency, latency and queue of 3 hops of each report."""
    with History(one.data) as history:
        return len(history.events(kinds=["value"], limit=None))
