"""Killed at random moments under load, the collector loses nothing that anybody has seen."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.base.process.control_client import ControlError
from hopscope.history.files.names import list_segments
from hopscope.history.query import History
from hopscope.present.feed import Cursor, Feed
from hopscope.wire.records import Records
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(900)]

ROUNDS = 20 if os.environ.get("ALL") else 8
"""`make test ALL=1` kills five of each, not two."""
FLAGS = (
    "--no-serve",
    *("--set", "detect.thresholds.hop_latency.change=1"),
    *("--set", "detect.thresholds.flow_latency.change=1"),
    *("--set", "history.journal_file_bytes=131072"),
    *("--set", "history.journal_file_seconds=0.4"),
)
SEEN = np.dtype([("shard", "<u2"), ("sequence", "<u8"), ("time_ns", "<i8"), ("value", "<u8")])
Seen = npt.NDArray[np.void]


class Watcher:
    """Looks at the live feed and at history all the time, and remembers every event that either returned."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._feed = Feed(data / "regions")
        self._cursor: Cursor = {}
        self._blocks: list[Seen] = []
        self.from_feed = self.from_history = 0
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with History(self._data) as history:
            turn = 0
            while not self._stop.wait(0.03):
                try:
                    turn += 1
                    self._feed.poll()
                    events, _ = self._feed.read(self._cursor)
                    self.from_feed += self._remember(events, events["time_ns"])
                    if turn % 10 == 0:
                        table = history.events(limit=500)
                        self.from_history += self._remember(table, table["time"].astype("datetime64[ns]"))
                except BaseException as failure:
                    self.failure = failure
                    return

    def _remember(self, events: Any, times: Any) -> int:
        block = np.zeros(len(events), SEEN)
        for name in ("shard", "sequence", "value"):
            block[name] = events[name]
        block["time_ns"] = times.astype(np.int64)
        self._blocks.append(block)
        return len(block)

    def seen(self) -> Seen:
        """Every event that was returned, once; fails where one number stood for two events."""
        if self.failure is not None:
            raise self.failure
        self._blocks = [np.unique(np.concatenate(self._blocks))] if self._blocks else [np.zeros(0, SEEN)]
        seen = self._blocks[0]
        again = (np.diff(seen["sequence"]) == 0) & (np.diff(seen["shard"]) == 0)
        assert not again.any(), f"one number for different events: {seen[1:][again][:3]}"
        return seen

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(30)


def everything(data: Path) -> Records:
    """All events of history, in the order of their numbers."""
    with History(data) as history:
        table = history.events(limit=None, order="sequence")
        assert not history.problems, history.problems
    kept = np.zeros(len(table), SEEN)
    for name in ("shard", "sequence", "value"):
        kept[name] = table[name]
    kept["time_ns"] = table["time"].astype("datetime64[ns]").astype(np.int64)
    return kept


def check(data: Path, seen: Seen) -> int:
    """What was seen comes into history once and as it was; numbers have no gaps; no segment is damaged."""
    kept = np.zeros(0, SEEN)

    def complete() -> bool:
        """Whether the writer's thread has stored what was seen."""
        nonlocal kept
        kept = everything(data)
        return not len(np.setdiff1d(seen, kept))

    eventually(complete)
    for shard in np.unique(kept["shard"]):
        numbers = kept["sequence"][kept["shard"] == shard]
        assert numbers[0] == 0, f"shard {shard} begins with {numbers[0]}"
        steps = np.diff(numbers.astype(np.int64))
        assert (steps == 1).all(), (
            f"shard {shard}: steps {np.unique(steps)} after {numbers[:-1][steps != 1][:5]}"
        )
    assert not list((data / "segments").glob("*.damaged"))
    for segment in list_segments(data):
        with segment.path.open("rb") as file:
            assert file.read(4) == b"PAR1", segment.path.name
            file.seek(-4, os.SEEK_END)
            assert file.read() == b"PAR1", segment.path.name
    return len(kept)


def test_what_was_seen_survives_kills(
    tmp_path: Path, collector: Callable[..., Any], load: Callable[..., Any]
) -> None:
    """Worker, archive, supervisor or all are killed at random; after each restart history is whole."""
    one = collector(*FLAGS)
    one.start()
    sender = load(1000)
    sender.port = one.port
    with closing(Watcher(one.data)) as watcher:
        _kill_again_and_again(one, sender, watcher)
        assert one.stop() == 0, one.said()
        check(one.data, watcher.seen())
    assert watcher.from_feed > 1000, "the live feed has shown next to nothing"
    assert watcher.from_history > 1000, "queries have returned next to nothing"


def _kill_again_and_again(one: Any, sender: Any, watcher: Watcher) -> None:
    choose = random.Random(4)
    kept = 0
    for number in range(ROUNDS):
        time.sleep(choose.uniform(0.2, 1.2))
        victim = ("worker-0", "all", "archive", "supervisor")[number % 4]
        if victim in ("all", "supervisor"):
            sender.port = 0
            if victim == "all":
                one.kill_all()
            else:
                one.process.kill()
                one.process.wait(HANG_SECONDS)
            one.start()  # waits for the last worker of a killed supervisor
            sender.port = one.port
        else:
            pid = one.status()[victim]["pid"]
            os.kill(pid, signal.SIGKILL)
            eventually(lambda victim=victim, pid=pid: _restarted(one, victim, pid), one.said)  # type: ignore[misc]
        now = check(one.data, watcher.seen())
        assert now >= kept, f"history had {kept} events and has {now}"
        kept = now
    time.sleep(0.5)


def _restarted(one: Any, name: str, pid: int) -> bool:
    try:
        status = one.status()[name]
    except ControlError:
        return False
    return bool(status["alive"] and status["pid"] != pid)
