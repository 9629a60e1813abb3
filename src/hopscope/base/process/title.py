"""What other users see of a process: its name, and its command line (proc(5), prctl(2))."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_ARG_START = 45
"""Field of /proc/PID/stat, after the name: where the command line begins in memory; in the next, it ends."""


def show_name(name: str) -> None:
    """Show in ps(1) which process of Hopscope this is, in place of the command line that it has inherited."""
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
    """Where the command line begins and ends; 0 where the kernel, or what emulates one, does not say it."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = map(int, fields[_ARG_START : _ARG_START + 2] or (0, 0))
    return start, end
