"""Three routers between two hosts, each a network namespace, with the programs of a switch.

host a ── router 1 ── router 2 ── router 3 ── host b
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

from hopscope.switch.labels.maps import LabelMaps
from hopscope.testbed.namespaces import enter, inside, run
from support.processes.command import hopscope
from support.waiting import HANG_SECONDS

SOURCES = Path(__file__).parents[3] / "src"
PREFIX = "hopscope-switch"
"""Of the names of namespaces."""
ROUTERS = ("r1", "r2", "r3")
NAMES = ("a", *ROUTERS, "b")
WITHOUT_LABELS = "#"


class Routers:
    """The namespaces, in a line: each has `left` and `right`, with addresses 10.77.N.1 and .2, fd77:N::1 and
    ::2 of link N.
    """

    def __init__(self, folder: Path, stack: ExitStack, *, sink: bool = False, mtu: int = 2000) -> None:
        """`sink`: namespace with a wire in front of host b, from `s0` to `s1`; `mtu`: of all but host a."""
        self.folder, self._mtu = folder, str(mtu)
        self.pins = folder / "bpf"
        self.pins.mkdir()
        run("mount", "-t", "bpf", "bpf", str(self.pins))
        stack.callback(run, "umount", str(self.pins))
        self.full = {name: f"{PREFIX}-{os.getpid()}-{name}" for name in (*NAMES, *["sink"] * sink)}
        for name in self.full:
            run("ip", "netns", "add", self.full[name])
            stack.callback(run, "ip", "netns", "del", self.full[name])
            self.run(name, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for number, (one, other) in enumerate(pairwise(NAMES)):
            if sink and other == "b":
                self.pair(one, "right", "sink", "s0")
                self.pair("sink", "s1", other, "left")
            else:
                self.pair(one, "right", other, "left")
            for name, interface, host in ((one, "right", 1), (other, "left", 2)):
                for address in (f"10.77.{number}.{host}/24", f"fd77:{number}::{host}/64"):
                    flags = ("nodad",) * (":" in address)
                    self.ip(name, "address", "add", address, "dev", interface, *flags)
                self.ip(name, "link", "set", interface, "up")
        self.ip("a", "link", "set", "right", "mtu", "1500")
        for at, name in enumerate(NAMES):
            for number in range(len(NAMES) - 1):
                if number > at:
                    self.route(name, number, f"10.77.{at}.2", f"fd77:{at}::2")
                elif number < at - 1:
                    self.route(name, number, f"10.77.{at - 1}.1", f"fd77:{at - 1}::1")

    def pair(self, one: str, near: str, other: str, far: str) -> None:
        """A link between two namespaces that takes packets with INT; two queues send."""
        run("ip", "-n", self.full[one], "link", "add", near, "mtu", self._mtu, "numtxqueues", "2",
            "type", "veth", "peer", "name", far, "mtu", self._mtu,
            "netns", self.full[other])  # fmt: skip
        for name, interface in ((one, near), (other, far)):
            self.ip(name, "link", "set", interface, "up")

    def route(self, name: str, number: int, v4: str, v6: str) -> None:
        """A link that is reached by a neighbour."""
        self.ip(name, "route", "add", f"10.77.{number}.0/24", "via", v4)
        self.ip(name, "-6", "route", "add", f"fd77:{number}::/64", "via", v6)

    def ip(self, name: str, *words: str) -> str:
        """What ip(8) prints in a namespace."""
        return run("ip", "-n", self.full[name], *words)

    def run(self, name: str, *words: str) -> str:
        """What a command prints in a namespace."""
        return run("ip", "netns", "exec", self.full[name], *words, seconds=HANG_SECONDS)

    def settings(self, name: str, more: str) -> str:
        """Settings of a router, or of a host; router 3 as a sink has hosts on its right."""
        items = '["node_id", "interfaces", "hop_latency", "ingress_timestamp", "egress_timestamp"]'
        inside_, outside = ("left", "right") if "# sink" in more or name == "b" else ("right", "left")
        lines = [
            "[switch]",
            f"node_id = {NAMES.index(name)}",
            f'interfaces = ["{inside_}"]',
            f'pins = "{self.pins / name}"',
        ]
        lines += [f'hosts = ["{outside}"]'] * (name in ROUTERS)
        lines += [f"instructions = {items}"] * ("instructions" not in more)
        return "\n".join([*lines, more])

    def command(self, name: str, command: str, more: str = "") -> list[str]:
        """`hopscope switch COMMAND`, with `settings`, in a process of its own."""
        words = [sys.executable, "-m", "hopscope", *self._words(name, command, more)]
        return ["ip", "netns", "exec", self.full[name], *words]

    def _words(self, name: str, command: str, more: str) -> list[str]:
        file = self.folder / f"{name}.toml"
        file.write_text(self.settings(name, more))
        return ["switch", command, "--config", str(file)]

    def switch(self, name: str, command: str, more: str = "") -> str:
        """What it prints. It has no process of its own, which would take 0.4 s of a processor to start."""
        with Path("/proc/self/ns/net").open("rb") as home:  # for signals, it needs the main thread
            enter(self.full[name])
            try:
                done = hopscope(*self._words(name, command, more))
            finally:
                enter(f"/proc/self/fd/{home.fileno()}")
        assert not done.returncode, done.stderr
        return done.stdout

    def counts(self, name: str) -> dict[str, int]:
        """Counters of a router that are not 0."""
        lines = self.switch(name, "status").splitlines()[1:]
        found = {line.split()[0]: int(line.split()[-1].replace(",", "")) for line in lines}
        return {label: number for label, number in found.items() if number}

    def index(self, name: str, interface: str) -> int:
        """Number of an interface."""
        return int(self.ip(name, "-o", "link", "show", interface).split(":")[0])

    def socket(self, name: str, *kind: int) -> socket.socket:
        """A socket in a namespace."""
        made: socket.socket = inside(self.full[name], lambda: socket.socket(*kind))
        made.settimeout(HANG_SECONDS)
        return made


class LabelRouters(Routers):
    """The routers with INT-label, which host a and host b know nothing of."""

    def settings(self, name: str, more: str) -> str:
        """`more`: lines of [switch.label], or WITHOUT_LABELS."""
        sides = {"r1": ('"right"', '"left"'), "r2": ('"left", "right"', ""), "r3": ('"left"', '"right"')}
        inner, hosts = sides[name]
        return (
            f"[switch]\nnode_id = {name[1]}\ninterfaces = [{inner}]\nhosts = [{hosts}]\n"
            f'pins = "{self.pins / name}"\n' + (f"[switch.label]\n{more}" if more != WITHOUT_LABELS else "")
        )

    def counts(self, name: str) -> dict[str, int]:
        """Counters of INT-label of a router that are not 0."""
        with closing(LabelMaps.pinned(self.pins / name)) as maps:
            return {count.name: number for count, number in maps.counts().items() if number}
