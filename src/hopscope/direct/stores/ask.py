"""Questions to stores by name and by keys as people write them: what the command line and the API show."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from ..primitive import load
from .answers import Question
from .folder import read_store, store_names
from .keys import parse_keys
from .past import attach_epoch, epochs, past_epochs, tell_epochs
from .store import WRITES, Store


def ask(
    folder: Path,
    name: str,
    texts: Sequence[str],
    question: Question,
    epoch: int | Literal["all"] | None = None,
) -> list[dict[str, Any]]:
    """One object per key: the key as it was asked, `status`, and what the store's primitive tells.

    `epoch`: a past one, or all, the newest first until a key is found; None: what is written now. Raises
    StoreError: no such store or epoch, a key that cannot be read, a question that does not fit.
    """
    keys = parse_keys(list(texts))
    if epoch is None:
        store = read_store(folder, name)
        answers = load()[store.layout.opcode].tell(store, keys, question)
    else:
        stores = epochs(folder, name) if epoch == "all" else [find_epoch(folder, name, epoch)]
        answers = tell_epochs(stores, keys, question)
    return [{"key": text, **answer} for text, answer in zip(texts, answers, strict=True)]


def read_list(
    folder: Path, name: str, number: int, *, after: str | None = None, limit: int = 4096
) -> tuple[list[str], int, str]:
    """Entries of a list in hexadecimal, how many were lost before they were read, and where to go on.

    `after`: such a place; None: the oldest entry that is there. Raises StoreError.
    """
    from ..primitives.append_reader import ListReader

    reader = ListReader(read_store(folder, name), number, "oldest", after)
    entries, lost = reader.read(limit)
    return [bytes(entry).hex() for entry in entries], lost, reader.place


def find_epoch(folder: Path, name: str, epoch: int) -> Store:
    """The store of an epoch, past or current. Raises StoreError."""
    current = read_store(folder, name)
    return current if epoch == current.epoch else attach_epoch(folder, name, epoch)


def describe(name: str, store: Store) -> dict[str, Any]:
    """A store in numbers: its primitive, memory, epoch and layout."""
    fields = {
        field.name: getattr(store.layout, field.name)
        for field in dataclasses.fields(store.layout)
        if field.name != "seed"
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
    """Every store of a folder; one that cannot be read tells why. Raises nothing for damaged files."""
    from ...base.errors import HopscopeError

    told: list[dict[str, Any]] = []
    for name in store_names(folder):
        try:
            past = sorted(past_epochs(folder, name))
            told.append({**describe(name, read_store(folder, name)), "past_epochs": past})
        except HopscopeError as error:
            told.append({"name": name, "error": str(error)})
    return told
