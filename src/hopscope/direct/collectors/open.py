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
    """Collectors at `places`, each the address of an API or a data folder; without places, the folder
    `stores`.

    There is one place for each share of the keys; a place that is named several times is one collector with
    several shares. `token`: token of the APIs.
    """
    if not places:
        return CollectorGroup([LocalCollector(stores)])
    distinct = list(dict.fromkeys(places))
    return CollectorGroup(
        [open_collector(place, token=token, timeout_seconds=timeout_seconds) for place in distinct],
        [distinct.index(place) for place in places],
    )


def open_collector(place: str, *, token: str | None = None, timeout_seconds: float = 5.0) -> Collector:
    """The collector at a place: the address of its API, its data folder, or its folder of stores."""
    if "://" in place:
        from .http import HttpCollector

        return HttpCollector(place, token, timeout_seconds)
    folder = Path(place)
    return LocalCollector(folder / STORES if (folder / STORES).is_dir() else folder)
