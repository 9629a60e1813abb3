"""Pins workers and the detector to a processor each, if the settings name some, and all else to the rest.

A worker is pinned before it allocates its tables, so that they lie in the memory of its NUMA node.
"""

from __future__ import annotations

from ...base.errors import HopscopeError
from ...base.process import affinity
from ...settings.collector import Settings
from ..pipeline.mode import mode_of


def needed(settings: Settings) -> int:
    """Number of processors that the workers and the detector need."""
    return settings.workers + mode_of(settings).has_detector


def check(settings: Settings) -> None:
    """Raises HopscopeError if the processors of the settings cannot be used."""
    named = settings.processors
    if not named:
        return
    if len(set(named)) != len(named):
        raise HopscopeError("processors: found one twice, expected each once")
    if len(named) != (count := needed(settings)):
        what = f"{settings.workers} worker{'' if settings.workers == 1 else 's'}"
        what += " and their detector" if count > settings.workers else ""
        raise HopscopeError(f"processors: found {len(named)}, expected {count}, one for each of {what}")
    if missing := set(named) - (allowed := affinity.allowed()):
        raise HopscopeError(
            f"processors: found {affinity.as_list(missing)}, expected some of {affinity.as_list(allowed)}"
        )


def pin(settings: Settings, role: str, index: int) -> None:
    """Pin this thread, and all threads that it starts, to the processors of this role."""
    named = settings.processors
    if not named:
        return
    allowed = affinity.allowed()
    rest = allowed - set(named) or allowed
    if role == "worker":
        affinity.pin({named[index]}, rest)
    elif role == "detector":
        affinity.pin({named[settings.workers]}, rest)
    else:
        affinity.pin(rest, rest)
