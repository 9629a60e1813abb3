"""Detects hung processes: stopped, or caught in a loop or a system call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...detect.counters import DETECTOR
from .managed_process import ManagedProcess

LIMITS = {
    "worker": 10.0,
    DETECTOR: 10.0,
    "labels": 10.0,
    "names": 60.0,
    "control": 60.0,
    "cluster": 60.0,
    "lake": 600.0,
    "serve": 60.0,
    "export": 60.0,
    "archive": 600.0,
}
"""How many seconds a role may be silent before it is killed: longer than any pause of a healthy process.

Helpers yield the processor to capture; the archive merges large segments in one go, as the lake does files.
"""
START_SECONDS = 120.0
"""How long a process that is not ready yet may be silent, while it imports modules and makes tables."""
LOOK_SECONDS = 1.0
"""Interval at which ticks are compared."""


def limit_of(managed: ManagedProcess) -> float:
    """How many seconds a process may be silent now."""
    return LIMITS[managed.role] if managed.ready else START_SECONDS


class Watch:
    """Follows the ticks of processes.

    Only the time in which the supervisor itself ran counts: a pause of the whole machine is no hang.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}
        """Ticks of a process, and the seconds since the last one."""
        self._looked_at: float | None = None

    def hung(self, processes: Iterable[ManagedProcess], now: float) -> Iterator[ManagedProcess]:
        """Processes that have not ticked for their limit; `now` is monotonic, seconds."""
        before = now if self._looked_at is None else self._looked_at
        if self._looked_at is not None and now - before < LOOK_SECONDS:
            return
        self._looked_at = now
        passed = min(now - before, 2 * LOOK_SECONDS)
        for managed in processes:
            if managed.role not in LIMITS or managed.process is None:
                self._seen.pop(managed.name, None)
                continue
            known, still = self._seen.get(managed.name, (managed.ticks, 0.0))
            still = still + passed if managed.ticks == known else 0.0
            self._seen[managed.name] = managed.ticks, still
            if still >= limit_of(managed):
                del self._seen[managed.name]
                yield managed
