"""Postcards that are joined into one path."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from .section import PowerOfTwo, Section


class PostcardSettings(Section):
    """Postcards (INT-MX, INT-XD) of one packet, joined into one path."""

    enabled: bool = True
    """If off, postcards are not joined, and flows have no path."""
    window_ms: float = Field(default=20.0, ge=0, le=10_000)
    """Longest time from a packet's first postcard to its last, by the timestamps of the reports."""
    packets: PowerOfTwo = Field(default=16_384, ge=16, le=2**24)
    """Packets whose postcards can wait at once, a power of two; four postcards each on average."""
    links: Path | None = None
    """File (TOML or CSV) of the network's links. It orders the hops of a path, and complete paths are emitted
    immediately."""
