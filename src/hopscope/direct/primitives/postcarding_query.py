"""Paths by key, from Postcarding's chunks (DTA 4).

A chunk may be written while it is read, so it is read again until it is unchanged, like a slot of Key-Write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ..hashing import collectors_of, tables
from ..stores.answers import KeyAnswers, Status
from ..stores.store import Store, StoreError, query_arguments
from .postcarding_layout import PostcardingLayout

BLOCK = 2048
"""Keys whose chunks are fetched together."""
TRIES = 8
"""Reads of a chunk that keeps changing, before its key is in conflict."""
BLANK, MISSING = 0xFFFFFFFF, 0xFFFFFFFE
"""Reserved values: for hops after the path, and for hops on the path without a value."""

DIFFER = 16
"""Bit in the kinds of a key's chunks: their paths differ."""


class Values:
    """The values that hops can have (V), uint32, with the table from g(v) to v; made once for many queries.

    Raises StoreError if a reserved value is among them.
    """

    def __init__(self, values: npt.ArrayLike, layout: PostcardingLayout) -> None:
        from ...base.kernels.jit import readonly
        from .postcarding_query_kernel import fill_values

        distinct = np.unique(np.asarray(values, np.uint32))
        if len(distinct) and distinct[-1] >= MISSING:
            raise StoreError(f"{int(distinct[-1]):#x} is reserved: hops without a value have it")
        self.count = len(distinct)
        self.layout = layout
        table = np.zeros(2 * (1 << (2 * len(distinct) + 2).bit_length()), np.uint64)
        self.shared = int(
            fill_values(
                readonly(distinct), np.uint64(layout.hashing), readonly(tables(layout.hashing)),
                np.uint64(layout.checksum_bits), table,
            )
        )  # fmt: skip
        """Number of values that share their g with another value; 0 from 32 bits on."""
        self.table = readonly(table)


class PathVerdict(IntEnum):
    """Outcome of a path query."""

    FOUND = 0
    NO_CHUNK = 1
    """No chunk holds values of this key: never written, or overwritten."""
    HOLES = 2
    """A chunk holds this key's values, but with gaps: postcards are missing."""
    DISAGREE = 3
    """Valid chunks hold different paths, or a chunk kept changing while it was read."""
    AMBIGUOUS = 4
    """A word stands for several values, or for a value and a reserved one."""

    @property
    def label(self) -> str:
        """Lower case, as printed."""
        return self.name.lower().replace("_", " ")


@dataclass(slots=True)
class Paths(KeyAnswers):
    """Answers of Postcarding."""

    verdict: npt.NDArray[np.uint8]
    """`PathVerdict`, uint8 [keys]."""
    length: npt.NDArray[np.uint8]
    """Hops of the path, uint8 [keys]; with `partial`: up to the last hop that is known to be on the path."""
    path: npt.NDArray[np.uint32]
    """Values by hop, uint32 [keys, hops]; blank where none is known."""
    known: npt.NDArray[np.bool_]
    """Hops with a value, bool [keys, hops]."""
    votes: npt.NDArray[np.uint8]
    """Chunks that hold the path, uint8 [keys]."""


