"""A folder of stores: `NAME.region` each, and `history/NAME-EPOCH.region` for past epochs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...memory.region import RegionError
from ..primitive import attach
from .spec import StoreSpec
from .store import Store, StoreError

SUFFIX = ".region"


def open_stores(folder: Path, specs: Iterable[StoreSpec]) -> dict[str, Store]:
    """Open the stores for their only writer, or create the missing ones.

    Raises StoreError if a file of this name has another layout, RegionError if there is no space.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stores: dict[str, Store] = {}
    for spec in specs:
        if spec.name in stores:
            raise StoreError(f"store {spec.name}: described twice")
        path = folder / (spec.name + SUFFIX)
        if not path.exists():
            stores[spec.name] = Store.create(path, spec.layout)
            continue
        found = attach(path, writable=True)
        if found.layout != spec.layout:
            raise StoreError(
                f"{path}: holds {found.layout}, the settings say {spec.layout}: "
                "remove the file, or rename the store"
            )
        stores[spec.name] = found
    return stores


def store_names(folder: Path) -> list[str]:
    """Names of the stores in a folder."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def read_store(folder: Path, name: str) -> Store:
    """Open a store for reading. Raises StoreError for an unknown or damaged one."""
    path = folder / (name + SUFFIX)
    if "/" in name or name.startswith(".") or not path.exists():
        there = ", ".join(store_names(folder)) or "none"
        raise StoreError(f"{folder}: unknown store {name!r}; known: {there}")
    try:
        return attach(path)
    except RegionError as error:
        raise StoreError(str(error)) from error
