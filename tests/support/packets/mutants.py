"""Mutants of valid frames, as batches: what the fuzzing bench and its test decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import FRAME, MAX_HOPS, Carried, FrameBatch, Link, ReportBatch

from .corpus import Seed


@dataclass(frozen=True, slots=True)
class Difference:
    """What one decoder says and the other does not."""

    frame: bytes
    link: Link
    what: str


class Mutator:
    """Mutants of some frames."""

    def __init__(self, seeds: Sequence[Seed], seed: int = 1) -> None:
        self._arena = np.frombuffer(b"".join(one.raw for one in seeds), np.uint8)
        self._at = np.cumsum([0, *(len(one.raw) for one in seeds)]).astype(np.uint64)
        self._links = np.array([one.link for one in seeds], np.uint64)
        self._starts = np.array([one.start for one in seeds], np.uint64)
        self._seed = np.uint64(seed)
        self._out: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def exact(self) -> FrameBatch:
        """The frames themselves."""
        frames = np.zeros(len(self._links), FRAME)
        frames["offset"], frames["link"] = self._at[:-1], self._links
        frames["length"] = frames["wire_length"] = np.diff(self._at)
        return FrameBatch(self._arena, frames)

    def block(self, first: int, count: int) -> FrameBatch:
        """Mutants number `first` to `first + count`; valid until the next call."""
        from .mutate_kernel import SPAN, mutate

        if len(self._out) < count * SPAN:
            self._out = np.empty(count * SPAN, np.uint8)
        made = np.empty((count, 3), np.uint64)
        mutate(
            self._arena, self._at, self._links, self._starts, self._seed, np.uint64(first), self._out, made,
            np.uint64(count),
        )  # fmt: skip
        frames = np.zeros(count, FRAME)
        frames["offset"], frames["length"], frames["link"] = made.T
        frames["wire_length"] = frames["length"]
        return FrameBatch(self._out[: int(made[-1, :2].sum())], frames)


def decks() -> list[Dialect]:
    """Every dialect, with and without packets."""
    return [replace(dialect, packets=packets) for dialect in DIALECTS.values() for packets in (False, True)]


def single(batch: FrameBatch, row: int) -> FrameBatch:
    """One frame of a batch, alone."""
    frame = batch.frames[row : row + 1].copy()
    at, length = int(frame["offset"][0]), int(frame["length"][0])
    frame["offset"] = 0
    return FrameBatch(batch.arena[at : at + length].copy(), frame)


def difference(one: ReportBatch, other: ReportBatch) -> str:
    """The first field that differs; empty: none does."""
    for name in ("reports", "hops"):
        left, right = getattr(one, name), getattr(other, name)
        if left.tobytes() == right.tobytes():
            continue
        if len(left) != len(right):
            return f"{len(left)} and {len(right)} {name}"
        for row in range(len(left)):
            for field in left.dtype.names or ():
                if left[field][row] != right[field][row]:
                    return f"{name}[{row}].{field}: {left[field][row]} and {right[field][row]}"
        return f"padding of {name}"
    return "" if one.other == other.other else f"other: {one.other} and {other.other}"


def compare(batch: FrameBatch, decoder: Decoder) -> tuple[ReportBatch, list[Difference]]:
    """What the batch decoder reads, and the frames that the scalar codec reads differently (it first)."""
    try:
        expected = decode_plain(batch, decoder.dialect)
    except Exception:  # a crash is told with its frame
        expected = None
    found = decoder.decode(batch)
    if expected is not None and not difference(expected, found):
        return found, []
    found = ReportBatch(found.reports.copy(), found.hops.copy(), 0, found.other)
    wrong = []
    for row in range(len(batch)):
        alone = single(batch, row)
        try:
            what = difference(decode_plain(alone, decoder.dialect), decoder.decode(alone))
        except Exception as error:
            what = f"the scalar codec crashed: {error!r}"
        if what:
            wrong.append(Difference(alone.arena.tobytes(), Link(int(alone.frames["link"][0])), what))
    if not wrong:
        what = "" if expected is None else difference(expected, found)
        wrong.append(Difference(b"", Link.OTHER, f"the block, but none of its frames alone: {what}"))
    return found, wrong


def insane(batch: FrameBatch, found: ReportBatch) -> str:
    """What of a result points outside of its frames and blocks; empty: nothing does."""
    rows = found.reports
    if not len(rows):
        return "hops without reports" if len(found.hops) else ""
    if rows["packet"].max() >= len(batch) or (np.diff(rows["packet"].astype(np.int64)) < 0).any():
        return "packets out of order, or of no frame"
    length = batch.frames["length"][rows["packet"]]
    for name in ("reason_at", "int_at", "own_at"):
        if (rows[name] > length).any():
            return f"{name} behind the frame's end"
    mine = rows["hop_count"].astype(np.int64) + (rows["carried"] & Carried.OWN_HOP > 0)
    if (rows["first_hop"] != np.cumsum(mine) - mine).any() or mine.sum() != len(found.hops):
        return "hop rows are not one behind the other"
    if rows["hop_count"].max() > MAX_HOPS:
        return "more hops than may be"
    if rows["reason"].max() > max(Reason) or rows["place"].max() > max(Place):
        return "no such reason or place"
    if ((rows["reason"] == 0) != (rows["place"] == 0)).any():
        return "a reason without a place, or a place without a reason"
    if found.other + len(np.unique(rows["packet"])) != len(batch):
        return "frames that are neither reports nor others"
    return ""
