"""A folder of stores: `NAME.region` each, and `history/NAME-EPOCH.region` for past epochs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...memory.huge_pages import huge_share
from ...memory.region import HUGE_PAGE, RegionError
from ..primitive import attach
from .spec import StoreSpec, described
from .store import Store, StoreError

SUFFIX = ".region"


MIN_HUGE = 0.5
"""Least share of a store in huge pages, if requested: a small store may fill only part of a page."""


def open_stores(folder: Path, specs: Iterable[StoreSpec], *, huge_pages: bool = False) -> dict[str, Store]:
    """Open the stores for their only writer, or create the missing ones.

    `huge_pages`: all pages are made resident now, and must be huge in stores larger than one huge page.
    Raises StoreError if a file of this name has another layout, or if its pages are small; RegionError if
    there is no space.
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
                f"{path}: holds {described(found.layout)}, the settings say {described(spec.layout)}: set "
                "the store as it was, give the new one another name, or remove the file and what it holds"
            )
        stores[spec.name] = found
    if huge_pages:
        for name, store in stores.items():
            store.region.populate()
            if store.layout.nbytes >= 2 * HUGE_PAGE and huge_share(store.memory) < MIN_HUGE:
                raise StoreError(
                    f"{folder}: store {name} lies in small pages, the settings ask for huge ones: use a "
                    "folder in a tmpfs (mount -t tmpfs -o huge=always,size=8g stores FOLDER) or in "
                    "hugetlbfs, and name it in direct.folder"
                )
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
