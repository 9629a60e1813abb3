"""Hosts, a network and a sink as network namespaces, joined by veth pairs; all of it goes at the end.

host a ── a0 │ i0  network  i1 │ s0  sink  s1 │ i2  network  i3 │ b0 ── host b
             └── INT is added ─┘              └── INT is added ─┘
                 to what a sends                  to what b sends
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from hopscope.testbed.namespaces import delete, found, inside, run

from ..waiting import HANG_SECONDS

T = TypeVar("T")

HOSTS = ("a", "b")
LINKS = (("a", "a0", "net", "i0"), ("net", "i1", "sink", "s0"), ("sink", "s1", "net", "i2"),
         ("net", "i3", "b", "b0"))  # fmt: skip
ADDRESSES = {"a": ("10.9.0.1", "fd09::1"), "b": ("10.9.0.2", "fd09::2")}
HOST_MTU, INNER_MTU = 1500, 1700
"""Of the hosts; of the links that carry INT."""
PREFIX_VARIABLE = "HOPSCOPE_TEST_NAMESPACES"
"""Environment variable: what the names of namespaces begin with."""
_PREFIX = os.environ.get(PREFIX_VARIABLE, "hopscope-live")


def namespaces(prefix: str = _PREFIX) -> list[str]:
    """Namespaces of these tests that there are, of any run."""
    return found(f"{prefix}-")


def clear_abandoned(prefix: str = _PREFIX) -> None:
    """Delete namespaces of runs that were killed, and end what still runs in them."""
    for name in namespaces(prefix):
        if not Path(f"/proc/{name.split('-')[2]}").exists():
            delete(name)


class Program:
    """A process in a namespace, in a process group of its own; what it says goes into a file."""

    def __init__(self, words: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
                env={**os.environ, **environment},
            )  # fmt: skip

    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text()

    def wait_for(self, text: str, seconds: float = HANG_SECONDS) -> None:
        """Wait until it has said this."""
        until = time.monotonic() + seconds
        while text not in self.said():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < until, f"no {text!r} in {seconds} s: {self.said()}"
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM, seconds: float = HANG_SECONDS) -> int:
        """End it gracefully; its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End what is left of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG_SECONDS)


class Network:
    """The namespaces of one test. Raises NamespaceError where this machine does not allow them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = {name: f"{_PREFIX}-{os.getpid()}-{name}" for name in ("a", "b", "net", "sink")}
        self._stack = ExitStack()

    def __enter__(self) -> Network:
        clear_abandoned()
        with ExitStack() as stack:
            for full in self._names.values():
                run("ip", "netns", "add", full)
                stack.callback(run, "ip", "netns", "del", full)
            self._link()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _link(self) -> None:
        for full in (self._names["net"], self._names["sink"]):
            # these only pass frames on: nothing of their own is to be seen among those of the hosts
            for key in ("all", "default"):
                run("ip", "netns", "exec", full, "sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1")
        for one, near, other, far in LINKS:
            first, second = self._names[one], self._names[other]
            run("ip", "-n", first, "link", "add", near, "type", "veth", "peer", "name", far, "netns", second)
        for one, near, other, far in LINKS:
            inner = not {one, other} & set(HOSTS)
            for name, interface in ((one, near), (other, far)):
                mtu = str(INNER_MTU if inner else HOST_MTU)
                run("ip", "-n", self._names[name], "link", "set", interface, "mtu", mtu, "up")
        for host, (v4, v6) in ADDRESSES.items():
            full, interface = self._names[host], f"{host}0"
            run("ip", "-n", full, "address", "add", f"{v4}/24", "dev", interface)
            run("ip", "-n", full, "address", "add", f"{v6}/64", "dev", interface, "nodad")
            # a cable carries segments: what is longer than its MTU is no frame
            self.run(host, "ethtool", "-K", interface, "tso", "off", "gso", "off")
        run("ip", "-n", self._names["sink"], "link", "set", "lo", "up")

    def run(self, name: str, *words: str, seconds: float = HANG_SECONDS) -> str:
        """What a command in a namespace prints. Raises NamespaceError."""
        return run("ip", "netns", "exec", self._names[name], *words, seconds=seconds)

    def start(
        self, name: str, *words: str, ready: str = "", seconds: float = HANG_SECONDS, **environment: str
    ) -> Program:
        """Start a program in a namespace, and wait until it says that it is ready."""
        log = self.folder / f"{name}-{Path(words[0]).name}-{time.monotonic_ns()}.log"
        program = Program(("ip", "netns", "exec", self._names[name], *words), log, environment)
        self._stack.callback(program.kill)
        if ready:
            program.wait_for(ready, seconds)
        return program

    def features(self, name: str, interface: str) -> dict[str, bool]:
        """Offloads of an interface that are on."""
        lines = self.run(name, "ethtool", "-k", interface).splitlines()[1:]
        pairs = (line.strip().split(": ") for line in lines if ": " in line)
        return {feature: state.startswith("on") for feature, state in pairs}

    def ask(self, name: str, url: str) -> Any:
        """JSON of a URL, asked from within a namespace."""

        def get() -> Any:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(url, timeout=300) as answer:
                return json.load(answer)

        return self.inside(name, get)

    def inside(self, name: str, work: Callable[[], T]) -> T:
        """Do this in a thread that has entered a namespace; sockets stay in it."""
        return inside(self._names[name], work)
