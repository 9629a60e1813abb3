"""A veth pair in a network namespace of a benchmark's own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

_CLONE_NEWNET = 0x40000000


def pair(address: str) -> None:
    """Move into a new network namespace with the interfaces `near`, which has the address, and `far`.

    They go with the process. Without root it starts again in a user namespace, where that is allowed.
    """
    if os.geteuid():
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, *sys.argv])
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "a network namespace needs root")
    for words in (
        "sysctl -qw net.ipv6.conf.default.disable_ipv6=1",  # no frames but ours
        "ip link add near address 02:00:00:00:00:01 type veth peer name far address 02:00:00:00:00:02",
        f"ip addr add {address}/24 dev near",
        "ip link set lo up",
        "ip link set near up",
        "ip link set far up",
    ):
        subprocess.run(words.split(), check=True)


def add_pair(one: str, other: str) -> None:
    """Another veth pair in this namespace."""
    for words in (
        f"ip link add {one} type veth peer name {other}",
        f"ip link set {one} up",
        f"ip link set {other} up",
    ):
        subprocess.run(words.split(), check=True)
