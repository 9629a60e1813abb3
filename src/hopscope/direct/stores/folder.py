"""A folder of stores: `NAME.region` each, and `history/NAME-EPOCH.region` of those that are past."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...memory.region import RegionError
from ..primitive import attach
from .spec import StoreSpec
from .store import Store, StoreError

SUFFIX = ".region"


def open_stores(folder: Path, specs: Iterable[StoreSpec]) -> dict[str, Store]:
    """Stores of these names for their one writer: continued where they are there, made where they are not.

    Raises StoreError where a file of this name has another layout, RegionError where there is no space.
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
                "remove the file, or give the store another name"
            )
        stores[spec.name] = found
    return stores


def store_names(folder: Path) -> list[str]:
    """Names of the stores in a folder."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def read_store(folder: Path, name: str) -> Store:
    """A store for reading; StoreError says which there are, or what is wrong with it."""
    path = folder / (name + SUFFIX)
    if "/" in name or name.startswith(".") or not path.exists():
        there = ", ".join(store_names(folder)) or "none"
        raise StoreError(f"{folder}: no store {name!r}; there are {there}")
    try:
        return attach(path)
    except RegionError as error:
        raise StoreError(str(error)) from error
