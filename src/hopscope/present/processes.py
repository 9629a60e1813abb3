"""Processes of a collector: what the supervisor reports about each, and the CPU time and memory it uses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_USER_TIME, _RESIDENT = 11, 21
"""Indices of fields in /proc/PID/stat after the name: user time (followed by system time), resident pages."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a collector."""

    name: str
    pid: int | None
    alive: bool
    stopped: bool
    """Whether the supervisor leaves it stopped for a while, because it ended repeatedly."""
    restarts: int
    last_error: str | None
    """Why it ended last."""
    tick_seconds: float | None
    """Time since its loop last ran; None: not yet, or it has no loop."""
    cpu_seconds: float | None
    """CPU time since its last start; None: it is not running."""
    memory_bytes: int | None
    """Resident memory; shared memory counts in each process; None: it is not running."""


def processes_of(status: Iterable[Mapping[str, Any]]) -> list[Process]:
    """The processes in the answer to `status` on the control socket."""
    return [_process(process) for process in status]


def _process(status: Mapping[str, Any]) -> Process:
    used = usage(status.get("pid"))
    return Process(
        str(status["name"]),
        status.get("pid"),
        bool(status.get("alive")),
        bool(status.get("stopped")),
        int(status.get("restarts", 0)),
        status.get("last_error"),
        status.get("tick_seconds"),
        None if used is None else used[0],
        None if used is None else used[1],
    )


def usage(pid: int | None) -> tuple[float, int] | None:
    """CPU time (s) and resident memory (bytes) of a process (proc(5), stat); None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(fields[_USER_TIME]) + int(fields[_USER_TIME + 1])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
