"""Segments of history: what it costs to write, merge and follow them, in a process of their own."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.common import Bench
from harness.sending import CONTEXT
from history_queries import SEGMENT, segments
from hopscope.history.files.names import list_segments
from hopscope.history.files.segments import merge_segments, write_segment
from hopscope.history.follow import EventFollower
from hopscope.history.writing.archive import MERGE

ROUNDS = 5
BLOCK = 65_536
"""Events that a destination asks for."""


def cost(work: Callable[[Path], object], folder: Path) -> tuple[float, float]:
    """CPU seconds, and MiB of memory at the peak beyond what the process had, of `work` in a new process."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(_cost, (work, folder))


def _cost(work: Callable[[Path], object], folder: Path) -> tuple[float, float]:
    import duckdb

    duckdb.connect().execute("SELECT 1")  # the archive runs for months
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    before, cpu = _kib("VmRSS"), _cpu()
    work(folder)
    return _cpu() - cpu, (_kib("VmHWM") - before) / 1024


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")))


def write(folder: Path) -> None:
    """The events of each file become a segment."""
    for path in sorted(folder.glob("*.npy")):
        write_segment(folder, np.load(path))


def merge(folder: Path) -> None:
    """All segments become one."""
    merge_segments(folder, list_segments(folder))


def follow(folder: Path) -> None:
    """All events in order, as a destination reads them."""
    follower = EventFollower(folder)
    position = 0
    while position < SEGMENT:
        position += len(follower.read(0, position, BLOCK))
    follower.close()


def main() -> None:
    """A million events in MERGE segments, merged, then followed; with --quick once."""
    bench, _ = Bench.start(
        "history_merging",
        "CPU seconds of a process, and its memory at the peak beyond what it had before, for a "
        f"million events: to write {MERGE} segments, to merge them into one, and to read that in "
        f"order. Best of {ROUNDS}.",
        "reading and writing of the disk, which take wall-clock time.",
    )
    rounds = 1 if bench.quick else ROUNDS
    found: dict[str, list[tuple[float, float]]] = {}
    sizes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "segments").mkdir()
        (events,) = segments(1)
        for number, part in enumerate(np.split(events, MERGE)):
            np.save(folder / f"{number}.npy", part)
        for _ in range(rounds):
            for path in (folder / "segments").iterdir():
                path.unlink()
            for work in (write, merge, follow):
                found.setdefault(work.__name__, []).append(cost(work, folder))
                if work is not follow:
                    size = sum(path.stat().st_size for path in (folder / "segments").glob("*.parquet"))
                    sizes[work.__name__] = size
    for name, costs in found.items():
        cpu, memory = (min(values) for values in zip(*costs, strict=True))
        bench.row({"work": name}, cpu, "CPU s")
        bench.row({"work": name}, memory, "MiB")
    for name, size in sizes.items():
        bench.row({"work": name}, size / SEGMENT, "bytes an event")


if __name__ == "__main__":
    main()
