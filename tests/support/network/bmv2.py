"""The P4 programs on bmv2, in network namespaces of the test's own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from hopscope.testbed.namespaces import delete, found, inside, run

from ..waiting import HANG_SECONDS
from .p4runtime import P4Runtime

PROGRAMS = Path(__file__).parents[3] / "p4"
PREFIX = "hopscope-p4"
COMPILER, SWITCH = "p4c-bm2-ss", "simple_switch_grpc"
_ALL, _AUXDATA, _IGNORE_OUTGOING, _PACKET = 3, 8, 23, 263
"""ETH_P_ALL, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING, SOL_PACKET."""


def available() -> None:
    """Skip where the tools of P4 are missing: Debian has no package of them, so nothing requires them."""
    for name in (COMPILER, SWITCH):
        if not shutil.which(name):
            pytest.skip(f"{name} is not on the PATH: see p4/README.md")
    if os.geteuid():
        pytest.skip("network namespaces need root")


def compiled(program: str, folder: Path) -> tuple[Path, Path]:
    """(p4info, JSON) of a program of `p4/`, compiled once into `folder`; the compiler may not warn."""
    info, made = folder / f"{program}.p4info.txtpb", folder / f"{program}.json"
    if not made.exists():
        words = [
            COMPILER,
            "--Wdisable=unused",
            "--p4runtime-files",
            str(info),
            "-o",
            str(made),
            str(PROGRAMS / f"{program}.p4"),
        ]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
        assert not done.returncode, done.stderr
        assert "warning" not in done.stderr, done.stderr
        made.write_text(json.dumps(_plain(json.loads(made.read_text())), separators=(",", ":")))
    return info, made


def _plain(value: Any) -> Any:
    """A program without the places of its source: a message of gRPC may have 4 MB."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key != "source_info"}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class Switch:
    """A switch whose ports are interfaces of a namespace."""

    def __init__(
        self, program: str, folder: Path, namespace: str, interfaces: Mapping[int, str], name: str = "switch"
    ) -> None:
        info, made = compiled(program, folder)
        place = folder / f"{namespace}-{name}.sock"
        place.unlink(missing_ok=True)
        words = [SWITCH, "--no-p4", "--device-id", "1", "--log-console", "--log-level", "off"]
        for port, interface in interfaces.items():
            words += ["-i", f"{port}@{interface}"]
        words += ["--", "--grpc-server-addr", f"unix:{place}"]
        with place.with_suffix(".out").open("w") as out:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", namespace, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            self.control = P4Runtime(f"unix:{place}", info, made)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it."""
        if hasattr(self, "control"):
            self.control.close()
        self.process.terminate()
        self.process.wait(HANG_SECONDS)


class Bmv2:
    """A switch in a namespace of its own, with ports 1 to `ports`; end n is the other end of port n's cable.

    `far`: names of namespaces, made by others, in which ends are; the others are in the switch's own.
    """

    def __init__(
        self, program: str, folder: Path, *, ports: int = 3, number: int = 0, mtu: int = 2000,
        far: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        self.name = f"{PREFIX}-{os.getpid()}-{number}"
        self._far = far or {}
        self._stack = ExitStack()
        with ExitStack() as stack:
            quiet_namespace(self.name)
            stack.callback(delete, self.name)
            for port in range(1, ports + 1):
                cable((self.name, f"p{port}"), (self._far.get(port, self.name), f"e{port}"), mtu)
            switch = Switch(program, folder, self.name, {port: f"p{port}" for port in range(1, ports + 1)})
            stack.callback(switch.stop)
            self.control = switch.control
            self._stack = stack.pop_all()

    def raw(self, port: int) -> socket.socket:
        """A raw socket at the other end of a port."""
        return raw_socket(self._far.get(port, self.name), f"e{port}")

    def __enter__(self) -> Bmv2:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def quiet_namespace(name: str) -> None:
    """Make a namespace in which only what tests send moves."""
    run("ip", "netns", "add", name)
    for key in ("all", "default"):
        run("ip", "netns", "exec", name, "sysctl", "-qw", f"net.ipv6.conf.{key}.disable_ipv6=1")


def cable(one: tuple[str, str], other: tuple[str, str], mtu: int = 2000) -> None:
    """Join two interfaces, (namespace, name) each; their checksums are those of the packets."""
    run("ip", "-n", one[0], "link", "add", one[1], "mtu", str(mtu), "type", "veth",
        "peer", "name", other[1], "mtu", str(mtu), "netns", other[0])  # fmt: skip
    for name, end in (one, other):
        run(
            "ip",
            "netns",
            "exec",
            name,
            "ethtool",
            "-K",
            end,
            "tx",
            "off",
            "gso",
            "off",
            "tso",
            "off",
            "gro",
            "off",
        )
        run("ip", "-n", name, "link", "set", end, "up")


def raw_socket(namespace: str, interface: str) -> socket.socket:
    """A raw socket at an interface."""

    def make() -> socket.socket:
        handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        handle.settimeout(HANG_SECONDS)
        handle.setsockopt(_PACKET, _IGNORE_OUTGOING, 1)
        handle.setsockopt(_PACKET, _AUXDATA, 1)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        handle.bind((interface, _ALL))
        return handle

    return inside(namespace, make)


def clear_abandoned() -> None:
    """Delete namespaces of runs that were killed."""
    for name in found(f"{PREFIX}-"):
        if not Path(f"/proc/{name.split('-')[2]}").exists():
            delete(name)


def taken(
    handle: socket.socket, wanted: Callable[[bytes], bool] = bool, seconds: float = HANG_SECONDS
) -> bytes:
    """The next frame that is wanted."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        frame, controls, _, _ = handle.recvmsg(70_000, 256)
        for _, kind, words in controls:
            status, *_, tag, protocol = struct.unpack("<IIIHHHH", words)
            if kind == _AUXDATA and status & 0x10:  # the kernel took a VLAN tag off
                frame = frame[:12] + struct.pack(">HH", protocol, tag) + frame[12:]
        if wanted(frame):
            return frame
    raise AssertionError("no such frame")
