"""Opens the collectors that settings name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...memory.data_folder import STORES
from .collector import NO_TOKEN, ApiAccess, Collector, LocalCollector
from .group import CollectorGroup


def open_collectors(places: Sequence[str], stores: Path, access: ApiAccess = NO_TOKEN) -> CollectorGroup:
    """Collectors at `places`, each the address of an API or a data folder; without places, the folder
    `stores`.

    There is one place for each share of the keys; a place that is named several times is one collector with
    several shares.
    """
    if not places:
        return CollectorGroup([LocalCollector(stores)])
    distinct = list(dict.fromkeys(places))
    return CollectorGroup(
        [open_collector(place, access) for place in distinct],
        [distinct.index(place) for place in places],
    )


def open_collector(place: str, access: ApiAccess = NO_TOKEN) -> Collector:
    """The collector at a place: the address of its API, its data folder, or its folder of stores."""
    if "://" in place:
        from .http import HttpCollector

        return HttpCollector(place, access)
    folder = Path(place)
    return LocalCollector(folder / STORES if (folder / STORES).is_dir() else folder)
