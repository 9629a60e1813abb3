"""Postcarding (DTA 4, 5.2, A.2): the translator's cache of postcards, which become chunks.

The memory is described in `postcarding_layout`, its query in `postcarding_query`.

The cache is direct-mapped by the key's hash. A row goes out when all hops of a chunk, or as many as a
postcard told as path length, are there (complete); when another key takes its row (early: the path has holes,
and where its last hops come later, they go out alone and overwrite it); when no postcard came for some time
(aged), and when everything is flushed. A hop's second postcard replaces the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...rdma.records import VerbBlock
from ...wire.records import Records
from ..hashing import Hashing, tables
from ..primitive import Primitive, Writer, register
from ..stores.answers import Question, Status
from ..stores.store import Layout, Store, StoreError
from ..translation.ticks import Ticks
from .postcarding_layout import PostcardingLayout
from .postcarding_query import Paths, Values, Why, query

__all__ = ["Paths", "PostcardingLayout", "PostcardingWriter", "Values", "Why", "query"]

CACHE_ROWS = 1 << 15
"""Rows of the cache (DTA 5.2)."""
IDLE_NS = 1_000_000_000
BLOCK = 256
"""Postcards of a pass."""


class PostcardingWriter(Writer):
    """The translator's cache of postcards."""

    def __init__(
        self,
        layout: PostcardingLayout,
        targets: Sequence[int],
        *,
        rows: int = CACHE_ROWS,
        idle_ns: int = IDLE_NS,
    ) -> None:
        from ...base.jit import readonly
        from .postcarding_kernel import KEY_ROOM

        if rows < 1 or rows & (rows - 1):
            raise ValueError(f"rows is {rows}, expected a power of two")
        self.layout = layout
        self.idle_ns = idle_ns
        """What had no postcard for so long goes out with `flush(out, now_ns)`."""
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))
        self._width = 1 << (1 + layout.hops).bit_length()
        self._cache = np.zeros(rows * self._width, np.uint64)
        self._hashes = np.zeros(BLOCK, np.uint64)
        self._queue = np.zeros(BLOCK + 1, np.uint32)
        self._keys = np.zeros(rows * KEY_ROOM if layout.hashing is Hashing.CRC else 1, np.uint8)
        self._state = np.zeros(8, np.uint64)
        self._ticks = Ticks()
        self._swept = 0

    def room(self, reports: int) -> tuple[int, int]:
        """A postcard may push another key's row out and complete its own; only rows that are there leave."""
        from .postcarding_kernel import WAITING

        chunks = min(2 * reports, reports + int(self._state[WAITING]))
        return chunks * self.layout.copies, chunks * self.layout.chunk_bytes + 8

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """The chunks that these postcards complete or push out."""
        from ...base.jit import readonly
        from .postcarding_kernel import write

        write(
            reports, readonly(rows), readonly(arena), self._params, self._tables, self._targets, self._cache,
            self._keys, np.uint64(self._width), self._hashes, self._queue, self._state, out.verbs,
            out.payload, out.fill,
        )  # fmt: skip

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """The chunks of rows that wait, or of those that are idle; see `Writer.flush`."""
        from .postcarding_kernel import AGED, FLUSHED, TICK, WAITING, sweep

        if not self._state[WAITING]:
            self._ticks.restart()
            self._state[TICK] = 0
            return False
        before = 1 << 32 if now_ns is None else self._ticks.before(now_ns, self.idle_ns)
        self._state[TICK] = self._ticks.current
        if not before:
            return False
        rows = len(self._cache) // self._width
        self._swept = int(
            sweep(
                np.uint64(self._swept), np.uint64(before), np.uint64(FLUSHED if now_ns is None else AGED),
                self._params, self._tables, self._targets, self._cache, self._keys, np.uint64(self._width),
                self._state, out.verbs, out.payload, out.fill,
            )
        )  # fmt: skip
        if self._swept < rows:
            return True
        self._swept = 0
        self._ticks.forget(before)
        return False

    @property
    def counters(self) -> dict[str, int]:
        """Rows that wait, rows that went out by their reason, and postcards of a hop that had one."""
        from . import postcarding_kernel as kernel

        names = ("waiting", "completed", "early", "aged", "flushed", "duplicates")
        return {name: int(self._state[getattr(kernel, name.upper())]) for name in names}


def _writer(layout: Layout, targets: Sequence[int]) -> PostcardingWriter:
    assert isinstance(layout, PostcardingLayout)
    return PostcardingWriter(layout, targets)


def _tell(store: Store, keys: npt.NDArray[np.uint8], question: Question) -> list[dict[str, Any]]:
    if question.values is None:
        raise StoreError("a path is found by the values that hops can have: give them (--values, value=)")
    answers = query(store, keys, values=question.values, copies=question.copies, partial=question.partial)
    told: list[dict[str, Any]] = []
    for row, status in enumerate(answers.status):
        if status != Status.FOUND:
            told.append({"status": Status(status).label, "why": Why(answers.why[row]).label})
            continue
        hops = range(int(answers.length[row]))
        path = [int(answers.path[row, hop]) if answers.known[row, hop] else None for hop in hops]
        told.append({"status": "found", "path": path, "hops": len(path), "votes": int(answers.votes[row])})
    return told


register(Primitive(PostcardingLayout.name, PostcardingLayout.opcode, PostcardingLayout, _writer, _tell))
