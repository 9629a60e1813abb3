"""Damaged frames through the decoder, compiled and uncompiled.

    python bench/mutants.py --agree 1000000 --alone 100000000

    NUMBA_BOUNDSCHECK=1 python bench/mutants.py --agree 0 --alone 0 --edge 1000000

With --edge each frame ends where the arena ends: with bounds checks on, a read past it is an error.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.common import Bench
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import FrameBatch, Link
from support.packets.corpus import Seed, captured, corpus
from support.packets.mutants import Difference, Mutator, compare, decks, insane, single

AGREE_BLOCK, ALONE_BLOCK, ALONE_TASK = 500, 8192, 64
"""Mutants of a block, and blocks of a task."""
Counts = npt.NDArray[np.int64]
"""[reasons, places] of rows; [0, 0] those that were accepted."""
Result = tuple[int, Counts, int, int, list[Difference]]
"""Deck, counts, frames that are no reports, mutants, what is wrong."""
Task = tuple[int, int, int]
"""Deck, first mutant, mutants."""

_SEEDS: dict[str, tuple[Seed, ...]] = {}
_SEED = [1]


def prepare(seeds: dict[str, tuple[Seed, ...]], seed: int) -> None:
    """What a process starts with."""
    _SEEDS.update(seeds)
    _SEED[0] = seed


@lru_cache(4)
def mutator(name: str) -> Mutator:
    return Mutator(_SEEDS[name], _SEED[0])


@lru_cache(64)
def decoder(deck: int) -> Decoder:
    return Decoder(decks()[deck], frames=1024)


def counted(counts: Counts, found: npt.NDArray[np.void]) -> None:
    keys = found["reason"].astype(np.int64) * counts.shape[1] + found["place"]
    counts += np.bincount(keys, minlength=counts.size).reshape(counts.shape)


def agree(task: Task) -> Result:
    """A block through both decoders."""
    deck, first, count = task
    reader = decoder(deck)
    counts = nothing()
    found, wrong = compare(mutator(reader.dialect.name).block(first, count), reader)
    counted(counts, found.reports)
    return deck, counts, found.other, count, wrong


def alone(task: Task) -> Result:
    """Some blocks through the batch decoder."""
    deck, first, count = task
    reader = decoder(deck)
    counts, other, wrong = nothing(), 0, []
    for start in range(first, first + count, ALONE_BLOCK):
        size = min(ALONE_BLOCK, first + count - start)
        batch = mutator(reader.dialect.name).block(start, size)
        found = reader.decode(batch)
        if what := insane(batch, found):
            wrong.append(Difference(b"", Link.OTHER, f"mutants {start} to {start + size}: {what}"))
        counted(counts, found.reports)
        other += found.other
    return deck, counts, other, count, wrong


def edge(task: Task) -> Result:
    """Some frames through the batch decoder, one by one, each at the very end of its arena."""
    deck, first, count = task
    reader = decoder(deck)
    counts, other, wrong = nothing(), 0, []
    batch = mutator(reader.dialect.name).block(first, count)
    ends = (batch.frames["offset"] + batch.frames["length"]).tolist()
    for row, end in enumerate(ends):
        one = FrameBatch(batch.arena[:end], batch.frames[row : row + 1])
        try:
            found = reader.decode(one)
        except IndexError as error:
            alone = single(batch, row)
            wrong.append(Difference(alone.arena.tobytes(), Link(int(alone.frames["link"][0])), repr(error)))
            continue
        counted(counts, found.reports)
        other += found.other
    return deck, counts, other, count, wrong


def nothing() -> Counts:
    return np.zeros((max(Reason) + 1, max(Place) + 1), np.int64)


def tasks(total: int, size: int) -> Iterable[Task]:
    """Mutants 0 to `total`, each of one deck; the decks take turns."""
    for turn, first in enumerate(range(0, total, size)):
        yield turn % len(decks()), first, min(size, total - first)


def run(bench: Bench, pool: ProcessPoolExecutor, part: str, work: Callable[[Task], Result],
        todo: Iterable[Task], total: int) -> int:  # fmt: skip
    """All tasks of a part, and its rows; the number of disagreements."""
    todo = iter(todo)
    counts, others, done, wrong, dialects = nothing(), 0, 0, 0, decks()
    start = told = time.monotonic()
    waiting = [pool.submit(work, task) for task in islice(todo, 6)]
    while waiting:
        deck, more, other, count, differences = waiting.pop(0).result()
        waiting += [pool.submit(work, task) for task in islice(todo, 1)]
        counts, others, done, wrong = counts + more, others + other, done + count, wrong + len(differences)
        for one in differences[:3] if wrong < 30 else ():
            dialect = dialects[deck]
            packets = ", packets" if dialect.packets else ""
            bench.say(
                f"  DIFFERENT: {dialect.name}{packets}, {one.link.name}: {one.what}\n  {one.frame.hex()}"
            )
        now = time.monotonic()
        if now - told > 10:
            told = now
            bench.say(f"  {part}: {done:,} of {total:,}, {done / (now - start):,.0f} a second, {wrong} wrong")
    report(bench, part, counts, others, done)
    bench.row({"part": part, "what": "wrong"}, wrong, "frames or blocks")
    return wrong


def report(bench: Bench, part: str, counts: Counts, others: int, done: int) -> None:
    """The rows of a part."""
    bench.row({"part": part, "what": "mutants"}, done, "frames")
    bench.row({"part": part, "what": "not reports"}, others, "frames")
    bench.row({"part": part, "what": "accepted"}, float(counts[0].sum()), "reports")
    for reason in Reason:
        if reason and counts[reason].any():
            places = sorted(((int(counts[reason, place]), place.label) for place in Place), reverse=True)
            note = ", ".join(f"{label} {count:,}" for count, label in places if count)
            case: dict[str, object] = {"part": part, "what": reason.label.replace("_", " ")}
            bench.row(case, float(counts[reason].sum()), "reports", note)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--agree", type=int, help="mutants that both decoders read (1,000,000; quick 20,000)")
    parser.add_argument(
        "--alone", type=int, help="mutants for the batch decoder (100,000,000; quick 2,000,000)"
    )
    parser.add_argument("--edge", type=int, default=0, help="mutants whose arena ends where they end")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations")
    parser.add_argument("--captures", type=Path, help="a folder with captures to start from, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)


def main() -> int:
    """Agreement first, then the batch decoder alone."""
    bench, given = Bench.start(
        "mutants",
        "how the decoder reads damaged frames: whether the compiled and the uncompiled decoder "
        "agree, and what is rejected and why.",
        "damage that does not show in a single frame: a changed order of frames, and the "
        "effects of a link layer.",
        options,
    )
    sizes = (20_000, 2_000_000) if bench.quick else (1_000_000, 100_000_000)
    both = sizes[0] if given.agree is None else given.agree
    batches = sizes[1] if given.alone is None else given.alone
    if given.edge and os.environ.get("NUMBA_BOUNDSCHECK", "0") == "0":
        bench.say("  --edge shows nothing without NUMBA_BOUNDSCHECK=1")
        return 2
    more = captured(given.captures) if given.captures else ()
    seeds = {name: (*corpus(dialect), *more) for name, dialect in DIALECTS.items()}
    bench.say(f"  {sum(map(len, seeds.values())):,} frames to start from, {len(decks())} ways to read them")
    Decoder(frames=1).decode(Mutator(seeds["spec"]).block(0, 1))  # compiled once, not in each process
    wrong = 0
    with ProcessPoolExecutor(
        given.processes, get_context("spawn"), initializer=prepare, initargs=(seeds, given.seed)
    ) as pool:
        try:
            if both:
                wrong += run(bench, pool, "agree", agree, tasks(both, AGREE_BLOCK), both)
            if batches:
                size = min(ALONE_BLOCK * ALONE_TASK, max(1, batches // len(decks())))
                wrong += run(bench, pool, "alone", alone, tasks(batches, size), batches)
            if given.edge:
                wrong += run(bench, pool, "edge", edge, tasks(given.edge, AGREE_BLOCK), given.edge)
        except BrokenProcessPool:
            bench.say("  a process crashed")
            return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
