"""Memory of Append (DTA 4, A.3): lists, each a ring of batches.

A store is `lists` rings of `batches` slots. A slot holds one batch, all numbers little-endian:

=============== ======================================================================================
offset          content
=============== ======================================================================================
0               stamp, 4 bytes: bit 31 set, below it the lower 31 bits of the batch's number in its list
4               entries that the list had before this batch, lower 32 bits
8               entries in this batch, 1 byte: less than `batch` if it was sent before it was full
9               generation, 3 bytes
12              `batch` entries of `data_bytes`; bytes after the last entry have no meaning
slot bytes - 4  the stamp again; a slot takes a multiple of 8 bytes
=============== ======================================================================================

Batch n of a list is in slot ``n mod batches`` (a power of two). A slot is one write, copied from its lowest
address to its highest. A reader that finds the same stamp at the end before copying, and at the start after
copying, has the entries of one batch: the end is written last, so this batch was complete, and the start is
written first, so the next batch had not begun. 31 bits distinguish 2^30 batches ahead from as many behind.

A translator continues its lists after their ends, which it reads from memory, or which a NIC sends to it when
it connects. An empty list starts a generation with batch 0. The generation in slot 0 is thus always the
newest, and slots of another generation are old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ..stores import params as at
from ..stores.store import Layout, StoreError

MAX_LISTS = 131_072
MAX_BATCH = 16
"""Most entries of one write."""
LIST_END = np.dtype(
    [
        ("list", "<u4"),
        ("batch", "<u4"),  # number of the next batch
        ("entries", "<u4"),  # entries before it, lower 32 bits
        ("generation", "<u4"),
    ]
)
"""The end of a list, 16 bytes: the state that a writer needs to continue it."""
HEAD_BYTES = 12
"""Bytes before the entries of a slot."""


@dataclass(frozen=True, kw_only=True)
class AppendLayout(Layout):
    """`lists` rings of `batches` slots."""

    opcode: ClassVar[int] = 2
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "append"
    counted: ClassVar[str] = "batches"
    own: ClassVar = {
        at.SLOTS: "lists",
        at.BATCH: "batch",
        at.BATCHES: "batches",
        at.DATA_BYTES: "data_bytes",
    }

    batches: int
    """Slots of a list's ring: a power of two."""
    lists: int = 1
    data_bytes: int = 4
    """Bytes of an entry."""
    batch: int = 16
    """Entries per write."""

    def __post_init__(self) -> None:
        self._within(
            batches=(1, 1 << 30),
            lists=(1, MAX_LISTS),
            data_bytes=(1, 64),
            batch=(1, MAX_BATCH),
            collectors=(1, 1 << 16),
        )
        if self.batches & (self.batches - 1):
            raise ValueError(f"batches is {self.batches}, expected a power of two")

    @classmethod
    def sized(cls, nbytes: int, **fields: Any) -> Self:
        """Rings of the largest power of two of batches; see `Layout.sized`."""
        smallest = cls(**{**fields, "batches": 1}).nbytes
        if nbytes < smallest:
            raise StoreError(f"{nbytes:,} bytes, expected at least {smallest:,} for one batch of every list")
        return cls(**{**fields, "batches": min(1 << ((nbytes // smallest).bit_length() - 1), 1 << 30)})

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot."""
        return -(-(HEAD_BYTES + self.batch * self.data_bytes + 4) // 8) * 8

    @property
    def stride(self) -> int:
        """Bytes of a list."""
        return self.batches * self.slot_bytes
