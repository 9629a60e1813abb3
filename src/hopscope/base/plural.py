"""Counts in sentences."""

from __future__ import annotations


def plural(count: int, what: str) -> str:
    """A count with its noun: 1 packet, 2,000 packets."""
    return f"{count:,} {what}{'s' * (count != 1)}"
