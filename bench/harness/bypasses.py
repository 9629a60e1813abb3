"""Ways past a sink that does not run: tc redirect as in `capture.bypass`, XDP redirect, a bridge."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from hopscope.capture.bypass import Bypass, Heartbeat, load_program, redirect_program

_XDP, _XDP_PASS = 6, 2
_SETLINK, _REQUEST, _ACK = 19, 0x1, 0x4
_IFLA_XDP, _NESTED, _FD, _FLAGS = 43, 0x8000, 1, 3
GENERIC, NATIVE = 2, 4  # XDP_FLAGS_SKB_MODE, _DRV_MODE
_TIMEOUT = 60.0
"""A heartbeat of now stays fresh during a measurement."""


class Way(ABC):
    """Frames from `near` go to `out` while it is on; it begins as off."""

    @abstractmethod
    def on(self) -> None:
        """The sink has stopped."""

    @abstractmethod
    def off(self) -> None:
        """The sink is back."""

    @abstractmethod
    def remove(self) -> None:
        """Leave the interfaces as they were."""


class Redirect(Way):
    """The bypass of Hopscope: a program at the ingress of tc."""

    def __init__(self) -> None:
        self._bypass = Bypass(1, 1, _TIMEOUT)
        self._heart = Heartbeat(self._bypass.map, 0, 0, 1, _TIMEOUT, 1)
        self._heart.beat()
        self.install()

    def install(self) -> None:
        """Attach the program."""
        self._bypass.install(0, "near", "out", 1)

    def on(self) -> None:
        """The heartbeat is old at once."""
        self._heart.stop()

    def off(self) -> None:
        """The heart beats again."""
        self._heart.hold()

    def remove(self) -> None:
        """With its qdisc."""
        subprocess.run(["tc", "qdisc", "del", "dev", "near", "clsact"], check=True)
        self._bypass.close()


class XdpRedirect(Redirect):
    """The same program in XDP."""

    def __init__(self, mode: int) -> None:
        self._mode = mode
        super().__init__()

    def install(self) -> None:
        """Attach the program by netlink: it stays when its maker ends."""
        out = socket.if_nametoindex("out")
        code = redirect_program(self._bypass.map, 0, 1, int(_TIMEOUT * 1e9), out, _XDP_PASS)
        program = load_program(_XDP, code)
        self._set(program)
        os.close(program)

    def _set(self, program: int) -> None:
        content = struct.pack("<HHiHHI", 8, _FD, program, 8, _FLAGS, self._mode)
        body = struct.pack("<BxHiII", 0, 0, socket.if_nametoindex("near"), 0, 0)
        body += struct.pack("<HH", 4 + len(content), _IFLA_XDP | _NESTED) + content
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
            netlink.send(struct.pack("<IHHII", 16 + len(body), _SETLINK, _REQUEST | _ACK, 1, 0) + body)
            error = struct.unpack_from("<i", netlink.recv(1 << 16), 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))

    def remove(self) -> None:
        """Detach it."""
        self._set(-1)
        self._bypass.close()


class Bridge(Way):
    """A bridge of the kernel, whose ports the interfaces become: nothing does that after a SIGKILL."""

    def __init__(self) -> None:
        self._run("ip link add bypass type bridge stp_state 0 mcast_snooping 0")
        self._run("ip link set bypass up")

    def _run(self, words: str) -> None:
        subprocess.run(words.split(), check=True)

    def on(self) -> None:
        """Make both ports."""
        for end in ("near", "out"):
            self._run(f"ip link set {end} master bypass")

    def off(self) -> None:
        """Make them none."""
        for end in ("near", "out"):
            self._run(f"ip link set {end} nomaster")

    def remove(self) -> None:
        """With the bridge."""
        self._run("ip link del bypass")


def received(interface: str) -> int:
    """Frames that an interface has received."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == interface:
            return int(counts.split()[1])
    raise SystemExit(f"there is no {interface}")
