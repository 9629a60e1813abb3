"""Key-Increment (DTA 4, A.4): counters that are only added to; a count-min sketch over one row of slots.

The paper's slots have 4 bytes, but RDMA's fetch-and-add takes 8, aligned: slots are 64-bit counters here,
little-endian, which wrap around. All N functions share one row. A copy that hashes to the slot of an earlier
copy of the same key is not added again.

A key's counter is the minimum of its N slots. It is never too small if every report of the key had as many
copies as the query reads; it is too large if other keys have added to all of these slots. With M slots and a
sum T of the additions of all other keys, other keys add N T / M to a slot on average. By Markov's inequality
a slot exceeds its true value by e N T / M with a probability of at most 1/e; additions to different slots are
negatively associated, so all N exceed it with at most e^-N. That is the guarantee of a count-min sketch of N
rows of width M / N (Cormode and Muthukrishnan): eps = e N / M, delta = e^-N. `bound` computes it from the
memory.

Counters restart at 0 with a store's next epoch.
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
from ..stores import params as at
from ..stores.answers import KeyAnswers, QueryOptions, Status
from ..stores.store import Layout, Store, query_arguments

COUNTER_BYTES = 8
COMBINED_COUNTERS = 1 << 16
"""Counters whose additions a writer holds by default: 1 MiB."""


@dataclass(frozen=True, kw_only=True)
class KeyIncrementLayout(Layout):
    """`slots` counters of 64 bits."""

    opcode: ClassVar[int] = 3
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "key-increment"
    own: ClassVar = {at.SLOTS: "slots", at.DATA_BYTES: "data_bytes", at.COPIES: "copies"}

    slots: int
    copies: int = 2
    """Maximum copies of a report, and the copies that a query reads by default."""
    data_bytes: int = COUNTER_BYTES

    def __post_init__(self) -> None:
        self._within(slots=(1, 1 << 32), copies=(1, 16))
        if self.data_bytes != COUNTER_BYTES:
            raise ValueError(f"data_bytes is {self.data_bytes}, expected 8: the operand of fetch-and-add")

    @property
    def stride(self) -> int:
        """Bytes of a counter."""
        return COUNTER_BYTES


class KeyIncrementWriter(Writer):
    """Turns reports into fetch-and-adds.

    After `combine`, additions to one counter within `idle_ns` become one fetch-and-add: aggregation at the
    translator (DTA 4, Extensibility). The result is the same, since additions commute. An addition waits for
    at most 1.5 times `idle_ns`, possibly into the next epoch.
    """

    def __init__(self, layout: KeyIncrementLayout, targets: Sequence[int]) -> None:
        from ...base.kernels.jit import readonly

        self.layout = layout
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))
        self.idle_ns = 100_000_000
        """Time after which held additions are written."""
        self._held = self._sums = np.zeros(0, np.uint64)
        self._state = np.zeros(2, np.uint64)
        self._next = self._flushed_ns = 0

    def combine(self, counters: int = COMBINED_COUNTERS) -> None:
        """From now on, hold additions to up to `counters` counters, a power of two."""
        self._held, self._sums = np.zeros(counters, np.uint64), np.zeros(counters, np.uint64)

    def room(self, reports: int) -> tuple[int, int]:
        """Maximum verbs; fetch-and-adds have no payload."""
        return reports * self.layout.copies, 0

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """Append one fetch-and-add per copy, or hold it."""
        from ...base.kernels.jit import readonly
        from .key_increment_kernel import write

        first = len(out)
        write(
            reports, readonly(rows), readonly(arena), self._params, self._tables, self._targets, out.verbs,
            out.fill,
        )  # fmt: skip
        if len(self._held):
            from .combine_kernel import combine

            combine(np.uint64(first), self._held, self._sums, self._state, out.verbs, out.fill)

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """Append all held additions, at most once per `idle_ns`; see `Writer.flush`."""
        from .combine_kernel import WAITING, release

        if not self._state[WAITING]:
            return False
        if now_ns is not None and not self._next:
            if now_ns - self._flushed_ns < self.idle_ns:
                return False
            self._flushed_ns = now_ns
        self._next = int(
            release(np.uint64(self._next), self._held, self._sums, self._state, out.verbs, out.fill)
        )
        if self._next < len(self._held):
            return True
        self._next = 0
        return False

    @property
    def counters(self) -> dict[str, int]:
        """Additions that needed no operation of their own, and counters that wait."""
        return dict(zip(("combined", "waiting"), self._state.tolist(), strict=True))


@dataclass(slots=True)
class CounterAnswers(KeyAnswers):
    """Answers of Key-Increment: EMPTY if the counter is 0."""

    counter: npt.NDArray[np.uint64]
    """Sum of the reported values, or more, uint64 [keys]."""


def query(
    store: Store | Sequence[Store], keys: npt.NDArray[np.uint8], *, copies: int | None = None
) -> CounterAnswers:
    """Counters of keys, uint8 [keys, bytes of a key]: the minimum of their slots.

    `store`: if keys are spread over collectors, the stores of all of them, in order. `copies`: number
    written; None: the layout's maximum. A slot that a key's reports did not write makes its counter too
    small. Raises StoreError.
    """
    from ...base.kernels.jit import readonly
    from .key_increment_kernel import minimum

    stores, _, keys, copies = query_arguments(store, KeyIncrementLayout, keys, copies)
    params, hashes = readonly(stores[0].params), readonly(stores[0].tables)
    counter = np.zeros(len(keys), np.uint64)
    owners = collectors_of(params, keys) if len(stores) > 1 else np.zeros(len(keys), np.uint64)
    for number, current in enumerate(stores):
        mine = owners == number
        some = keys if mine.all() else keys[mine]
        found = np.zeros(len(some), np.uint64)
        minimum(
            readonly(some.reshape(-1)), np.uint64(keys.shape[1]), np.uint64(copies),
            readonly(current.memory), params, hashes, found,
        )  # fmt: skip
        counter[mine] = found
    status = np.where(counter > 0, np.uint8(Status.FOUND), np.uint8(Status.EMPTY))
    return CounterAnswers(status, counter)


def bound(store: Store, copies: int | None = None) -> tuple[float, float]:
    """The maximum overestimate of a counter, and the probability of exceeding it.

    The sum of all slots is N times the sum of all additions; all N slots of a key exceed e times the mean
    slot with a probability of at most e^-N. Reads the whole memory.
    """
    layout = store.layout
    assert isinstance(layout, KeyIncrementLayout)
    total = float(store.memory.view(np.uint64).sum(dtype=np.float64))
    return math.e * total / layout.slots, math.exp(-(layout.copies if copies is None else copies))


def _answers(store: Store, keys: npt.NDArray[np.uint8], options: QueryOptions) -> list[dict[str, Any]]:
    found = query(store, keys, copies=options.copies)
    excess, risk = bound(store, options.copies)
    return [
        {
            "status": Status(status).label,
            "counter": int(counter),
            "bound": math.ceil(excess * 1000) / 1000,
            "risk": round(risk, 6),
        }
        for status, counter in zip(found.status, found.counter, strict=True)
    ]


register(Primitive(KeyIncrementLayout, KeyIncrementWriter, _answers))
