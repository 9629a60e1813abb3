"""Whether the system's clock can be right when a collector starts, by the newest file of an earlier one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..files.names import listing

DAY_NS = 86_400 * 10**9
MAX_AHEAD_NS = 30 * DAY_NS
"""Longest time without a file after which the clock is believed."""
MAX_BEHIND_NS = 3600 * 10**9


@dataclass(frozen=True, slots=True)
class StartClock:
    """The system's clock at the start of a collector."""

    ahead_ns: int = 0
    """How far it is after the newest file, if that is too far; ages are counted without it."""
    problem: str = ""
    """Why it is not believed; empty: it is."""


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
    """When files of history, and of the last start, were written."""
    parts = (("journal", ".journal"), ("segments", ".parquet"), ("distributions", ".parquet"))
    files = [path for part, suffix in parts for path in listing(folder / part, suffix)]
    for path in [folder / "owner.json", *files]:
        with suppress(FileNotFoundError):
            yield path.stat().st_mtime_ns
