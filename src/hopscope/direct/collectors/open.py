"""Opens the collectors that settings name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...memory.data_folder import STORES
from .collector import Collector, LocalCollector
from .group import CollectorGroup


def open_collectors(
    places: Sequence[str], stores: Path, *, token: str | None = None, timeout_seconds: float = 5.0
) -> CollectorGroup:
    """Collectors by the address of their API, or their data folder; without any, that of the folder `stores`.

    `token`: of the APIs.
    """
    if not places:
        return CollectorGroup([LocalCollector(stores)])
    found: list[Collector] = []
    for place in places:
        if "://" in place:
            from .http import HttpCollector

            found.append(HttpCollector(place, token, timeout_seconds))
        else:
            folder = Path(place)
            found.append(LocalCollector(folder / STORES if (folder / STORES).is_dir() else folder))
    return CollectorGroup(found)
