"""Decode of the plain path against another version of Hopscope: interleaved pairs, same frames."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from harness.common import Bench, median
from hopscope.fabric.load import payloads

BATCH, BATCHES, ROUNDS = 4096, 16, 40
"""Frames a batch, batches a round, rounds a measurement (about 0.15 s)."""

_CHILD = """
import sys, time
import numpy as np
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DIALECTS
from hopscope.wire.records import FRAME, FrameBatch
folder, batches, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def load(n):
    frames = np.load(f"{folder}/{n}.frames.npy").view(FRAME).reshape(-1)
    return FrameBatch(np.load(f"{folder}/{n}.arena.npy"), frames)
work = [load(n) for n in range(batches)]
decoder = Decoder(DIALECTS["spec"], len(work[0].frames))
for frames in work:
    assert len(decoder.decode(frames)) == len(frames.frames)
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    for _ in range(rounds):
        for frames in work:
            decoder.decode(frames)
    print(time.perf_counter() - start, flush=True)
"""


class Side:
    """One version in a process of its own, which decodes on request."""

    def __init__(self, checkout: Path, folder: str) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
        self._child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, folder, str(BATCHES), str(ROUNDS)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        self._line()

    def seconds(self) -> float:
        """One measurement."""
        assert self._child.stdin is not None
        self._child.stdin.write("go\n")
        self._child.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        """End the process."""
        self._child.communicate()

    def _line(self) -> str:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise SystemExit("a side ended early; its error is above")
        return line


def measure(bench: Bench, other: Path, hops: int, fields: int, pairs: int) -> None:
    """The ratio of this version's time to the other's, for one case."""
    with tempfile.TemporaryDirectory() as folder:
        for n in range(BATCHES):
            frames = payloads(BATCH, hops, fields, 100, n * BATCH)
            np.save(f"{folder}/{n}.arena.npy", frames.arena)
            np.save(f"{folder}/{n}.frames.npy", frames.frames.view(np.uint8))
        sides = [Side(Path(__file__).parent.parent, folder), Side(other, folder)]
        for side in sides:
            side.seconds()
        taken: list[list[float]] = [[], []]
        for pair in range(pairs):
            for which in (0, 1) if pair % 2 else (1, 0):
                taken[which].append(sides[which].seconds())
        for side in sides:
            side.close()
    ratios = [mine / theirs for mine, theirs in zip(*taken, strict=True)]
    count = BATCH * BATCHES * ROUNDS
    mine, theirs = (median(times) / count * 1e9 for times in taken)
    span = f"ratios {min(ratios):.3f} to {max(ratios):.3f}"
    note = f"{mine:.1f} against {theirs:.1f} ns a report, {pairs} pairs, {span}"
    bench.row(
        {"hops": hops, "fields": fields},
        median(ratios),
        "times the other version's time (median of pairs)",
        note,
    )


def main() -> None:
    """The plain path: Report 2.0, Ethernet, IPv4, UDP by DSCP, INT-MD 2."""

    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--other", type=Path, help="checkout of the other version; this one if not given")
        parser.add_argument("--pairs", type=int, default=0, help="measurements of each side")

    bench, arguments = Bench.start(
        "plain_path",
        "the time that decoding takes, relative to another version.",
        "everything but the batch decoder.",
        extra,
    )
    pairs = arguments.pairs or (5 if bench.quick else 30)
    other = arguments.other or Path(__file__).parent.parent
    for hops, fields in ((3, 8),) if bench.quick else ((3, 8), (1, 8), (6, 8), (3, 1)):
        measure(bench, other.resolve(), hops, fields, pairs)


if __name__ == "__main__":
    main()
