"""Base of monitors that append to lists: their store, and reading lists back."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...wire.records import Records
from ..primitives.append import AppendLayout, ListReader
from ..stores.store import Store
from .monitor import Bytes, Monitor, unpacked


class Events(Monitor):
    """A monitor whose reports are entries of lists."""

    primitive = "append"
    data_bytes: ClassVar[int]
    """Bytes of an entry."""

    def __init__(self, lists: int = 1) -> None:
        self.lists = lists

    def layout(self, expected: int) -> AppendLayout:
        """Lists with room for `expected` events each, in batches of 16."""
        batches = 1 << max(0, -(-expected // 16) - 1).bit_length()
        return AppendLayout(batches=batches, lists=self.lists, data_bytes=self.data_bytes, batch=16)


def read_bytes(store: Store, number: int) -> Bytes:
    """Entries in a list, uint8 [entries, bytes], oldest first: as many as its ring holds."""
    reader, parts = ListReader(store, number, "oldest"), []
    while True:
        entries, _ = reader.read()
        parts.append(entries)
        if not len(entries):
            return np.concatenate(parts)


def read(store: Store, number: int, record: np.dtype[Any], widths: tuple[int, ...]) -> Records:
    """Entries in a list as records, oldest first; `widths` are the fields' bytes in an entry."""
    entries = read_bytes(store, number)
    rows = np.zeros(len(entries), record)
    at = 0
    for name, width in zip(record.names or (), widths, strict=True):
        column = entries[:, at : at + width]
        rows[name] = column if record[name].shape else unpacked(column, width)[0]
        at += width
    return rows
