"""Key-Write stores filled through the translator with keys of known order, and what queries return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hopscope.direct.hashing import Hashing
from hopscope.direct.primitives.key_write import KeyWriteLayout, Variant, query
from hopscope.direct.stores.answers import Status
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.records import DTA

BATCH = 1 << 16
KEY_BYTES = 8


@dataclass(frozen=True, slots=True)
class Tally:
    """Queries by what they returned."""

    asked: int
    correct: int
    wrong: int
    empty: int
    conflict: int

    @property
    def success(self) -> float:
        """Share that is correct."""
        return self.correct / self.asked

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.asked + other.asked,
            self.correct + other.correct,
            self.wrong + other.wrong,
            self.empty + other.empty,
            self.conflict + other.conflict,
        )


def keys_of(first: int, last: int, seed: int) -> npt.NDArray[np.uint8]:
    """Keys `first` to `last` (excluded) of a run: distinct within it, random bytes, uint8 [keys, 8]."""
    x = np.arange(first, last, dtype=np.uint64) + np.uint64(seed << 40)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))).view(np.uint8).reshape(-1, KEY_BYTES)


def values_of(first: int, last: int, width: int) -> npt.NDArray[np.uint8]:
    """What they report, distinct: their number, big-endian and repeated, uint8 [keys, width]."""
    number = np.arange(first, last, dtype=">u4").view(np.uint8).reshape(-1, 4)
    return np.tile(number, -(-width // 4))[:, :width]


class Filler:
    """Writes keys into a store, number after number; keeps its batch's memory."""

    def __init__(self, store: Store, copies: int, seed: int) -> None:
        layout = store.layout
        assert isinstance(layout, KeyWriteLayout)
        self.store, self.copies, self.seed, self.done = store, copies, seed, 0
        self._translator = Translator([layout], MemoryTransport([store]))
        self._width = layout.data_bytes
        row = KEY_BYTES + self._width
        self._arena = np.zeros((BATCH, row), np.uint8)
        self._reports = np.zeros(BATCH, DTA)
        self._reports["opcode"], self._reports["redundancy"] = layout.opcode, copies
        self._reports["key_at"] = np.arange(BATCH) * row
        self._reports["data_at"] = np.arange(BATCH) * row + KEY_BYTES
        self._reports["key_bytes"], self._reports["data_bytes"] = KEY_BYTES, self._width

    def until(self, total: int) -> None:
        """Write up to key number `total`."""
        while self.done < total:
            count = min(BATCH, total - self.done)
            self._arena[:count, :KEY_BYTES] = keys_of(self.done, self.done + count, self.seed)
            self._arena[:count, KEY_BYTES:] = values_of(self.done, self.done + count, self._width)
            self._translator.translate(self._reports[:count], self._arena.reshape(-1))
            self.done += count

    def ask(self, first: int, last: int, rule: str = "plurality") -> Tally:
        """Query for these keys, in batches."""
        sums = np.zeros(5, np.int64)
        for at in range(first, last, BATCH):
            end = min(at + BATCH, last)
            answers = query(self.store, keys_of(at, end, self.seed), copies=self.copies, rule=rule)
            right = (answers.data == values_of(at, end, self._width)).all(axis=1)
            sums += (
                end - at,
                int((answers.found & right).sum()),
                int((answers.found & ~right).sum()),
                int((answers.status == Status.EMPTY).sum()),
                int((answers.status == Status.CONFLICT).sum()),
            )
        return Tally(*(int(one) for one in sums))


def filled(
    slots: int,
    keys: int,
    copies: int,
    *,
    bits: int = 32,
    data_bytes: int = 4,
    seed: int = 1,
    hashing: Hashing = Hashing.MIX,
    variant: Variant = Variant.WRITE,
) -> Filler:
    """A new store in private memory with so many keys in it."""
    layout = KeyWriteLayout(
        slots=slots, data_bytes=data_bytes, checksum_bits=bits, copies=copies, seed=seed, hashing=hashing,
        variant=variant,
    )  # fmt: skip
    filler = Filler(Store.create(None, layout), copies, seed)
    filler.until(keys)
    return filler
