"""Key-Write (DTA 4, DART 3): a probabilistic key-value store that is only written.

A slot is the key's checksum (`checksum_bits` rounded up to bytes, little-endian) and the reported data. A
report is written into as many slots as it asks for, each chosen by a hash function of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..rdma.records import VerbBlock
from ..wire.records import Records
from . import layout as at
from .answers import Answers, Question, Status
from .hashing import tables
from .primitive import Primitive, Writer, register
from .store import Layout, Store, StoreError


@dataclass(frozen=True, kw_only=True)
class KeyWriteLayout(Layout):
    """`slots` of a checksum and data."""

    opcode: ClassVar[int] = 1
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "key-write"

    slots: int
    data_bytes: int = 4
    checksum_bits: int = 32
    copies: int = 4
    """The most copies of a report, and those that a query looks at by default."""

    def __post_init__(self) -> None:
        for name, low, high in (
            ("slots", 1, 1 << 32),
            ("data_bytes", 1, 64),
            ("checksum_bits", 8, 64),
            ("copies", 1, 16),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}, expected {low} to {high}")

    @property
    def stride(self) -> int:
        """Bytes of a slot."""
        return -(-self.checksum_bits // 8) + self.data_bytes

    @property
    def count(self) -> int:
        """Slots."""
        return self.slots

    def own_params(self) -> dict[int, int]:
        """What a reader needs beside slots and stride."""
        return {
            at.CHECKSUM_BITS: self.checksum_bits,
            at.DATA_BYTES: self.data_bytes,
            at.COPIES: self.copies,
        }

    @classmethod
    def own_fields(cls, params: npt.NDArray[np.uint64]) -> dict[str, Any]:
        """The inverse."""
        return {
            "slots": int(params[at.SLOTS]),
            "data_bytes": int(params[at.DATA_BYTES]),
            "checksum_bits": int(params[at.CHECKSUM_BITS]),
            "copies": int(params[at.COPIES]),
        }


class KeyWriteWriter(Writer):
    """Reports to writes, without state."""

    def __init__(self, layout: KeyWriteLayout, targets: Sequence[int]) -> None:
        from ..jit import readonly

        self.layout = layout
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))

    def room(self, reports: int) -> tuple[int, int]:
        """The most verbs and bytes of payload of so many reports."""
        return reports * self.layout.copies, reports * self.layout.stride

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """One write per copy."""
        from ..jit import readonly
        from .key_write_kernel import write

        write(
            reports, readonly(rows), readonly(arena), self._params, self._tables, self._targets, out.verbs,
            out.payload, out.fill,
        )  # fmt: skip


def query(
    store: Store, keys: npt.NDArray[np.uint8], *, copies: int | None = None, consensus: int = 1
) -> Answers:
    """Answers to keys, uint8 [keys, bytes of a key], by plurality vote.

    `copies`: how many were written, None where that is not known (the layout's most is assumed: unused
    slots look overwritten). `consensus`: how many copies have to agree. Raises StoreError.
    """
    from ..jit import readonly
    from .key_write_kernel import query as run

    layout = store.layout
    assert isinstance(layout, KeyWriteLayout)
    keys = np.ascontiguousarray(keys, np.uint8)
    if keys.ndim != 2 or not keys.shape[1]:
        raise StoreError(f"keys of shape {keys.shape}, expected [keys, bytes of a key]")
    copies = layout.copies if copies is None else copies
    if not 1 <= copies <= layout.copies or not 1 <= consensus <= copies:
        raise StoreError(f"{copies} copies, {consensus} of them to agree: the store has {layout.copies}")
    answers = Answers(
        np.zeros(len(keys), np.uint8),
        np.zeros((len(keys), layout.data_bytes), np.uint8),
        np.zeros(len(keys), np.uint8),
    )
    run(
        readonly(keys.reshape(-1)), np.uint64(keys.shape[1]), np.uint64(copies), np.uint64(consensus),
        readonly(store.memory), readonly(store.params), readonly(store.tables),
        answers.status, answers.data.reshape(-1), answers.votes,
    )  # fmt: skip
    return answers


def _writer(layout: Layout, targets: Sequence[int]) -> KeyWriteWriter:
    assert isinstance(layout, KeyWriteLayout)
    return KeyWriteWriter(layout, targets)


def _tell(store: Store, keys: npt.NDArray[np.uint8], question: Question) -> list[dict[str, Any]]:
    answers = query(store, keys, copies=question.copies, consensus=question.consensus)
    return [
        {"status": "found", "data": bytes(data).hex(), "votes": int(votes)}
        if status == Status.FOUND
        else {"status": Status(status).label}
        for status, data, votes in zip(answers.status, answers.data, answers.votes, strict=True)
    ]


register(Primitive(KeyWriteLayout.name, KeyWriteLayout.opcode, KeyWriteLayout, _writer, _tell))
