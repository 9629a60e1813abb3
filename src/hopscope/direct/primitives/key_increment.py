"""Key-Increment (DTA 4, A.4): counters that are only added to; a count-min sketch over one row of slots.

The paper's slots have 4 bytes, but RDMA's fetch-and-add takes 8, aligned: slots are 64-bit counters here,
little-endian, which wrap around. All N functions share one row. A copy of a key that falls into the slot of
an earlier one is not added again.

A key's counter is the least of its N slots: never too small as long as every report of the key asked for as
many copies as the query looks at, and too large by what other keys added to all of them. With T the sum of
what all other keys added and M slots, other keys add N T / M to a slot in the mean. By Markov's inequality a
slot has e N T / M more than it should with a probability of at most 1/e; what falls into different slots is
negatively associated, so all N have with at most e^-N. It is the guarantee of a count-min sketch of N rows of
width M / N (Cormode and Muthukrishnan): eps = e N / M, delta = e^-N. `bound` computes it from the memory.

Counters begin again with a store's next epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...rdma.records import VerbBlock
from ...wire.records import Records
from ..hashing import collectors_of, tables
from ..primitive import Primitive, Writer, register
from ..stores import layout as at
from ..stores.answers import Question, Status
from ..stores.store import Layout, Store, StoreError

COUNTER_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class KeyIncrementLayout(Layout):
    """`slots` counters of 64 bits."""

    opcode: ClassVar[int] = 3
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "key-increment"

    slots: int
    copies: int = 2
    """The most copies of a report, and those that a query looks at by default."""
    data_bytes: int = COUNTER_BYTES

    def __post_init__(self) -> None:
        self._within(slots=(1, 1 << 32), copies=(1, 16))
        if self.data_bytes != COUNTER_BYTES:
            raise ValueError(f"data_bytes is {self.data_bytes}: fetch-and-add takes 8")

    @property
    def stride(self) -> int:
        """Bytes of a counter."""
        return COUNTER_BYTES

    @property
    def count(self) -> int:
        """Counters."""
        return self.slots

    def own_params(self) -> dict[int, int]:
        """What a reader needs beside slots and stride."""
        return {at.DATA_BYTES: self.data_bytes, at.COPIES: self.copies}

    @classmethod
    def own_fields(cls, params: npt.NDArray[np.uint64]) -> dict[str, Any]:
        """The inverse."""
        return {
            "slots": int(params[at.SLOTS]),
            "data_bytes": int(params[at.DATA_BYTES]),
            "copies": int(params[at.COPIES]),
        }


class KeyIncrementWriter(Writer):
    """Reports to fetch-and-adds, without state."""

    def __init__(self, layout: KeyIncrementLayout, targets: Sequence[int]) -> None:
        from ...base.jit import readonly

        self.layout = layout
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))

    def room(self, reports: int) -> tuple[int, int]:
        """The most verbs of so many reports; they carry no payload."""
        return reports * self.layout.copies, 0

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """One fetch-and-add per copy."""
        from ...base.jit import readonly
        from .key_increment_kernel import write

        write(
            reports, readonly(rows), readonly(arena), self._params, self._tables, self._targets, out.verbs,
            out.fill,
        )  # fmt: skip


@dataclass(slots=True)
class Counters:
    """Answers to a batch of keys, row by row."""

    status: npt.NDArray[np.uint8]
    """`Status`, uint8 [keys]: EMPTY where the counter is 0."""
    counter: npt.NDArray[np.uint64]
    """Sum of what was reported, or more, uint64 [keys]."""

    def __len__(self) -> int:
        return len(self.status)


def query(
    store: Store | Sequence[Store], keys: npt.NDArray[np.uint8], *, copies: int | None = None
) -> Counters:
    """Counters of keys, uint8 [keys, bytes of a key]: the least of their slots.

    `store`: where keys are spread over collectors, those of all of them, in order. `copies`: how many were
    written; None: the layout's most. A slot that a key's reports left out makes its counter too small. Raises
    StoreError.
    """
    from ...base.jit import readonly
    from .key_increment_kernel import least

    stores = [store] if isinstance(store, Store) else list(store)
    layout = stores[0].layout
    assert isinstance(layout, KeyIncrementLayout)
    keys = np.ascontiguousarray(keys, np.uint8)
    if keys.ndim != 2 or not 1 <= keys.shape[1] <= 255:
        raise StoreError(f"keys of shape {keys.shape}, expected [keys, bytes of a key], of 1 to 255 bytes")
    copies = layout.copies if copies is None else copies
    if not 1 <= copies <= layout.copies:
        raise StoreError(f"{copies} copies: the store has {layout.copies}")
    if len(stores) not in (1, layout.collectors) or any(s.layout != layout for s in stores):
        raise StoreError(
            f"{len(stores)} stores, expected those of {layout.collectors} collectors of one layout"
        )
    params, hashes = readonly(stores[0].params), readonly(stores[0].tables)
    counter = np.zeros(len(keys), np.uint64)
    owners = collectors_of(params, keys) if len(stores) > 1 else np.zeros(len(keys), np.uint64)
    for number, one in enumerate(stores):
        mine = owners == number
        some = keys if mine.all() else keys[mine]
        found = np.zeros(len(some), np.uint64)
        least(
            readonly(some.reshape(-1)), np.uint64(keys.shape[1]), np.uint64(copies),
            readonly(one.memory), params, hashes, found,
        )  # fmt: skip
        counter[mine] = found
    status = np.where(counter > 0, np.uint8(Status.FOUND), np.uint8(Status.EMPTY))
    return Counters(status, counter)


def bound(store: Store, copies: int | None = None) -> tuple[float, float]:
    """What a counter is not too large by, and the probability that one is nevertheless.

    The sum of all slots is what all keys added, N times; a slot's mean times e is exceeded in all N slots of
    a key with a probability of at most e^-N. It reads the whole memory.
    """
    layout = store.layout
    assert isinstance(layout, KeyIncrementLayout)
    total = float(store.memory.view(np.uint64).sum(dtype=np.float64))
    return math.e * total / layout.slots, math.exp(-(layout.copies if copies is None else copies))


def _writer(layout: Layout, targets: Sequence[int]) -> Writer:
    assert isinstance(layout, KeyIncrementLayout)
    return KeyIncrementWriter(layout, targets)


def _tell(store: Store, keys: npt.NDArray[np.uint8], question: Question) -> list[dict[str, Any]]:
    found = query(store, keys, copies=question.copies)
    most, risk = bound(store, question.copies)
    return [
        {
            "status": Status(status).label,
            "counter": int(counter),
            "bound": math.ceil(most * 1000) / 1000,
            "risk": round(risk, 6),
        }
        for status, counter in zip(found.status, found.counter, strict=True)
    ]


register(Primitive(KeyIncrementLayout.name, KeyIncrementLayout.opcode, KeyIncrementLayout, _writer, _tell))
