"""The translator (DTA 5.2): DTA reports in, memory operations out, at one or several collectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...rdma.records import VerbBlock
from ...wire.reasons import DtaReason
from ...wire.records import FRAME, Records
from ..hashing import Hashing, tables
from ..primitive import Writer, WriterStart, load
from ..stores.store import Layout
from ..transport import Transport
from .fanout import Fanout
from .rate import TokenBucket
from .routes import OPCODES, Route, compile_routes, routes_of

FLUSH = 1024
"""Reports per call of `Writer.flush`."""
_NO_FRAMES: Records = np.zeros(0, FRAME)


class ReportObserver(Protocol):
    """Observes the written reports of one primitive."""

    def observe(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], now_ns: int
    ) -> None:
        """Process `rows` of the DTA records, whose keys and data are in `arena`; some may have a reason."""


class Translator:
    """Translates batches of DTA reports for the stores of one transport, or of one transport per collector.

    `layouts` are the stores of every collector in the order of their targets; `routes` default to
    `routes_of(layouts)`. The translator makes the copies that a report's redundancy requests. Raises
    RouteError.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        transport: Transport | Sequence[Transport | None],
        *,
        routes: Sequence[Route] | None = None,
        limit: TokenBucket | None = None,
    ) -> None:
        from ...base.kernels.jit import readonly
        from . import translator_kernel

        self._kernel, self._readonly = translator_kernel, readonly  # an import per batch costs 0.4 us
        transports = list(transport) if isinstance(transport, Sequence) else [transport]
        count = len(transports)
        table = compile_routes(routes_of(layouts, count) if routes is None else routes, count)
        self.rules = table.rules
        """All routes."""
        self.routes = table.lanes
        """One route of each store, by lane; each store has a writer."""
        self.fanout = Fanout(transports, table.lanes)
        """Distributes verbs to collectors."""
        primitives = load()
        self.writers: tuple[Writer, ...] = tuple(
            primitives[route.layout.opcode].writer(route.layout, self.fanout.targets_of(route))
            for route in table.lanes
        )
        """Writers by lane."""
        self.limit = limit
        self.observers: dict[int, ReportObserver] = {}
        """Observers by opcode."""
        self.make_room: Callable[[], bool] | None = None
        """Called to drain a busy transport; False: waiting is useless, and reports must be rejected."""
        self.rejected = np.zeros(len(DtaReason), np.uint64)
        """Rejected reports, by `DtaReason`; translated reports at NONE."""
        self.translated = np.zeros(OPCODES, np.uint64)
        """Translated reports by opcode."""
        self._block = VerbBlock.of(0, 0)
        self._routes, self._first, self._shares = map(readonly, (table.routes, table.first, table.shares))
        self._plain, self._crc = readonly(table.plain), readonly(tables(Hashing.CRC))
        self._look = readonly(np.full_like(table.plain, 0xFFFFFFFF))
        self._counts = np.zeros(len(self.routes), np.uint64)
        self._grow(4096)

    def translate(
        self,
        reports: Records,
        arena: npt.NDArray[np.uint8],
        frames: Records = _NO_FRAMES,
        now_ns: int = 0,
    ) -> None:
        """Translate DTA records over their arena; rejected rows get their reason.

        `frames` (row by row with the reports) are needed for routes by address and port; `now_ns` is
        monotonic, for the rate limit and the observers.
        """
        if self.limit is not None:
            self._hold_back(reports, self.limit, now_ns)
        self._spread(reports, arena, frames, now_ns)
        self._kernel.tally(reports, self.rejected, self.translated)

    def insert(self, reports: Records, arena: npt.NDArray[np.uint8], now_ns: int = 0) -> int:
        """Write internal reports, neither counted nor limited nor acknowledged. Returns the number
        written.
        """
        self._spread(reports, arena, _NO_FRAMES, now_ns)
        return len(reports) - int(np.count_nonzero(reports["reason"]))

    def _spread(self, reports: Records, arena: npt.NDArray[np.uint8], frames: Records, now_ns: int) -> None:
        """Give every report to its writer."""
        if len(reports) > len(self._lanes):
            self._grow(len(reports))
        arena, fanout = self._readonly(arena), self.fanout
        whole = self._kernel.partition(
            reports, self._readonly(frames), arena, self._routes, self._first,
            self._look if fanout.any_down else self._plain, self._shares, fanout.down, self._crc,
            self._lanes, self._counts, self._order,
        )  # fmt: skip
        if whole >= 0:
            self._give(whole, reports, self._all[: len(reports)], arena, now_ns)
        else:
            at = 0
            for lane, count in enumerate(self._counts.tolist()):
                if count:
                    self._give(lane, reports, self._ordered[at : at + count], arena, now_ns)
                    at += count

    def flush(self, now_ns: int | None = None) -> bool:
        """Write the content of caches and batches; with a time, only idle entries.

        False if collectors have no room now: call again for the rest.
        """
        done = True
        for lane, writer in enumerate(self.writers):
            more = True
            while more:
                fit = _fitting(writer, FLUSH, self.fanout.room(lane))
                if not fit:
                    done = False
                    break
                more = writer.flush(self._room(*writer.room(fit)), now_ns)
                self._send()
        return done

    def begin(self, memories: Sequence[Sequence[npt.NDArray[np.uint8] | None]], generation: int) -> None:
        """Use these memories of the stores from now on, by collector and target; see `Writer.begin`."""
        for route, writer in zip(self.routes, self.writers, strict=True):
            for which, (collector, target) in enumerate(route.at):
                writer.begin(which, WriterStart(generation, memories[collector][target]))

    def continue_counters(self, other: Translator) -> None:
        """Continue the counters of the translator that this one replaces, perhaps within a batch."""
        self.rejected, self.translated = other.rejected, other.translated
        self.fanout.continue_counters(other.fanout)

    def _give(
        self,
        lane: int,
        reports: Records,
        rows: npt.NDArray[np.uint32],
        arena: npt.NDArray[np.uint8],
        now_ns: int,
    ) -> None:
        """Give rows to one writer, as many as its collectors have room for."""
        writer, observer = self.writers[lane], self.observers.get(self.routes[lane].layout.opcode)
        while len(rows):
            free, fit = self.fanout.room(lane), len(rows)
            verbs, payload = writer.room(fit)
            if verbs > free:
                fit = _fitting(writer, fit, free)
                verbs, payload = writer.room(fit)
            if fit:
                now, rows = (rows, rows[:0]) if fit == len(rows) else (rows[:fit], rows[fit:])
                writer.write(reports, now, arena, self._room(verbs, payload))
                self._send()
                if observer is not None:
                    observer.observe(reports, now, arena, now_ns)
            if len(rows) and (self.make_room is None or not self.make_room()):
                reports["reason"][rows] = DtaReason.CONGESTED
                return

    def _hold_back(self, reports: Records, limit: TokenBucket, now_ns: int) -> None:
        """Reject reports beyond the rate limit."""
        from .translator_kernel import reject

        asking = len(reports) - int(np.count_nonzero(reports["reason"]))
        allowed = limit.take(asking, now_ns)
        if allowed < asking:
            reject(reports, np.uint64(allowed), np.uint64(DtaReason.RATE_LIMITED))

    def _room(self, verbs: int, payload: int) -> VerbBlock:
        if len(self._block.verbs) < verbs or len(self._block.payload) < payload:
            self._block = VerbBlock.of(verbs, payload)
        return self._block

    def _send(self) -> None:
        if len(self._block):
            self.fanout.submit(self._block)
        self._block.clear()

    def _grow(self, rows: int) -> None:
        from ...base.kernels.jit import readonly

        self._lanes = np.zeros(rows, np.uint32)
        self._order = np.zeros(rows, np.uint32)
        self._ordered = readonly(self._order)
        self._all = readonly(np.arange(rows, dtype=np.uint32))


def _fitting(writer: Writer, reports: int, verbs: int) -> int:
    """The largest number of reports, up to `reports`, whose verbs are certain to fit."""
    low, high = 0, reports
    while low < high:
        middle = (low + high + 1) // 2
        if writer.room(middle)[0] <= verbs:
            low = middle
        else:
            high = middle - 1
    return low
