"""Following the events of a folder from Python, compared with the events that were written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import hopscope
from hopscope.history.files.names import list_segments
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.history import HistorySettings
from support.events.event_make import random_events
from support.waiting import eventually

SHORT = 0.3
"""Seconds without an event after which these iterations end."""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[JournalWriter]:
    """The journal of shard 3 in an empty folder."""
    with JournalWriter(tmp_path, 3) as journal:
        yield journal


def sequences(following: hopscope.Following) -> list[int]:
    """Numbers of all events that an iteration gives."""
    return [number for events in following for number in events.columns()["sequence"].tolist()]


def test_only_new_events_come_unless_positions_say_otherwise(tmp_path: Path, writer: JournalWriter) -> None:
    """From now on; from the beginning; and from where an earlier one, saved as JSON, ended."""
    writer.append(random_events(500))
    with hopscope.open(tmp_path) as folder:
        new, everything = folder.follow(timeout=SHORT), folder.follow({}, timeout=SHORT, events_per_batch=333)
        writer.append(random_events(200, start=500))
        assert sequences(new) == list(range(500, 700))
        assert [len(events) for events in everything] == [333, 333, 34]
        assert new.positions == everything.positions == {3: 700}
        writer.append(random_events(50, start=700))
        saved = json.loads(json.dumps(new.positions))
        later = folder.follow(saved, timeout=SHORT)
        assert sequences(later) == list(range(700, 750))
        assert sequences(new) == list(range(700, 750))  # a further iteration continues
        assert later.missed == new.missed == 0


def test_events_are_those_that_were_written_while_it_waits(tmp_path: Path, writer: JournalWriter) -> None:
    """A writer appends and rotates while a loop reads; the loop ends by itself when it has seen them all."""
    written = random_events(3000, seed=1)

    def write() -> None:
        for part in range(0, 3000, 100):
            writer.append(written[part : part + 100])
            if part % 1000 == 900:
                writer.rotate()

    thread = Thread(target=write)
    found: list[np.ndarray] = []
    with hopscope.open(tmp_path) as folder:
        following = folder.follow({})
        thread.start()
        for events in following:
            found.append(events.records)
            if following.positions == {3: 3000}:
                break
    thread.join()
    rows = np.concatenate(found)
    for name in ("sequence", "time_ns", "kind", "metric", "node_id", "value"):
        assert np.array_equal(rows[name], written[name]), name


def test_deleted_events_are_counted(tmp_path: Path, writer: JournalWriter) -> None:
    """Retention was faster than the reader, which goes on with what is left; a first read misses nothing."""
    writer.append(random_events(700))
    writer.rotate()
    eventually(lambda: archive_once(tmp_path, HistorySettings()).segments == 1)
    writer.append(random_events(100, start=700))
    with hopscope.open(tmp_path) as folder:
        slow, first = folder.follow({3: 600}, timeout=SHORT), folder.follow({}, timeout=SHORT)
        for segment in list_segments(tmp_path):
            segment.path.unlink()
        assert sequences(slow) == sequences(first) == list(range(700, 800))
        assert (slow.missed, first.missed) == (100, 0)


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("positions", [{0: -1}, {"x": 0}, {0: None}, [5]])
def test_wrong_positions_are_named(tmp_path: Path, positions: object) -> None:
    """With an example of right ones."""
    with (
        hopscope.open(tmp_path) as folder,
        pytest.raises(hopscope.HopscopeError, match="numbers by shard"),
    ):
        folder.follow(positions)  # type: ignore[arg-type]


@pytest.mark.parametrize("positions", [{3: 501}, {0: 1}, {3: 2**70}])
def test_positions_of_another_folder_are_named(
    tmp_path: Path, writer: JournalWriter, positions: dict[int | str, int]
) -> None:
    """A folder that was recreated, or restored, would otherwise give nothing until it has as many events."""
    writer.append(random_events(500))
    with hopscope.open(tmp_path) as folder:
        assert folder.follow({3: 500}).positions == {3: 500}
        with pytest.raises(hopscope.HopscopeError, match=r"end before \d+: is it another folder"):
            folder.follow(positions)


@pytest.mark.usefixtures("writer")
def test_a_batch_has_an_event(tmp_path: Path) -> None:
    """Otherwise nothing would ever come."""
    with hopscope.open(tmp_path) as folder, pytest.raises(hopscope.HopscopeError, match="at least 1"):
        folder.follow(events_per_batch=0)
