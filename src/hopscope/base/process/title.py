"""The name and command line of a process, which other users can see (proc(5), prctl(2))."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_ARG_START = 45
"""Index of a field in /proc/PID/stat after the name: the address where the command line begins; the next
field is the address of its end."""


def show_name(name: str) -> None:
    """Make ps(1) show which process of Hopscope this is, instead of the inherited command line."""
    title = f"hopscope: {name}".encode()
    start, end = _arguments()
    if start:
        ctypes.memmove(start, title.ljust(end - start, b"\0")[: end - start - 1] + b"\0", end - start)
    Path("/proc/self/comm").write_bytes(title[:15])


def hide_arguments(secrets: Iterable[str]) -> None:
    """Overwrite secrets in the command line, which every user can read, with asterisks."""
    if not sys.platform.startswith("linux"):
        return
    start, end = _arguments()
    shown = ctypes.string_at(start, end - start) if start else b""
    hidden = shown
    for secret in map(os.fsencode, secrets):
        if secret:
            hidden = hidden.replace(secret, b"*" * len(secret))
    if hidden != shown:
        ctypes.memmove(start, hidden, len(hidden))


def _arguments() -> tuple[int, int]:
    """The addresses where the command line begins and ends; 0 if the kernel (or its
    emulation) does not tell.
    """
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = map(int, fields[_ARG_START : _ARG_START + 2] or (0, 0))
    return start, end
