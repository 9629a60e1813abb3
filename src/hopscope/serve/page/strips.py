"""Strips: a value over the last minute as coloured cells, in few SVG paths."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

LEVELS = 8
CALM = 5
"""Colours of a strip, and how many of them are for values below the limit."""


def cells(values: Sequence[int], top: int, limit: int | None = None) -> str:
    """One strip's cells as SVG paths, a path for each level that occurs, equal neighbours joined."""
    paths: dict[int, list[str]] = {}
    at = 0
    for level, run in groupby(_level(value, top, limit) for value in values):
        width = len(list(run))
        if level:
            paths.setdefault(level, []).append(f"M{at} 0h{width}v1h-{width}z")
        at += width
    return "".join(f'<path class="h{level}" d="{"".join(parts)}"/>' for level, parts in sorted(paths.items()))


def _level(value: int, top: int, limit: int | None) -> int:
    """0 for nothing, up to CALM below the limit, to LEVELS above it; without a limit to LEVELS at `top`."""
    if value <= 0:
        return 0
    if limit is not None and value > limit:
        return min(LEVELS, CALM + 1 + int((LEVELS - CALM) * (value - limit) / max(1, top - limit)))
    calm, end = (LEVELS, top) if limit is None else (CALM, limit)
    return min(calm, 1 + int(calm * (value / max(1, end)) ** 0.75))