def query(
    store: Store | Sequence[Store],
    keys: npt.NDArray[np.uint8],
    *,
    values: Values | npt.ArrayLike,
    copies: int | None = None,
    partial: bool = False,
) -> Paths:
    """Paths of keys, uint8 [keys, bytes of a key]. Raises StoreError.

    A chunk is valid if its words are values of hops 0 to l - 1 and blanks from l on; a path is found if all
    valid chunks hold the same path (DTA 4). It is wrong with at most the probability of equation 12.
    `store`: if keys are spread over collectors, the stores of all of them, in order. `copies`: number of
    chunks to read; None: all.

    `partial` also accepts chunks with holes. This is a weaker answer: if postcards do not give the length,
    missing hops may or may not be on the path, and another key's chunk is accepted with a probability of
    ``((V + 2) / 2^b)^B``, of which paths without holes are only ``(V + V^2 + ... + V^B) / (V + 2)^B``.
    """
    stores, layout, keys, copies = query_arguments(store, PostcardingLayout, keys, copies)
    if not isinstance(values, Values):
        values = Values(values, layout)
    elif (values.layout.hashing, values.layout.checksum_bits) != (layout.hashing, layout.checksum_bits):
        raise StoreError("the values were prepared for another layout")
    count = len(keys)
    path = np.full((count, layout.hops), BLANK, np.uint32)
    known, votes, kinds = np.zeros(count, np.uint16), np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    for first in range(0, count, BLOCK):
        rows = slice(first, first + BLOCK)
        _read(
            stores, layout, keys[rows], copies, partial, values, path[rows], known[rows], votes[rows],
            kinds[rows],
        )  # fmt: skip
    verdict = _verdict(kinds, votes)
    status = np.where(verdict == PathVerdict.FOUND, Status.FOUND, Status.CONFLICT)
    status[(verdict == PathVerdict.NO_CHUNK) | (verdict == PathVerdict.HOLES)] = Status.EMPTY
    answered = verdict == PathVerdict.FOUND
    path[~answered], known[~answered], votes[~answered] = BLANK, 0, 0
    length = np.where(path != BLANK, np.arange(1, layout.hops + 1), 0).max(axis=1, initial=0)
    bits = (known[:, None] >> np.arange(layout.hops, dtype=np.uint16)) & 1 == 1
    path[~bits] = BLANK
    return Paths(status.astype(np.uint8), verdict, length.astype(np.uint8), path, bits, votes)


def _read(
    stores: Sequence[Store],
    layout: PostcardingLayout,
    keys: npt.NDArray[np.uint8],
    copies: int,
    partial: bool,
    values: Values,
    path: npt.NDArray[np.uint32],
    known: npt.NDArray[np.uint16],
    votes: npt.NDArray[np.uint8],
    kinds: npt.NDArray[np.uint8],
) -> None:
    """Read the chunks of a block of keys until none changes."""
    from ...base.kernels.jit import readonly
    from .fetch_kernel import fetch
    from .postcarding_query_kernel import locate
    from .postcarding_query_kernel import query as decode

    count, size = keys.shape
    flat, params, hashes = readonly(keys.reshape(-1)), readonly(stores[0].params), readonly(stores[0].tables)
    memories = [readonly(store.memory) for store in stores]
    owners = collectors_of(params, keys) if len(stores) > 1 else np.zeros(0, np.uint64)
    places = np.empty(count * copies, np.uint64)
    chunks = np.zeros(count * copies * layout.chunk_bytes + 8, np.uint8)
    look = np.ones(count, np.uint8)
    locate(flat, np.uint64(size), np.uint64(copies), memories[0], params, hashes, places)
    for attempt in range(TRIES):
        changed = np.zeros(count, np.uint8)
        for number, memory in enumerate(memories):
            fetch(
                memory, places, owners, np.uint64(number), np.uint64(len(memories)), np.uint64(0),
                np.uint64(layout.chunk_bytes), look, attempt > 0, chunks, changed,
            )  # fmt: skip
        look = changed if attempt else look
        if not look.any():
            return
        decode(
            flat, np.uint64(size), np.uint64(copies), partial, readonly(chunks), look, params, hashes,
            values.table, np.zeros(layout.hops, np.uint32), path.reshape(-1), known, votes, kinds,
        )  # fmt: skip
    kinds[look > 0] = DIFFER


def _verdict(kinds: npt.NDArray[np.uint8], votes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """`PathVerdict` of every key, from the kinds of its chunks."""
    holes, unsure, differ = kinds & 4 != 0, kinds & 8 != 0, kinds & DIFFER != 0
    return np.select(
        [differ | (unsure & (votes > 0)), votes > 0, unsure, holes],
        [PathVerdict.DISAGREE, PathVerdict.FOUND, PathVerdict.AMBIGUOUS, PathVerdict.HOLES],
        PathVerdict.NO_CHUNK,
    ).astype(np.uint8)
