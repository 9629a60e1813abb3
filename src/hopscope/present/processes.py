"""Processes of a collector: what the supervisor reports about each, and what each uses of the machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_USER_TIME, _RESIDENT = 11, 21
"""Fields of /proc/PID/stat after the name: user time, which system time follows; resident pages."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process."""

    name: str
    pid: int | None
    alive: bool
    stopped: bool
    """It ended again and again, and is left stopped for a while."""
    restarts: int
    last_error: str | None
    """Why it ended last."""
    tick_seconds: float | None
    """How long ago its loop last showed that it turns; None: not yet, or it has none."""
    cpu_seconds: float | None
    """Time on processors since its last start; None: it does not run."""
    memory_bytes: int | None
    """Resident memory; what processes share counts in each."""


def processes_of(status: Iterable[Mapping[str, Any]]) -> list[Process]:
    """Processes of the answer to `status` on the control socket."""
    return [_process(each) for each in status]


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
    """Processor time in s and resident memory in bytes of a process (proc(5), stat); None: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(fields[_USER_TIME]) + int(fields[_USER_TIME + 1])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
