"""Postcarding (DTA 4, 5.2, A.2): the translator's cache of postcards, which become chunks.

`postcarding_layout` describes the memory, `postcarding_query` reads it.

The cache is direct-mapped by the key's hash. A row is written

* when it has all hops of a chunk, or as many as a postcard's path length (complete);
* when another key takes its row (early: hops are missing; if they arrive later, they are written alone and
  overwrite the chunk);
* when no postcard has arrived for `idle_ns` (aged);
* when everything is flushed.

A second postcard of a hop replaces the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...memory.huge_pages import huge_zeros
from ...rdma.records import VerbBlock
from ...wire.records import Records
from ..hashing import Hashing, tables
from ..primitive import Primitive, Writer, register
from ..stores.answers import QueryOptions, Status
from ..stores.store import Store, StoreError
from ..translation.ticks import Ticks
from .postcarding_layout import PostcardingLayout
from .postcarding_query import Paths, PathVerdict, Values, query

__all__ = ["PathVerdict", "Paths", "PostcardingLayout", "PostcardingWriter", "Values", "query"]

CACHE_ROWS = 1 << 15
"""Rows of the cache (DTA 5.2)."""
IDLE_NS = 1_000_000_000
BLOCK = 64
"""Postcards per pass."""


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
        from ...base.kernels.jit import readonly
        from . import postcarding_kernel as kernel

        if rows < 1 or rows & (rows - 1):
            raise ValueError(f"rows is {rows}, expected a power of two")
        self._kernel, self._readonly = kernel, readonly  # importing them for each batch costs 0.4 us
        self.layout = layout
        self.idle_ns = idle_ns
        """`flush(out, now_ns)` writes rows without a postcard for this long."""
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))
        self._width = 1 << (1 + layout.hops).bit_length()
        self._cache = huge_zeros(rows * self._width, np.uint64)
        crc = layout.hashing is Hashing.CRC
        self._keys = huge_zeros(rows * kernel.KEY_ROOM, np.uint8) if crc else np.zeros(1, np.uint8)
        lengths = np.arange(layout.hops + 1)
        self._wholes = readonly(
            (1 << np.where(lengths, lengths, layout.hops)).astype(np.uint64) - np.uint64(1)
        )
        self._block = (
            np.zeros(BLOCK, np.uint64), np.zeros(BLOCK, np.uint64), np.zeros(BLOCK, np.uint32),
            np.zeros(BLOCK + 1, np.uint32),
        )  # fmt: skip
        self._state = np.zeros(8, np.uint64)
        self._ticks = Ticks()
        self._swept = 0

    def room(self, reports: int) -> tuple[int, int]:
        """A postcard may evict another key's row and complete its own, but only existing rows are written."""
        chunks = min(2 * reports, reports + self._state.item(self._kernel.WAITING))
        return chunks * self.layout.copies, chunks * self.layout.chunk_bytes + 8

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """Append the chunks that these postcards complete or evict."""
        self._kernel.write(
            reports, self._readonly(rows), self._readonly(arena), self._params, self._tables, self._targets,
            self._cache, self._keys, np.uint64(self._width), self._wholes, *self._block, self._state,
            out.verbs, out.payload, out.fill,
        )  # fmt: skip

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """Append the chunks of waiting rows, all or only idle ones; see `Writer.flush`."""
        kernel = self._kernel
        if not self._state[kernel.WAITING]:
            self._ticks.restart()
            self._state[kernel.TICK] = 0
            return False
        before = 1 << 32 if now_ns is None else self._ticks.before(now_ns, self.idle_ns)
        self._state[kernel.TICK] = self._ticks.current
        if not before:
            return False
        rows = len(self._cache) // self._width
        self._swept = int(
            kernel.sweep(
                np.uint64(self._swept), np.uint64(before),
                np.uint64(kernel.FLUSHED if now_ns is None else kernel.AGED),
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
        """Waiting rows, written rows by reason, and postcards that replaced an earlier one."""
        names = ("waiting", "completed", "early", "aged", "flushed", "duplicates")
        return {name: int(self._state[getattr(self._kernel, name.upper())]) for name in names}


def _answers(store: Store, keys: npt.NDArray[np.uint8], options: QueryOptions) -> list[dict[str, Any]]:
    if options.values is None:
        raise StoreError("a path query needs the values that hops can have (--values, value=)")
    answers = query(store, keys, values=options.values, copies=options.copies, partial=options.partial)
    found: list[dict[str, Any]] = []
    for row, status in enumerate(answers.status):
        if status != Status.FOUND:
            found.append({"status": Status(status).label, "reason": PathVerdict(answers.verdict[row]).label})
            continue
        hops = range(int(answers.length[row]))
        path = [int(answers.path[row, hop]) if answers.known[row, hop] else None for hop in hops]
        found.append({"status": "found", "path": path, "hops": len(path), "votes": int(answers.votes[row])})
    return found


register(Primitive(PostcardingLayout, PostcardingWriter, _answers))
