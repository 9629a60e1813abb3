"""Traffic between the hosts of a fabric: UDP datagrams, iperf3, ping."""

from __future__ import annotations

import json
import os
import random
import re
import select
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..base.process.stop import Stop
from .fabric import FabricPlan, Host, TestbedError
from .namespaces import FOLDER, inside, run

PORT = 7070
"""UDP port on which every host receives datagrams."""
SOURCE_PORTS = 16
"""Number of sockets of a sender: it has as many flows to each host, so that ECMP can spread them."""
HEADERS = {4: 28, 6: 48}
"""Bytes of IP and UDP headers by IP version."""
PINGS = 3
NICE = -10
_SLICE_SECONDS = 0.002
_DRAIN_SECONDS = 0.5
_CHECK_SECONDS = 0.1
_END_SECONDS = 5.0


@dataclass
class HostTraffic:
    """Datagrams that one host sent and received."""

    host: str
    sent: int = 0
    received: int = 0
    rejected: int = 0
    """Datagrams that the sending host did not accept."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Datagrams:
    """Datagrams to random hosts, as in INT-label's evaluation (section 6.1)."""

    rate: float = 5e6
    """Rate of each sender, bit/s of IP packets."""
    size: int = 1000
    """IP bytes of a packet."""
    version: int = 4
    seed: int = 1

    def check(self) -> None:
        """Raise TestbedError for invalid sizes and rates."""
        if not HEADERS[self.version] <= self.size <= 1500:
            raise TestbedError(f"--size: found {self.size}, expected {HEADERS[self.version]} to 1500 bytes")
        if not 0 < self.rate <= 1e9:
            raise TestbedError(f"--rate: found {self.rate:g} bit/s, expected more than 0 and at most 1G")


class _Sender:
    """A sending host."""

    def __init__(
        self, host: Host, others: Sequence[Host], what: Datagrams, seed: int, results: HostTraffic
    ) -> None:
        self._what, self._results = what, results
        self._random = random.Random(seed)
        self._family = socket.AF_INET6 if what.version == 6 else socket.AF_INET
        self._to = [(other.ipv6 if what.version == 6 else other.ipv4, PORT) for other in others]
        self._sockets = inside(
            host.namespace,
            lambda: [socket.socket(self._family, socket.SOCK_DGRAM) for _ in range(SOURCE_PORTS)],
        )

    def run(self, until: float, stop: Stop) -> None:
        """Send at the rate until a monotonic time."""
        with suppress(PermissionError):  # without CAP_SYS_NICE
            os.nice(NICE)  # for this thread, since on a busy machine, a steady rate would become bursts
        payload = bytes(self._what.size - HEADERS[self._what.version])
        gap = self._what.size * 8 / self._what.rate
        began = now = time.monotonic()
        while now < until and not stop.is_set():
            due = int((now - began) / gap) + 1 - self._results.sent - self._results.rejected
            for _ in range(due):
                try:
                    self._random.choice(self._sockets).sendto(payload, self._random.choice(self._to))
                    self._results.sent += 1
                except OSError:
                    self._results.rejected += 1
            time.sleep(max(_SLICE_SECONDS, gap) if gap < 1 else _SLICE_SECONDS)
            now = time.monotonic()
        self._results.seconds = now - began

    def close(self) -> None:
        """Close the sockets."""
        for handle in self._sockets:
            handle.close()


def send_datagrams(
    parts: FabricPlan, senders: Sequence[Host], what: Datagrams, seconds: float, stop: Stop
) -> list[HostTraffic]:
    """Send datagrams from `senders` to random other hosts.

    Returns the datagrams sent and received by each host. Raises HopscopeError, also if the fabric ends
    meanwhile.
    """
    what.check()
    senders_end = threading.Event()

    def look() -> None:
        if stop.is_set():
            senders_end.set()
        if not (FOLDER / parts.switches).exists():
            raise TestbedError(f"fabric {parts.name!r} has ended, and its traffic with it")

    results = {host.name: HostTraffic(host.name) for host in parts.hosts}
    with ExitStack() as stack:
        receivers = {}
        for host in parts.hosts:
            taken = inside(host.namespace, _receiver)
            stack.callback(taken.close)
            receivers[taken.fileno()] = (taken, results[host.name])
        ended = threading.Event()
        reader = threading.Thread(target=_take, args=(receivers, ended))
        reader.start()
        stack.callback(reader.join)
        stack.callback(ended.set)
        until = time.monotonic() + seconds if seconds else float("inf")
        works: list[Callable[[], None]] = []
        for number, host in enumerate(senders):
            others = [other for other in parts.hosts if other is not host]
            sender = _Sender(host, others, what, what.seed + number, results[host.name])
            stack.callback(sender.close)
            works.append(partial(sender.run, until, senders_end))
        _at_once(works, senders_end, look)
        _drain(list(results.values()))
    return list(results.values())


