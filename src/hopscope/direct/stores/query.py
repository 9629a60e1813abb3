"""Queries of stores by name and textual keys, for the command line and the API."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from ..primitive import load
from .answers import QueryOptions
from .epochs import attach_epoch, epochs, past_epochs, query_epochs
from .folder import read_store, store_names
from .keys import parse_keys
from .store import WRITES, Store


def query_store(
    folder: Path,
    name: str,
    texts: Sequence[str],
    options: QueryOptions,
    epoch: int | Literal["all"] | None = None,
) -> list[dict[str, Any]]:
    """One object per key: the key as given, `status`, and the fields of the store's primitive.

    `epoch`: a past one, or all, newest first until a key is found; None: the current one. Raises StoreError:
    unknown store or epoch, invalid key or option.
    """
    keys = parse_keys(list(texts))
    if epoch is None:
        store = read_store(folder, name)
        answers = load()[store.layout.opcode].answer(store, keys, options)
    else:
        stores = epochs(folder, name) if epoch == "all" else [attach_any_epoch(folder, name, epoch)]
        answers = query_epochs(stores, keys, options)
    return [{"key": text, **answer} for text, answer in zip(texts, answers, strict=True)]


def read_list(
    folder: Path, name: str, number: int, *, after: str | None = None, limit: int = 4096
) -> tuple[list[str], int, str]:
    """Entries of a list in hexadecimal, the number lost before they were read, and the place to continue at.

    `after`: such a place; None: the oldest available entry. Raises StoreError.
    """
    from ..primitives.append_reader import ListReader

    parts: list[str] = []
    lost, place = 0, after or ""
    for store in [read_store(folder, name)] if after is None else _since(folder, name, number, after):
        reader = ListReader(store, number, "oldest", after)
        entries, overwritten = reader.read(limit - len(parts))
        parts += [bytes(entry).hex() for entry in entries]
        lost += overwritten
        if after is not None or len(entries) or not place:
            place = reader.place  # that of an earlier epoch stays while a new one is empty
        if len(parts) >= limit:
            break
        after = None
    return parts, lost, place


def _since(folder: Path, name: str, number: int, place: str) -> list[Store]:
    """The epoch of a place in a list, and those after it, in order; the current one alone if that is gone."""
    from ..primitives.append_reader import generation_of, generation_of_place

    wanted, found = generation_of_place(place), []
    for store in epochs(folder, name):
        found.append(store)
        if generation_of(store, number) == wanted:
            return found[::-1]
    return found[:1]


def attach_any_epoch(folder: Path, name: str, epoch: int) -> Store:
    """The store of an epoch, past or current. Raises StoreError."""
    current = read_store(folder, name)
    return current if epoch == current.epoch else attach_epoch(folder, name, epoch)


def describe(name: str, store: Store) -> dict[str, Any]:
    """A store's primitive, memory, epoch and layout."""
    fields = {
        field.name: getattr(store.layout, field.name)
        for field in dataclasses.fields(store.layout)
        if field.name != "seed" or store.layout.seed
    }
    return {
        "name": name,
        "primitive": store.layout.name,
        "bytes": store.layout.nbytes,
        "epoch": store.epoch,
        "operations": int(store.state[WRITES]),
        "layout": {
            key: value.name.lower() if isinstance(value, IntEnum) else value for key, value in fields.items()
        },
    }


def describe_all(folder: Path) -> list[dict[str, Any]]:
    """Describe every store of a folder; an unreadable one gets an `error`."""
    from ...base.errors import HopscopeError

    found: list[dict[str, Any]] = []
    for name in store_names(folder):
        try:
            past = sorted(past_epochs(folder, name))
            found.append({**describe(name, read_store(folder, name)), "past_epochs": past})
        except HopscopeError as error:
            found.append({"name": name, "error": str(error)})
    return found
