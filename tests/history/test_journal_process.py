"""The journal with real processes: readers next to a writer, SIGKILL, a full disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hopscope.history.files.journal_file import EVENT_BYTES, HEADER_BYTES
from hopscope.history.files.names import list_segments
from hopscope.history.query import History
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalFull, JournalWriter, read_journals
from hopscope.settings.history import HistorySettings
from support.processes.small_disk import small_disk
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.e2e

_WRITER = """
import random, sys, time
from pathlib import Path
import numpy as np
from hopscope.detect.records import EVENT
from hopscope.history.writing.journal import JournalWriter

folder, total, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
choose = random.Random(seed)
with JournalWriter(folder, 0, file_bytes=40_000, fsync_seconds=0.05) as writer:
    print("ready", writer.next_sequence, flush=True)
    while writer.next_sequence < total:
        n = min(choose.randrange(1, 140), total - writer.next_sequence)
        events = np.zeros(n, EVENT)
        events["value"] = writer.next_sequence + np.arange(n)
        events["time_ns"] = time.time_ns()
        writer.append(events)
        print("has", writer.next_sequence, flush=True)
        time.sleep(0.002)
"""


def start_writer(folder: Path, total: int, seed: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _WRITER, str(folder), str(total), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready")
    return process


def test_readers_during_writes_and_archiving(tmp_path: Path) -> None:
    """Every query while events are written and archived sees 0 … n once, in order, and n never shrinks."""
    total = 12_000
    acknowledged = seen = rounds = 0
    with start_writer(tmp_path, total) as writer, History(tmp_path) as history:
        assert writer.stdout is not None
        for line in writer.stdout:  # a pipe's worth after, which is what a client is
            acknowledged = int(line.split()[1])
            if rounds % 3 == 0:
                archive_once(tmp_path, HistorySettings())
            got = history.events(limit=None, order="sequence", since={0: max(0, seen - 100)})
            assert got["sequence"].tolist() == list(range(max(0, seen - 100), max(0, seen - 100) + len(got)))
            assert got["value"].tolist() == got["sequence"].tolist()
            if rounds % 10 == 0:
                assert history.summary()["events"].sum() >= acknowledged
            now = max(0, seen - 100) + len(got)
            assert now >= max(seen, acknowledged)
            seen = now
            rounds += 1
        assert writer.wait(HANG_SECONDS) == 0
        assert seen == total
        assert list_segments(tmp_path)
        assert history.events(limit=None, order="sequence")["sequence"].tolist() == list(range(total))


def test_sigkill_at_random_moments(tmp_path: Path) -> None:
    """Ten kills: what was acknowledged, or read by a query, is there afterwards, once and without gaps."""
    choose = random.Random(7)
    seen = 0
    for attempt in range(10):
        writer = start_writer(tmp_path, 10**9, attempt)
        assert writer.stdout is not None
        time.sleep(choose.uniform(0.0, 0.15))
        with History(tmp_path) as history:
            seen = max(seen, len(history.events(limit=None)))
        writer.send_signal(signal.SIGKILL)
        lines = writer.stdout.read().splitlines()
        writer.wait(HANG_SECONDS)
        writer.stdout.close()
        acknowledged = [
            int(line.split()[1]) for line in lines if line.startswith("has ") and line[4:].isdigit()
        ]
        seen = max([seen, *acknowledged[:-1]])  # the last line may be cut
        if attempt % 3 == 2:
            archive_once(tmp_path, HistorySettings())
    with JournalWriter(tmp_path, 0) as recovered:
        assert recovered.next_sequence >= seen > 0
        with History(tmp_path) as history:
            events = history.events(limit=None, order="sequence")
    assert events["sequence"].tolist() == events["value"].tolist() == list(range(recovered.next_sequence))


def test_a_full_disk(tmp_path: Path, make_events: Callable[..., object]) -> None:
    """Whole records stay while the disk is full, and it goes on where it was when there is room again."""
    with small_disk(tmp_path / "small", "1m") as folder:
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(700_000))
        failed = 0
        with JournalWriter(folder, 0) as writer:
            for _ in range(10):
                rest: Any = make_events(500)
                while len(rest):
                    try:
                        writer.append(rest)
                        break
                    except JournalFull as full:
                        rest = rest[full.written :]
                        failed += 1
                        before = read_journals(folder)["sequence"].tolist()
                        assert before == list(range(len(before)))  # whole records only
                        if failed == 3:
                            ballast.unlink()
        assert failed == 3
        assert read_journals(folder)["sequence"].tolist() == list(range(5000))
        with JournalWriter(folder, 0) as writer:
            assert writer.next_sequence == 5000


_LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from hopscope.detect.records import EVENT
from hopscope.history.writing.journal import JournalFull, JournalWriter

resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
writer = JournalWriter(Path(sys.argv[1]), 0)
try:
    writer.append(np.zeros(100, EVENT))
except JournalFull as full:
    print(full.written, writer.next_sequence, full)
"""


def test_a_limit_on_file_sizes(tmp_path: Path) -> None:
    """The kernel takes part of a batch: whole records stay, and JournalFull says how many."""
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    written, following, *message = done.stdout.split()
    assert written == following == str((10_000 - HEADER_BYTES) // EVENT_BYTES)
    assert "no room" in " ".join(message)
    told: list[str] = []
    with JournalWriter(tmp_path, 0, notify=told.append) as writer:
        assert writer.next_sequence == int(written)
    assert told == []
