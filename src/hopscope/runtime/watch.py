"""Notices processes that stand still: stopped, or caught in a loop or a system call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..detect.counters import DETECTOR, INDEX, attach_counters
from ..memory.region import RegionError
from .member import Member

HANG_SECONDS = 10.0
"""How long a process may stand still before it is killed: longer than any pause of a healthy one."""
LOOK_SECONDS = 1.0
"""Interval at which ticks are read."""
ROLES = ("worker", DETECTOR)
"""Processes that count ten ticks per second."""


class Watch:
    """Follows the ticks of processes whose counters are in the folder `regions`.

    Only the time in which the supervisor itself ran counts: a pause of the whole machine is no hang.
    """

    def __init__(self, regions: Path) -> None:
        self._regions = regions
        self._seen: dict[str, tuple[int, float]] = {}
        """Ticks of a process, and for how many seconds it has had no more."""
        self._looked_at: float | None = None

    def hung(self, members: Iterable[Member], now: float) -> Iterator[Member]:
        """Processes that have received, and have not ticked for HANG_SECONDS; `now` is monotonic, seconds."""
        before = now if self._looked_at is None else self._looked_at
        if self._looked_at is not None and now - before < LOOK_SECONDS:
            return
        self._looked_at = now
        passed = min(now - before, 2 * LOOK_SECONDS)
        for member in members:
            ticks = self._ticks(member)
            if ticks is None:
                self._seen.pop(member.name, None)
                continue
            known, still = self._seen.get(member.name, (ticks, 0.0))
            still = still + passed if ticks == known else 0.0
            self._seen[member.name] = ticks, still
            if still >= HANG_SECONDS:
                del self._seen[member.name]
                yield member

    def _ticks(self, member: Member) -> int | None:
        """Ticks of a process that runs; None: it does not, or counts none."""
        if member.role not in ROLES or member.process is None or not member.ready:
            return None
        try:
            return int(attach_counters(self._regions / f"{member.name}.counters")[INDEX["ticks_total"]])
        except RegionError:
            return None
