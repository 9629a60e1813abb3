"""Distinct elements: HyperLogLog with RDMA writes, a primitive in addition to DTA's own (DTA 4,
Extensibility).

A report names a sketch (its key, 4 bytes) and an element (its data, 1 to 64 bytes: a flow, an address). The
upper `precision` bits of the element's hash choose one of ``2^precision`` registers; the rank is the number
of leading zeros of the rest, plus 1, at most 32. HyperLogLog keeps the highest rank of every register. RDMA
has no maximum operation, only writes and additions, so a register is 32 bytes here, one for each rank, and an
element writes a 1 into the byte of its rank: its value is the position of the last nonzero byte. Such a write
may arrive twice, late or in any order without harm, and several translators may write a sketch.

The translator caches every register's value, and sends only writes that raise it. If a write is lost
(unreliable transport), the register stays lower until a higher rank arrives.

With several collectors, sketch s is at collector s mod collectors. Opcode 16, in DTA's form with lengths.
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
from ..primitive import Primitive, Writer, WriterStart, register
from ..stores import params as at
from ..stores.answers import QueryOptions, Status
from ..stores.store import Layout, Store, StoreError

RANKS = 32


@dataclass(frozen=True, kw_only=True)
class CardinalityLayout(Layout):
    """`sketches` of 2^precision registers of 32 bytes."""

    opcode: ClassVar[int] = 16
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "cardinality"
    counted: ClassVar[str] = "sketches"
    own: ClassVar = {at.SLOTS: "sketches", at.VARIANT: "precision"}

    sketches: int
    precision: int = 11
    """Bits of the hash that choose a register: the standard error is 1.04 / sqrt(2^precision)."""

    def __post_init__(self) -> None:
        self._within(sketches=(1, 1 << 32), precision=(4, 18))

    @property
    def registers(self) -> int:
        """Registers of one sketch."""
        return 1 << self.precision

    @property
    def stride(self) -> int:
        """Bytes of a sketch."""
        return self.registers * RANKS


class CardinalityWriter(Writer):
    """Turns elements into writes, and filters those that change nothing."""

    def __init__(self, layout: CardinalityLayout, targets: Sequence[int]) -> None:
        from ...base.kernels.jit import readonly

        self.layout = layout
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._highest = np.zeros(layout.sketches * layout.registers, np.uint8)
        self._counters = np.zeros(2, np.uint64)

    def room(self, reports: int) -> tuple[int, int]:
        """One write for every report, all of the same byte."""
        return reports, 1

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """Append a write for every element that raises a register."""
        from ...base.kernels.jit import readonly
        from .cardinality_kernel import write

        write(
            reports, readonly(rows), readonly(arena), self._params, self._targets, self._highest,
            self._counters, out.verbs, out.payload, out.fill,
        )  # fmt: skip

    def begin(self, which: int, start: WriterStart) -> None:
        """Load the registers from memory; if it cannot be read, all writes are sent again."""
        from ...base.kernels.jit import readonly
        from .cardinality_kernel import read

        registers = self._highest.reshape(self.layout.sketches, -1)
        for sketch in range(which, self.layout.sketches, len(self._targets)):
            if start.memory is None:
                registers[sketch] = 0
            else:
                read(readonly(start.memory), np.uint64(sketch * self.layout.registers), registers[sketch])

    @property
    def counters(self) -> dict[str, int]:
        """Writes sent, and writes filtered because they would change nothing."""
        return dict(zip(("sent", "filtered"), self._counters.tolist(), strict=True))


def registers(store: Store, sketch: int) -> npt.NDArray[np.uint8]:
    """Registers of a sketch, uint8 [2^precision]; a union has the maxima of registers. Raises StoreError."""
    from ...base.kernels.jit import readonly
    from .cardinality_kernel import read

    layout = store.layout
    assert isinstance(layout, CardinalityLayout)
    if not 0 <= sketch < layout.sketches:
        raise StoreError(f"sketch {sketch}: the store has sketches 0 to {layout.sketches - 1}")
    values = np.zeros(layout.registers, np.uint8)
    read(readonly(store.memory), np.uint64(sketch * layout.registers), values)
    return values


def estimate(values: npt.NDArray[np.uint8]) -> tuple[float, float]:
    """Estimated number of distinct elements, and its standard error.

    Ertl's improved raw estimator (New cardinality estimation algorithms for HyperLogLog sketches, 2017,
    algorithm 6): unbiased from the first element on, where the classic estimator needs linear counting.
    Raises StoreError if all registers are at their maximum, which only a faulty or hostile writer causes.
    """
    count = len(values)
    histogram = np.bincount(np.minimum(values, RANKS), minlength=RANKS + 1).tolist()
    if histogram[RANKS] == count:
        raise StoreError("all registers of the sketch are at their maximum: it has no estimate")
    z = count * _tau(1 - histogram[RANKS] / count)
    for rank in range(RANKS - 1, 0, -1):
        z = (z + histogram[rank]) / 2
    z += count * _sigma(histogram[0] / count)
    found = count * count / (2 * math.log(2) * z)
    return found, 1.04 / math.sqrt(count) * found


def _sigma(x: float) -> float:
    """Sum of x^(2^k) 2^(k-1), k = 1, 2, …, and x: x is the share of registers that are still 0."""
    if x == 1:
        return math.inf
    total, weight, before = x, 1.0, -1.0
    while total != before:
        before = total
        x *= x
        total += x * weight
        weight *= 2
    return total


def _tau(x: float) -> float:
    """(1 - x - sum of (1 - x^(2^-k))^2 2^-k) / 3, k = 1, 2, …: x is the share below the highest rank."""
    if x in (0, 1):
        return 0.0
    total, weight, before = 1 - x, 1.0, -1.0
    while total != before:
        before = total
        x = math.sqrt(x)
        weight /= 2
        total -= (1 - x) ** 2 * weight
    return total / 3


def _answers(store: Store, keys: npt.NDArray[np.uint8], options: QueryOptions) -> list[dict[str, Any]]:
    """Estimates of sketches; keys are sketch numbers."""
    answers: list[dict[str, Any]] = []
    for key in keys:
        try:
            values = registers(store, int.from_bytes(key.tobytes()))
            found, deviation = estimate(values)
        except StoreError as error:
            answers.append({"status": Status.EMPTY.label, "reason": str(error)})
            continue
        status = Status.FOUND if values.any() else Status.EMPTY
        answers.append({"status": status.label, "estimate": round(found), "error": round(deviation, 1)})
    return answers


register(Primitive(CardinalityLayout, CardinalityWriter, _answers))
