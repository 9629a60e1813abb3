"""DTA reports in memory, as UDP payloads, and what takes them in: shared by cases of direct_primitives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from hopscope.direct.stores.store import WRITES, Layout, Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.records import FRAME, FrameBatch, Link, Records

BATCH = 4096
BATCHES = 64
"""Batches of a round; their content is drawn again before it, untimed, so that a store is met everywhere."""

KEY_WRITE = np.dtype(
    [("opcode", "u1"), ("flags", "u1"), ("redundancy", "u1"), ("key", ">u4"), ("data", ">u4")]
)
"""DTA with the base header of 2 bytes, as published: one row is one UDP payload."""
KEY_INCREMENT = np.dtype(
    [("opcode", "u1"), ("flags", "u1"), ("redundancy", "u1"), ("key", ">u4"), ("counter", ">u8")]
)
Draw = Callable[[Records, np.random.Generator], None]
"""Fills the rows of a round."""


class Work(Protocol):
    """One case: what is done in a round, and how many of what that was."""

    unit: str

    def renew(self) -> None:
        """Prepare a round, untimed."""

    def run(self) -> int:
        """One round, timed; how many units."""

    def writes(self) -> tuple[float, float] | None:
        """Memory writes of all rounds so far, and their bytes; None where nothing is written."""


class Feed:
    """Batches of UDP payloads of one dtype; `draw` fills them before each round.

    They share their FRAME rows, as the batches of a listener do: rows of their own for each would come from
    beyond the caches (parsing 11 ns a report, not 4.5).
    """

    def __init__(self, dtype: np.dtype[np.void], draw: Draw, batches: int = BATCHES) -> None:
        self.rows: Records = np.zeros(batches * BATCH, dtype)
        self._draw = draw
        self._random = np.random.default_rng(1)
        arena = self.rows.view(np.uint8)
        frames = np.zeros(BATCH, FRAME)
        frames["offset"] = np.arange(BATCH) * dtype.itemsize
        frames["length"] = frames["wire_length"] = dtype.itemsize
        frames["link"] = Link.UDP_PAYLOAD
        size = BATCH * dtype.itemsize
        self.batches = [
            FrameBatch(arena[number * size : (number + 1) * size], frames, number * BATCH)
            for number in range(batches)
        ]

    def renew(self) -> None:
        """Draw the next round."""
        self._draw(self.rows, self._random)


class Collecting:
    """DTA frames through parser and `take`, a batch at a time; `counted` says what has been written."""

    unit = "reports/s"

    def __init__(
        self,
        feed: Feed,
        take: Callable[[Records, npt.NDArray[np.uint8]], object],
        counted: Callable[[], tuple[float, float]],
        form: Form = Form.TWO,
    ) -> None:
        self._feed, self._take, self.writes = feed, take, counted
        self._parser = DtaParser(form, BATCH)
        self.renew = feed.renew

    def run(self) -> int:
        """All batches once."""
        for batch in self._feed.batches:
            self._take(self._parser.parse(batch), batch.arena)
        return len(self._feed.rows)


def translating(
    feed: Feed,
    layout: Layout,
    written: Callable[[Store], float] | None = None,
    form: Form = Form.TWO,
) -> Collecting:
    """DTA frames through parser and translator into a private store of this layout.

    `written`: bytes that its writes had so far; None: each wrote one slot.
    """
    store = Store.create(None, layout)
    touch(store.memory)
    translator = Translator([layout], MemoryTransport([store]))

    def counted() -> tuple[float, float]:
        writes = float(store.state[WRITES])
        return writes, written(store) if written else writes * layout.stride

    return Collecting(feed, translator.translate, counted, form)


def touch(memory: npt.NDArray[np.uint8]) -> None:
    """Have every page, so that no round waits for one."""
    memory[::4096] = 0


def writes_per(work: Work, units: int) -> str:
    """Memory writes per unit, for a note."""
    counted = work.writes()
    if counted is None:
        return ""
    return f", {counted[0] / units:.3g} writes of {counted[1] / max(counted[0], 1):.3g} B each"


def uniform(keys: int, **constant: int) -> Draw:
    """Keys drawn from so many, random data, other fields as given."""

    def draw(rows: Records, random: np.random.Generator) -> None:
        for name in rows.dtype.names or ():
            if name == "key":
                rows["key"] = random.integers(keys, size=len(rows), dtype=np.uint32)
            elif name in constant:
                rows[name] = constant[name]
            else:
                rows[name] = random.integers(256, size=len(rows), dtype=np.uint8)

    return draw


Cases = Sequence[tuple[dict[str, object], Callable[[], Work]]]
"""What tells a case from others, and how it is made."""
