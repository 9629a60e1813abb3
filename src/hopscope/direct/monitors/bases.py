"""Bases of monitors by primitive: values and counters of keys, paths of postcards, and entries of lists."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...wire.dta.forms import Opcode
from ...wire.records import Records
from ..primitives.append import AppendLayout, ListReader
from ..primitives.key_increment import KeyIncrementLayout
from ..primitives.key_increment import query as query_counters
from ..primitives.key_write import KeyWriteLayout
from ..primitives.key_write import query as query_values
from ..primitives.postcarding import Paths, PostcardingLayout
from ..primitives.postcarding import query as query_paths
from ..stores.answers import Answers
from ..stores.store import Store
from .monitor import (
    COPIES,
    Bytes,
    Monitor,
    MonitorAnswers,
    Numbers,
    Reports,
    packed,
    reports,
    unpacked,
    unpacked_as,
)

HOPS = 5
"""Hops of the longest path."""


class Values(Monitor):
    """A monitor whose reports are values of keys."""

    primitive = "key-write"

    @property
    def data_bytes(self) -> int:
        """Bytes of a value."""
        return self.record.itemsize

    def layout(self, expected: int) -> KeyWriteLayout:
        """Load 1/16."""
        return KeyWriteLayout(slots=16 * expected, data_bytes=self.data_bytes, copies=COPIES)

    def values(self, store: Store, keys: Bytes) -> Answers:
        """Values of keys (uint8 [keys, bytes])."""
        return query_values(store, keys, copies=COPIES)

    def numbers(self, store: Store, keys: Bytes) -> MonitorAnswers:
        """Values of keys that are one number each, uint64 [keys]."""
        answers = self.values(store, keys)
        numbers = unpacked(answers.data, self.data_bytes)[0]
        return MonitorAnswers(answers.status, np.where(answers.found, numbers, 0))


class Counters(Monitor):
    """A monitor whose reports add to counters of keys."""

    primitive = "key-increment"

    def layout(self, expected: int) -> KeyIncrementLayout:
        """16 counters for each key."""
        return KeyIncrementLayout(slots=16 * expected, copies=COPIES)

    def query(self, store: Store, keys: Bytes) -> Numbers:
        """Counters of keys (uint8 [keys, bytes]), uint64 [keys]: exact or too high."""
        return query_counters(store, keys, copies=COPIES).counter


class Postcarding(Monitor):
    """A monitor whose reports are values of the hops of a path."""

    primitive = "postcarding"
    needs_values = True

    def layout(self, expected: int) -> PostcardingLayout:
        """Load 1/16."""
        return PostcardingLayout(chunks=16 * expected, hops=HOPS, copies=COPIES)

    def postcards(self, keys: Bytes, values: npt.NDArray[np.integer], passed: Records) -> Reports:
        """A report for each of the OBSERVATION records `passed`."""
        return reports(
            Opcode.POSTCARDING,
            keys,
            packed((values, 4)),
            hop=passed["hop"],
            path_length=passed["path_length"],
        )

    def query(self, store: Store, keys: Bytes, switches: npt.ArrayLike) -> Paths:
        """Paths of keys (uint8 [keys, bytes]) over `switches`."""
        return query_paths(store, keys, values=switches)


class Events(Monitor):
    """A monitor whose reports are entries of lists, records of type `record`."""

    primitive = "append"

    def __init__(self, lists: int = 1) -> None:
        self.lists = lists

    def layout(self, expected: int) -> AppendLayout:
        """Lists with room for `expected` events each, in batches of 16."""
        batches = 1 << max(0, -(-expected // 16) - 1).bit_length()
        return AppendLayout(batches=batches, lists=self.lists, data_bytes=self.record.itemsize, batch=16)

    def read(self, store: Store, number: int) -> Records:
        """Entries in a list, oldest first."""
        return unpacked_as(self.record, read_bytes(store, number))


def read_bytes(store: Store, number: int) -> Bytes:
    """Entries in a list, uint8 [entries, bytes], oldest first: as many as its ring holds."""
    reader, parts = ListReader(store, number, "oldest"), []
    while True:
        entries, _ = reader.read()
        parts.append(entries)
        if not len(entries):
            return np.concatenate(parts)
