"""Readers of Append's lists (DTA A.3): each has its own tail, and counts entries that it was too slow to
read.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..stores.store import Store, StoreError
from .append_layout import MAX_BATCH, AppendLayout

TAIL = np.dtype(
    [
        ("lost", "<u8"),  # entries that were overwritten before they were read
        ("list", "<u4"),
        ("number", "<u4"),  # of the next batch
        ("entries", "<u4"),  # entries of the list before it
        ("generation", "<u4"),
        ("restarts", "<u4"),  # new generations seen; unread entries of the previous one are not in `lost`
        ("idle", "<u4"),  # polls without entries: every 16th looks for a gap
    ]
)
"""Position of a reader in one list, 32 bytes."""
_EMPTY = 0xFFFFFFFF
"""Generation of a list that has none yet; others have 24 bits."""
_NUMBERS = 0x7FFFFFFF
"""Batches are numbered modulo 2^31."""
Start = Literal["new", "oldest"] | int


class ListsReader:
    """Polls many lists of a store, which may be written concurrently.

    Raises StoreError for an unknown list. `start`: "new" for entries from now on, "oldest" for all available,
    or a number of batches before now. A store that a new epoch has replaced no longer changes: attach the new
    one (`store.region.is_current()`).
    """

    def __init__(self, store: Store, lists: npt.ArrayLike, start: Start = "new") -> None:
        from ...base.kernels.jit import readonly
        from .append_read_kernel import start_tails

        layout = store.layout
        if not isinstance(layout, AppendLayout):
            raise StoreError(f"a store of {layout.name}, expected one of {AppendLayout.name}")
        try:
            numbers = np.atleast_1d(np.asarray(lists, np.int64))
        except OverflowError:
            raise StoreError(
                f"found a number of more than 64 bits, the store has lists 0 to {layout.lists - 1}"
            ) from None
        if len(wrong := numbers[(numbers < 0) | (numbers >= layout.lists)]):
            raise StoreError(f"list {wrong[0]}: the store has lists 0 to {layout.lists - 1}")
        self.store = store
        self.layout = layout
        self.tails = np.zeros(len(numbers), TAIL)
        """TAIL [lists], in the order of `lists`."""
        self.tails["list"] = numbers
        self._memory, self._params = readonly(store.memory), readonly(store.params)
        self._turn = np.uint64(0)
        back = {"new": 0, "oldest": layout.batches}[start] if isinstance(start, str) else start
        start_tails(self.tails, np.uint64(back), self._memory, self._params)

    def poll(self, limit: int = 4096) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
        """New entries: their lists, uint32 [entries], and data, uint8 [entries, data bytes].

        At most `limit`, but whole batches (at least one); the next call starts with lists that found no room.
        No entry is returned twice or torn.
        """
        from .append_read_kernel import poll

        limit = max(limit, self.layout.batch)
        lists, data = np.empty(limit, np.uint32), np.empty(limit * self.layout.data_bytes, np.uint8)
        if not len(self.tails):
            return lists[:0], data.reshape(limit, -1)[:0]
        count, turn = poll(self.tails, self._turn, self._memory, self._params, data, lists)
        self._turn = np.uint64(turn)
        return lists[:count], data.reshape(limit, -1)[:count]

    @property
    def lost(self) -> npt.NDArray[np.uint64]:
        """Entries of each list that were overwritten before they were read, uint64 [lists]."""
        return self.tails["lost"]


class ListReader:
    """Polls one list, from `place` on if given."""

    def __init__(self, store: Store, number: int, start: Start = "new", place: str | None = None) -> None:
        self._reader = ListsReader(store, [number], start)
        self._skip = 0  # entries of the next batch that have been read already
        if place is not None:
            tail = self._reader.tails[0]
            tail["number"], tail["entries"], tail["generation"], self._skip = _parse_place(place)

    def read(self, limit: int = 4096) -> tuple[npt.NDArray[np.uint8], int]:
        """At most `limit` new entries, uint8 [entries, data bytes], and the number of entries lost before or
        among them.
        """
        tail = self._reader.tails[0]
        parts: list[npt.NDArray[np.uint8]] = []
        before, room = int(tail["lost"]), limit
        while room or not parts:
            passed, generation = int(tail["lost"]), int(tail["generation"])
            _, entries = self._reader.poll(room)
            fresh = entries
            if self._skip and len(entries):
                if int(tail["lost"]) > passed:  # the rest of the batch was overwritten
                    tail["lost"] -= np.uint64(min(self._skip, int(tail["lost"]) - passed))
                elif int(tail["generation"]) == generation:
                    fresh = entries[self._skip :]
                self._skip = 0
            parts.append(fresh[:room])
            if len(fresh) > room:
                self._return(len(entries), len(entries) - len(fresh) + room)
            room -= len(parts[-1])
            if not len(entries):
                break
        return np.concatenate(parts), int(tail["lost"]) - before

    def _return(self, entries: int, read: int) -> None:
        """Go back to before the last batch of `entries` entries, of which `read` have been read."""
        tail = self._reader.tails[0]
        tail["number"] = (int(tail["number"]) - 1) & _NUMBERS
        tail["entries"] = (int(tail["entries"]) - entries) & 0xFFFFFFFF
        self._skip = read

    @property
    def place(self) -> str:
        """Position in the list, with which another reader can continue."""
        tail = self._reader.tails[0]
        numbers = [int(tail[name]) for name in ("number", "entries", "generation")]
        return "-".join(map(str, [*numbers, self._skip] if self._skip else numbers))

    @property
    def restarts(self) -> int:
        """Number of new generations seen."""
        return int(self._reader.tails["restarts"][0])


def generation_of(store: Store, number: int) -> int:
    """The generation of a list. Raises StoreError."""
    return int(ListsReader(store, [number]).tails["generation"][0])


def generation_of_place(place: str) -> int:
    """The generation of the list in a `place`. Raises StoreError."""
    return _parse_place(place)[2]


def _parse_place(text: str) -> tuple[int, ...]:
    """Parse a `place`: batch, entries before it, generation, and entries of the batch already read. A made-up
    place does no harm. Raises StoreError.
    """
    numbers = tuple(int(part) if part.isascii() and part.isdecimal() else -1 for part in text.split("-"))
    numbers = (*numbers, 0) if len(numbers) == 3 else numbers
    if (
        len(numbers) != 4
        or not all(0 <= number < 1 << 32 for number in numbers)
        or 1 << 24 <= numbers[2] < _EMPTY
        or numbers[3] > MAX_BATCH
    ):
        raise StoreError(f"found {text[:40]!r}, expected the `next` of an earlier answer")
    return numbers
