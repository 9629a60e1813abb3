"""Current and past epochs of stores: files, attaching, and queries over epochs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory.region import RegionError
from ..primitive import attach, load
from .answers import QueryOptions
from .folder import SUFFIX, read_store
from .store import BEGUN_NS, ENDED_NS, WRITES, Store, StoreError

HISTORY = "history"
SEALED = ".sealed"


@dataclass(frozen=True, slots=True)
class PastEpoch:
    """A past epoch."""

    epoch: int
    begun_ns: int
    """ns since 1970; 0: unknown."""
    ended_ns: int
    operations: int
    nbytes: int


def epoch_path(history: Path, name: str, epoch: int) -> Path:
    """File of a past epoch."""
    return history / f"{name}-{epoch}{SUFFIX}"


def past_epochs(folder: Path, name: str) -> dict[int, Path]:
    """Files of a store's past epochs in the history, by epoch."""
    return _matching(folder / HISTORY, rf"{re.escape(name)}-(\d+){re.escape(SUFFIX)}")


def sealed_epochs(folder: Path, name: str) -> dict[int, Path]:
    """Files that are sealed but not in the history yet, by epoch; the last may still be the current one."""
    return _matching(folder, rf"\.{re.escape(name)}-(\d+){re.escape(SEALED)}")


def _matching(folder: Path, form: str) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    found = ((re.fullmatch(form, path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in found if match}


def _attached(folder: Path, name: str) -> Iterator[Store]:
    """All readable past epochs, newest first."""
    there = sealed_epochs(folder, name)  # comes first, so that files moved meanwhile are found in the history
    there |= past_epochs(folder, name)
    for epoch, path in sorted(there.items(), reverse=True):
        for place in (path, epoch_path(folder / HISTORY, name, epoch)):
            with suppress(RegionError, StoreError):  # moved or dropped meanwhile, or damaged
                yield attach(place)
                break


def attach_epoch(folder: Path, name: str, epoch: int) -> Store:
    """Open a past epoch of a store for reading. Raises StoreError."""
    there = past_epochs(folder, name)
    if epoch not in there:
        numbers = ", ".join(map(str, sorted(there))) or "none"
        raise StoreError(f"{folder}: unknown epoch {epoch} of store {name!r}; in the history: {numbers}")
    try:
        return attach(there[epoch])
    except RegionError as error:
        raise StoreError(str(error)) from error


def history(folder: Path, name: str) -> list[PastEpoch]:
    """Past epochs of a store, newest first, without unreadable ones."""
    newest = read_store(folder, name).epoch
    return [
        PastEpoch(
            store.epoch,
            int(store.state[BEGUN_NS]),
            int(store.state[ENDED_NS]),
            int(store.state[WRITES]),
            store.region.nbytes,
        )
        for store in _attached(folder, name)
        if store.epoch < newest
    ]


def epochs(folder: Path, name: str) -> Iterator[Store]:
    """The current store, then its past epochs, newest first; an epoch that ends meanwhile appears once."""
    current = read_store(folder, name)
    yield current
    for store in _attached(folder, name):
        if store.epoch < current.epoch:
            yield store


def query_epochs(
    stores: Iterable[Store], keys: npt.NDArray[np.uint8], options: QueryOptions
) -> list[dict[str, Any]]:
    """Answers to keys, uint8 [keys, bytes], from the first of `stores` that has one, with its `epoch`.

    A key that none of them has gets the first store's answer.
    """
    answers: list[dict[str, Any]] = []
    open_rows = np.arange(len(keys))
    for store in stores:
        found = load()[store.layout.opcode].answer(store, keys[open_rows], options)
        found = [{**answer, "epoch": store.epoch} for answer in found]
        if not answers:
            answers = list(found)
        for row, answer in zip(open_rows.tolist(), found, strict=True):
            if answer["status"] == "found":
                answers[row] = answer
        open_rows = open_rows[[answer["status"] != "found" for answer in found]]
        if not len(open_rows):
            break
    return answers
