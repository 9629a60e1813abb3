"""Checks at the start of a collector whether the system's clock can be right: it is compared with the newest
file of an earlier run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..files.names import listing

DAY_NS = 86_400 * 10**9
MAX_AHEAD_NS = 30 * DAY_NS
"""If the newest file is older than this, the clock is not trusted."""
MAX_BEHIND_NS = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class StartClock:
    """The system's clock at the start of a collector."""

    ahead_ns: int = 0
    """How far the clock is ahead of the newest file, if too far; it is subtracted when ages are counted."""
    problem: str = ""
    """Why the clock is not trusted; empty if it is."""


def check_clock(folder: Path, now_ns: int | None = None) -> StartClock:
    """Compare the clock with the data folder `folder`, before this start writes into it."""
    newest_ns = max(_written_ns(folder), default=None)
    ahead_ns = 0 if newest_ns is None else (time.time_ns() if now_ns is None else now_ns) - newest_ns
    days = f"{abs(ahead_ns) / DAY_NS:,.1f} days"
    if ahead_ns > MAX_AHEAD_NS:
        return StartClock(
            ahead_ns,
            f"the system's clock is {days} after the newest file of {folder}: nothing expires by this; "
            "set the clock, or start again if it is right",
        )
    if ahead_ns < -MAX_BEHIND_NS:
        return StartClock(
            problem=f"the system's clock is {days} before the newest file of {folder}; "
            "set it, and start again"
        )
    return StartClock()


def _written_ns(folder: Path) -> Iterator[int]:
    """Modification times of the files of history, and of `owner.json`, which each start writes."""
    parts = (("journal", ".journal"), ("segments", ".parquet"), ("distributions", ".parquet"))
    files = [path for part, suffix in parts for path in listing(folder / part, suffix)]
    for path in [folder / "owner.json", *files]:
        with suppress(FileNotFoundError):
            yield path.stat().st_mtime_ns
