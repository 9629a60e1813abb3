"""BGP between members and a router, in namespaces: BIRD on the router; ExaBGP or BIRD on a member.

The router's BIRD puts its routes into a table of the kernel, and `Router.follow` keeps the resilient group of
next hops as that table says, as a switch programs its hardware from its routes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hopscope.testbed.ecmp import SERVICE, EcmpNetwork
from hopscope.testbed.namespaces import NamespaceError, run

from ..waiting import eventually

TABLE = 77
ROUTER_BIRD = """\
router id 198.18.0.1;
protocol device { }
protocol kernel { ipv4 { import none; export all; }; kernel table 77; merge paths on; }
template bgp collectors { local as 65000; hold time 6; ipv4 { import all; export none; }; passive; }
"""
EXABGP = """\
process hopscope {{
    run {command};
    encoder text;
}}
neighbor 198.18.{number}.1 {{
    router-id 198.18.{number}.2;
    local-address 198.18.{number}.2;
    local-as {number_as};
    peer-as 65000;
    hold-time 6;
    family {{ ipv4 unicast; }}
    api {{ processes [ hopscope ]; }}
}}
"""
MEMBER_BIRD = """\
router id 198.18.{number}.2;
protocol device {{ }}
protocol static hopscope {{ disabled; ipv4; route 192.0.2.1/32 blackhole; }}
protocol bgp upstream {{
    local 198.18.{number}.2 as {number_as};
    neighbor 198.18.{number}.1 as 65000;
    connect delay time 1; connect retry time 1;
    hold time 6;
    ipv4 {{ import none; export where proto = "hopscope"; next hop self; }};
}}
"""


class Router:
    """BIRD in the router's namespace, and the speakers of members; all of it ends with `stack`."""

    def __init__(
        self, network: EcmpNetwork, folder: Path, stack: ExitStack, tool: Callable[..., str]
    ) -> None:
        self._network, self._folder, self._stack, self._tool = network, folder, stack, tool
        self._environment = {
            **os.environ, "exabgp.daemon.user": "root", "exabgp.api.cli": "false", "exabgp.log.level": "ERR"
        }  # fmt: skip
        peers = (
            f"protocol bgp {name} from collectors {{ local 198.18.{number}.1; "
            f"neighbor 198.18.{number}.2 as {65000 + number}; }}\n"
            for number, name in enumerate(network.members, 1)
        )
        self._bird("router", ROUTER_BIRD + "".join(peers))

    def exabgp(self, member: str, *options: str) -> subprocess.Popen[bytes]:
        """ExaBGP on a member, which runs `hopscope cluster announce`."""
        words = [
            sys.executable,
            "-m",
            "hopscope",
            "cluster",
            "announce",
            "--prefix",
            f"{SERVICE}/32",
            *options,
        ]
        number = self._network.members.index(member) + 1
        file = self._folder / f"{member}.exabgp"
        file.write_text(EXABGP.format(command=" ".join(words), number=number, number_as=65000 + number))
        return self._start(member, self._tool("exabgp"), str(file))

    def bird(self, member: str, *options: str) -> subprocess.Popen[bytes]:
        """BIRD on a member, and `hopscope cluster announce --bird`, which is returned, beside it."""
        number = self._network.members.index(member) + 1
        control = self._bird(member, MEMBER_BIRD.format(number=number, number_as=65000 + number))
        beside = self._folder / member
        beside.mkdir()
        (beside / "birdc").write_text(f'#!/bin/sh\nexec {self._tool("birdc")} -s {control} "$@"\n')
        (beside / "birdc").chmod(0o755)  # of two on one machine
        words = [sys.executable, "-m", "hopscope", "cluster", "announce", "--bird", "hopscope", *options]
        path = f"{beside}{os.pathsep}{os.environ['PATH']}"
        return self._start(member, "env", f"PATH={path}", *words)

    def routes(self) -> set[str]:
        """Members that BIRD has a route to."""
        where = ("ip", "-n", self._network.full("router"), "-json")
        try:
            found = json.loads(run(*where, "route", "show", "table", str(TABLE), SERVICE) or "[]")
        except NamespaceError:
            return set()  # no route has been there yet, so there is no table
        return {hop["dev"] for route in found for hop in route.get("nexthops", [route])}

    def follow(self) -> set[str]:
        """Send to these members; returns them."""
        found = self.routes()
        if found != self._network.using:
            self._network.use(found)
        return found

    def _bird(self, part: str, text: str) -> Path:
        file, control = self._folder / f"{part}.bird", self._folder / f"{part}.ctl"
        file.write_text(text)
        self._start(part, self._tool("bird"), "-f", "-c", str(file), "-s", str(control))
        eventually(control.exists, f"BIRD of {part} does not start")
        return control

    def _start(self, part: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"{part}.log").open("ab") as log:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self._network.full(part), *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment,
            )  # fmt: skip

        def end() -> None:
            process.kill()
            process.wait()

        self._stack.callback(end)
        return process
