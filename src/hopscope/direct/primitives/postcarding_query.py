"""Paths by key, out of Postcarding's chunks (DTA 4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..hashing import tables
from ..stores.answers import Status
from ..stores.store import Store, StoreError
from .postcarding_layout import PostcardingLayout

BLANK = 0xFFFFFFFF
"""A hop without value."""


class Values:
    """The values that hops can have (V), and the table from g(v) to v: made once for many queries.

    uint32 [any]; raises StoreError where the blank is among them.
    """

    def __init__(self, values: npt.ArrayLike, layout: PostcardingLayout) -> None:
        from ...base.jit import readonly
        from .postcarding_query_kernel import fill_values

        distinct = np.unique(np.asarray(values, np.uint32))
        if len(distinct) and distinct[-1] == BLANK:
            raise StoreError(f"{BLANK:#x} is the blank, and no value")
        self.count = len(distinct)
        self.layout = layout
        table = np.zeros(2 * (1 << (2 * len(distinct) + 2).bit_length()), np.uint64)
        self.shared = int(
            fill_values(
                readonly(distinct), np.uint64(layout.hashing), readonly(tables(layout.hashing)),
                np.uint64(layout.checksum_bits), table,
            )
        )  # fmt: skip
        """Values whose g is that of another one: none from 32 bits on."""
        self.table = readonly(table)


class Why(IntEnum):
    """Why a path is not told."""

    FOUND = 0
    NO_CHUNK = 1
    """No chunk holds values for this key: never written, or overwritten."""
    HOLES = 2
    """A chunk holds this key's values, but not from its first hop on without a gap: postcards are missing."""
    DISAGREE = 3
    """Valid chunks hold different paths."""
    AMBIGUOUS = 4
    """A word stands for several values, or a value and the blank."""

    @property
    def label(self) -> str:
        """Lower case, as printed."""
        return self.name.lower().replace("_", " ")


@dataclass(slots=True)
class Paths:
    """Answers to a batch of keys, row by row."""

    status: npt.NDArray[np.uint8]
    """`Status`, uint8 [keys]."""
    why: npt.NDArray[np.uint8]
    """`Why`, uint8 [keys]."""
    length: npt.NDArray[np.uint8]
    """Hops of the path, uint8 [keys]; with `partial`: up to the last that is known."""
    path: npt.NDArray[np.uint32]
    """Values by hop, uint32 [keys, hops]; the blank behind the path, and where there is no answer."""
    known: npt.NDArray[np.bool_]
    """Hops that have a value, bool [keys, hops]."""
    votes: npt.NDArray[np.uint8]
    """Chunks that hold the path, uint8 [keys]."""

    def __len__(self) -> int:
        return len(self.status)

    @property
    def found(self) -> npt.NDArray[np.bool_]:
        """Rows with an answer."""
        found: npt.NDArray[np.bool_] = self.status == Status.FOUND
        return found


def query(
    store: Store,
    keys: npt.NDArray[np.uint8],
    *,
    values: Values | npt.ArrayLike,
    copies: int | None = None,
    partial: bool = False,
) -> Paths:
    """Paths of keys, uint8 [keys, bytes of a key]. Raises StoreError.

    A chunk is valid if its words are values of hops 0 to l - 1 and blanks from l on; a path is found if the
    valid chunks hold the same one (DTA 4). It is wrong with at most the probability (12). `copies`: how many
    chunks are looked at, None: all.

    `partial` takes chunks with holes too. That is a weaker answer: it does not say whether the missing hops
    were passed, and a foreign chunk reads as one with the whole ``((V + 1) / 2^b)^B``, of which paths without
    holes are only ``(V + V^2 + ... + V^B) / (V + 1)^B``.
    """
    from ...base.jit import readonly
    from .postcarding_query_kernel import query as run

    layout = store.layout
    assert isinstance(layout, PostcardingLayout)
    keys = np.ascontiguousarray(keys, np.uint8)
    if keys.ndim != 2 or not keys.shape[1]:
        raise StoreError(f"keys of shape {keys.shape}, expected [keys, bytes of a key]")
    copies = layout.copies if copies is None else copies
    if not 1 <= copies <= layout.copies:
        raise StoreError(f"{copies} copies: the store has {layout.copies}")
    if not isinstance(values, Values):
        values = Values(values, layout)
    elif (values.layout.hashing, values.layout.checksum_bits) != (layout.hashing, layout.checksum_bits):
        raise StoreError("the values were prepared for another layout")
    count = len(keys)
    path = np.full((count, layout.hops), BLANK, np.uint32)
    known, votes, kinds = np.zeros(count, np.uint16), np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    run(
        readonly(keys.reshape(-1)), np.uint64(keys.shape[1]), np.uint64(copies), partial,
        readonly(store.memory), readonly(store.params), readonly(store.tables), values.table,
        np.zeros(layout.hops, np.uint32), path.reshape(-1), known, votes, kinds,
    )  # fmt: skip
    why = _why(kinds, votes)
    status = np.where(why == Why.FOUND, Status.FOUND, Status.CONFLICT)
    status[(why == Why.NO_CHUNK) | (why == Why.HOLES)] = Status.EMPTY
    answered = why == Why.FOUND
    path[~answered], known[~answered], votes[~answered] = BLANK, 0, 0
    bits = (known[:, None] >> np.arange(layout.hops, dtype=np.uint16)) & 1 == 1
    length = np.where(bits, np.arange(1, layout.hops + 1), 0).max(axis=1, initial=0)
    return Paths(status.astype(np.uint8), why, length.astype(np.uint8), path, bits, votes)


def _why(kinds: npt.NDArray[np.uint8], votes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """`Why` of every key, by the kinds of chunks that were seen."""
    holes, unsure, differ = kinds & 4 != 0, kinds & 8 != 0, kinds & 16 != 0
    return np.select(
        [differ | (unsure & (votes > 0)), votes > 0, unsure, holes],
        [Why.DISAGREE, Why.FOUND, Why.AMBIGUOUS, Why.HOLES],
        Why.NO_CHUNK,
    ).astype(np.uint8)
