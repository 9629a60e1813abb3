"""Append (DTA 4, 5.2, A.3): the translator's batches and list heads.

`append_layout` describes the memory, `append_reader` reads it.

A batch is written at once when it is full, when its oldest entry has waited for `idle_ns` (aged), and when
everything is flushed (partial). A report with the immediate flag marks its batch, whose write then carries
the list's number as immediate value. With several collectors, list l is at collector l mod collectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...rdma.records import VerbBlock
from ...wire.records import Records
from ..primitive import Primitive, Writer, WriterStart, register
from ..stores.answers import QueryOptions
from ..stores.store import Store, StoreError
from ..translation.ticks import Ticks
from .append_layout import LIST_END, AppendLayout
from .append_reader import ListReader, ListsReader

__all__ = ["AppendLayout", "AppendWriter", "ListReader", "ListsReader"]

IDLE_NS = 100_000_000


class AppendWriter(Writer):
    """Collects entries into batches; each batch is kept as the image of its future slot, head included."""

    def __init__(self, layout: AppendLayout, targets: Sequence[int], *, idle_ns: int = IDLE_NS) -> None:
        from ...base.kernels.jit import readonly
        from . import append_kernel

        self._kernel, self._readonly = append_kernel, readonly
        self.layout = layout
        self.idle_ns = idle_ns
        """`flush(out, now_ns)` writes a batch whose oldest entry has waited for this long."""
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._pending = np.zeros(layout.lists * layout.slot_bytes, np.uint8)
        self._marks = np.zeros(layout.lists, np.uint64)
        self._state = np.zeros(8, np.uint64)
        self._ticks = Ticks()
        self._swept = 0
        for which in range(len(targets)):
            self.begin(which, WriterStart(0))

    def room(self, reports: int) -> tuple[int, int]:
        """One write for every batch that may become full; at least one, so that a flush always progresses."""
        waiting = self._state.item(self._kernel.WAITING)
        verbs = max(1, min(reports, (waiting + reports) // self.layout.batch))
        return verbs, verbs * self.layout.slot_bytes

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """Append the batches that these entries fill."""
        self._kernel.write(
            reports, self._readonly(rows), self._readonly(arena), self._params, self._targets, self._pending,
            self._marks, self._state, out.verbs, out.payload, out.fill,
        )  # fmt: skip

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """Append waiting batches, all or only aged ones; see `Writer.flush`."""
        from .append_kernel import AGED, PARTIAL, TICK, WAITING, sweep

        if not self._state[WAITING]:
            self._ticks.restart()
            self._state[TICK] = 0
            return False
        before = 1 << 32 if now_ns is None else self._ticks.before(now_ns, self.idle_ns)
        self._state[TICK] = self._ticks.current
        if not before:
            return False
        self._swept = int(
            sweep(
                np.uint64(self._swept), np.uint64(before), np.uint64(PARTIAL if now_ns is None else AGED),
                self._params, self._targets, self._pending, self._marks, self._state, out.verbs, out.payload,
                out.fill,
            )
        )  # fmt: skip
        if self._swept < self.layout.lists:
            return True
        self._swept = 0
        self._ticks.forget(before)
        return False

    def begin(self, which: int, start: WriterStart) -> None:
        """Continue the lists of collector `which` after their ends in its memory; start a new generation for
        empty lists.

        Waiting entries stay, and are written to the new memory. If this writer has numbered more entries of a
        list than have arrived, the next batch says so, and readers count them as lost.
        """
        from ...base.kernels.jit import readonly
        from .append_kernel import resume

        whole = len(start.progress) // LIST_END.itemsize * LIST_END.itemsize
        remote = np.frombuffer(start.progress[:whole], LIST_END)
        ends = remote if start.memory is None else list_ends(start.memory, self.layout)
        collectors = len(self._targets)
        mine = ends[(ends["list"] < self.layout.lists) & (ends["list"] % collectors == which)]
        resume(
            readonly(mine), self._params, np.uint64(start.generation), np.uint64(which),
            np.uint64(collectors), self._pending,
        )  # fmt: skip

    @property
    def counters(self) -> dict[str, int]:
        """Waiting entries, and written batches: full, partial (flushed) and aged."""
        from . import append_kernel as kernel

        return {
            name: int(self._state[getattr(kernel, name.upper())])
            for name in ("waiting", "full", "partial", "aged")
        }


def list_ends(memory: npt.NDArray[np.uint8], layout: AppendLayout) -> Records:
    """Ends of the nonempty lists in a memory, LIST_END."""
    from ...base.kernels.jit import readonly
    from .append_kernel import ends

    found: Records = np.zeros(layout.lists, LIST_END)
    return found[: int(ends(readonly(memory), readonly(layout.params()), found))]


def _progress(store: Store) -> bytes:
    assert isinstance(store.layout, AppendLayout)
    return list_ends(store.memory, store.layout).tobytes()


def _answers(store: Store, keys: npt.NDArray[np.uint8], options: QueryOptions) -> list[dict[str, Any]]:
    """The newest entries of lists, oldest first; keys are list numbers."""
    answers: list[dict[str, Any]] = []
    for key in keys:
        number = int.from_bytes(key.tobytes())
        try:
            reader = ListReader(store, number, start=max(options.limit, 1))
        except StoreError as error:
            answers.append({"status": "empty", "reason": str(error)})
            continue
        assert isinstance(store.layout, AppendLayout)
        entries, _ = reader.read(options.limit * store.layout.batch)
        newest = [bytes(entry).hex() for entry in entries[-options.limit :]]
        answers.append({"status": "found" if newest else "empty", "entries": newest})
    return answers


register(Primitive(AppendLayout, AppendWriter, _answers, _progress))
