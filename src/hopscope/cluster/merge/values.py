"""What rules of merging share: numbers of JSON, sums, the newest of several rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from ...present.events import wide

Item: TypeAlias = dict[str, Any]
Bodies: TypeAlias = Mapping[str, Sequence[Any]]
"""By member: its answer, and those of further paths that a rule needs (`merge.Rule.also`)."""
Query: TypeAlias = Mapping[str, str]


def number(value: Any) -> Any:
    """A number of JSON: large ones are text. ValueError or TypeError: it is none."""
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
    """Their sum, of those that are not null."""
    return sum(found for each in values if (found := number(each)) is not None)


def total(parts: Iterable[Item], name: str) -> Any:
    """Sum of a key, as JSON has it."""
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
