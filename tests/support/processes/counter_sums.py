"""What the processes of a collector have counted, together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hopscope.detect.counters import INDEX, attach_counters, counter_files


def counters_in(regions: Path) -> Counter[str]:
    """Sums over its workers and detectors, by key."""
    found = [attach_counters(path) for path in counter_files(regions).values()]
    return Counter({key: sum(int(counted[slot]) for counted in found) for key, slot in INDEX.items()})