def _drain(results: Sequence[HostTraffic]) -> None:
    """Wait until all datagrams have arrived, or no more arrive."""
    sent, arrived, until = sum(host.sent for host in results), -1, 0.0
    while arrived < sent:
        now, before = time.monotonic(), arrived
        arrived = sum(host.received for host in results)
        if arrived > before:
            until = now + _DRAIN_SECONDS
        elif now > until:
            return
        time.sleep(_SLICE_SECONDS)


def _at_once(works: Sequence[Callable[[], None]], end: threading.Event, look: Callable[[], None]) -> None:
    """Run functions in threads, and call `look` periodically. If one of them raises an exception, `end` is
    set, at which the others return, and the exception is raised here.
    """
    with ThreadPoolExecutor(max(1, len(works))) as pool:
        left = {pool.submit(work) for work in works}
        try:
            while left:
                done, left = wait(left, _CHECK_SECONDS, FIRST_COMPLETED)
                for future in done:
                    future.result()
                look()
        finally:
            end.set()


def _receiver() -> socket.socket:
    taken = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        taken.bind(("::", PORT))
    except OSError as error:
        taken.close()
        raise TestbedError(
            f"UDP port {PORT} of a host: {error.strerror}; is other traffic running?"
        ) from error
    return taken


def _take(receivers: dict[int, tuple[socket.socket, HostTraffic]], ended: threading.Event) -> None:
    """Count the datagrams that arrive."""
    buffer = bytearray(2048)
    with select.epoll() as poll:
        for handle in receivers:
            poll.register(handle, select.EPOLLIN)
        while not ended.is_set():
            for handle, _ in poll.poll(0.05):
                taken, results = receivers[handle]
                with suppress(BlockingIOError):
                    while taken.recv_into(buffer):
                        results.received += 1


def iperf(
    client: Host, server: Host, *, version: int = 4, seconds: float = 5, flags: Sequence[str] = ()
) -> dict[str, Any]:
    """Run iperf3 from one host to another; returns its summary (`end` of its JSON).

    Raises HopscopeError.
    """
    if not shutil.which("iperf3"):
        raise TestbedError("iperf3: not found on this machine; hopscope fabric traffic udp does not need it")
    address = server.ipv6 if version == 6 else server.ipv4
    # into a file: an unread pipe would fill up after some thousand lines
    with tempfile.TemporaryFile() as results:
        serving = subprocess.Popen(
            ["ip", "netns", "exec", server.namespace, "iperf3", "-s", "-1", "--forceflush"],
            stdin=subprocess.DEVNULL, stdout=results, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            while b"listening" not in (lines := os.pread(results.fileno(), 1 << 12, 0)):
                if serving.poll() is not None:
                    text = " ".join(lines.decode(errors="replace").split())
                    raise TestbedError(f"iperf3 at {server.name}: {text or 'no output'}")
                time.sleep(_SLICE_SECONDS)
            said = run(
                "ip", "netns", "exec", client.namespace, "iperf3", "-c", address, "-J",
                *(flags or ("-t", f"{seconds:g}")), seconds=seconds + 30,
            )  # fmt: skip
        finally:
            _end(serving)
    return json.loads(said)["end"]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ping(client: Host, server: Host, *, version: int = 4, flags: Sequence[str] = ()) -> tuple[int, float]:
    """Ping one host from another; returns the number of replies, and their mean time, s (0 without one).

    Raises HopscopeError if ping itself fails.
    """
    if not shutil.which("ping"):
        raise TestbedError("ping: not found on this machine, expected iputils-ping to be installed")
    address = server.ipv6 if version == 6 else server.ipv4
    words = ["ip", "netns", "exec", client.namespace, "ping", "-n", "-c", str(PINGS), "-i", "0.02", "-w", "3"]
    done = subprocess.run([*words, *flags, address], capture_output=True, text=True, check=False, timeout=30)
    answers = re.search(r"(\d+) received", done.stdout)
    if answers is None:
        raise TestbedError(f"ping at {client.name}: {done.stderr.strip() or done.stdout.strip()}")
    mean = re.search(r"= [\d.]+/([\d.]+)/", done.stdout)
    return min(int(answers[1]), PINGS), float(mean[1]) / 1000 if mean else 0.0
