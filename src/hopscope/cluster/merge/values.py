"""Helpers of the merging rules: numbers in JSON, sums, the newest of several rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...present.events import wide

Item: TypeAlias = dict[str, Any]
Bodies: TypeAlias = Mapping[str, Sequence[Any]]
"""By member: its answer, and the answers to further paths that a rule needs (`merge.Rule.also`)."""
Query: TypeAlias = Mapping[str, str]


def number(value: Any) -> Any:
    """A number from JSON, where large ones are text. ValueError or TypeError: it is not a number."""
    if value is None:
        return None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("found a number that is not finite")
        return value
    found = int(value)
    if not -(2**64) < found < 2**64:
        raise ValueError("found a number beyond 64 bits")
    return found


def added(values: Iterable[Any]) -> Any:
    """The sum of the values that are not null."""
    return sum(found for each in values if (found := number(each)) is not None)


def total(parts: Iterable[Item], name: str) -> Any:
    """Sum of a key's values, as a number for JSON."""
    return wide(added(part[name] for part in parts))


def highest(parts: Iterable[Item], name: str) -> Any:
    """The highest value of a key; None: all are null."""
    return max((found for part in parts if (found := number(part[name])) is not None), default=None)


def newest(parts: Sequence[Item]) -> Item:
    """The part that was seen last."""
    return max(parts, key=lambda part: str(part["last_seen"] or ""))


def alarms(parts: Iterable[Item]) -> list[str]:
    """All alarms, each once."""
    return sorted({str(alarm) for part in parts for alarm in part["alarms"]})
