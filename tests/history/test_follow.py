"""Following history from a position, compared with the events that were written."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.detect.records import EVENT, EVENT_VERSION, Kind, Metric
from hopscope.history.errors import HistoryError
from hopscope.history.files.names import list_journals, list_segments
from hopscope.history.files.segments import merge_segments, read_events
from hopscope.history.follow import EventFollower
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.settings.history import HistorySettings
from support.waiting import eventually

Events = npt.NDArray[Any]
MakeEvents = Callable[..., Events]


def followed(folder: Path, shard: int, position: int, limit: int) -> Events:
    """Everything from `position` on, read in parts."""
    parts = [np.empty(0, EVENT)]
    follower = EventFollower(folder)
    while len(part := follower.read(shard, position, limit)):
        assert len(part) <= limit
        parts.append(part)
        position = int(part["sequence"][-1]) + 1
    follower.close()
    return np.concatenate(parts)


def seen(events: Events) -> list[Any]:
    """Events as tuples, without what a segment does not keep: the ports of an event without a flow, and the
    path of one without a path.
    """
    names = [
        name for name in EVENT.names or () if name not in ("path", "reserved", "sport", "dport", "proto")
    ]
    return [tuple(row[name].item() for name in names) for row in events]


def path_of(event: np.void) -> list[int]:
    """The nodes that an event states."""
    has_path = event["metric"] == Metric.FLOW_PATH or event["kind"] == Kind.LOOP
    return list(event["path"][: max(0, int(event["hop_count"]) - int(event["hop"]))]) if has_path else []


@pytest.fixture
def written(tmp_path: Path, make_events: MakeEvents) -> Iterator[tuple[Path, Events]]:
    """Events of shard 3 in two segments, a closed journal and one that grows."""
    parts = []
    with JournalWriter(tmp_path, 3) as writer:
        for part in range(4):
            events = make_events(700, seed=part, start=700 * part)
            writer.append(events)
            parts.append(events)
            if part < 3:
                writer.rotate()
            if part < 2:  # a journal is archived once it is on disk
                eventually(lambda: archive_once(tmp_path, HistorySettings()).segments == 1)
        assert len(list_segments(tmp_path)) == 2
        assert len(list_journals(tmp_path)) == 2
        yield tmp_path, np.concatenate(parts)


@pytest.mark.parametrize("limit", [1_000_000, 333])
@pytest.mark.parametrize("position", [0, 650, 1400, 2799])
def test_files_have_every_event_once(written: tuple[Path, Events], position: int, limit: int) -> None:
    """From any position, in parts of any size, segments and journals give what was written."""
    folder, events = written
    found = followed(folder, 3, position, limit)
    assert seen(found) == seen(events[position:])
    assert [path_of(row) for row in found] == [path_of(row) for row in events[position:]]
    flows = events["ip_version"][position:] != 0
    for name in ("sport", "dport", "proto"):
        assert np.array_equal(found[name][flows], events[name][position:][flows])


def test_the_ring_comes_first_and_files_have_the_rest(written: tuple[Path, Events]) -> None:
    """What the ring still has comes from it, what it has overwritten from files."""
    folder, events = written
    (folder / "regions").mkdir()
    writer = RingWriter(create_ring(folder / "regions/worker-3.events", EVENT, 512, EVENT_VERSION))
    writer.write(events)
    follower = EventFollower(folder)
    assert follower.end(3) == len(events)
    newest = follower.read(3, len(events) - 100, 1000)
    assert (seen(newest), follower.from_files) == (seen(events[-100:]), 0)
    assert seen(followed(folder, 3, 0, 500)) == seen(events)
    assert len(follower.read(3, len(events), 10)) == 0
    follower.close()


def test_a_segment_is_read_once(written: tuple[Path, Events], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by one that asks for one event more than it takes, as an export does to know whether more wait."""
    folder, events = written
    reads: list[Path] = []

    def counted(connection: Any, path: Path, position: int, until: int) -> Events:
        reads.append(path)
        return read_events(connection, path, position, until)

    monkeypatch.setattr("hopscope.history.follow.read_events", counted)
    follower = EventFollower(folder)
    for position in range(0, 1400, 50):
        assert seen(follower.run(3, position, 51)) == seen(events[position : position + 51])
    follower.close()
    assert reads == [segment.path for segment in list_segments(folder)]


def test_numbers_that_the_ring_lacks(tmp_path: Path, make_events: MakeEvents) -> None:
    """A ring whose numbers jump, as after a damaged note of the next one, gives each event once."""
    (tmp_path / "regions").mkdir()
    writer = RingWriter(create_ring(tmp_path / "regions/worker-3.events", EVENT, 64, EVENT_VERSION))
    events = make_events(60)
    events["shard"] = 3
    events["sequence"] = [*range(20), *range(1000, 1040)]
    writer.write(events)
    follower = EventFollower(tmp_path)
    for position, first, end in (
        (0, 0, 7),
        (15, 15, 20),
        (20, 1000, 1007),
        (999, 1000, 1007),
        (1038, 1038, 1040),
    ):
        assert follower.read(3, position, 7)["sequence"].tolist() == [*range(first, end)]
    follower.close()


def test_a_gap_is_jumped_over(written: tuple[Path, Events]) -> None:
    """If retention has deleted what is at the position, the next events that are there follow."""
    folder, events = written
    list_segments(folder)[0].path.unlink()
    assert seen(followed(folder, 3, 5, 400)) == seen(events[700:])


@pytest.mark.parametrize(("gone", "first"), [("merged", 5), ("deleted", 700)])
def test_a_segment_that_goes_while_it_is_opened(
    written: tuple[Path, Events], monkeypatch: pytest.MonkeyPatch, gone: str, first: int
) -> None:
    """What a merge has moved between a look at the folder and the read is read where it is now; of a segment
    that is deleted then, nothing is left, and the one beside it follows.
    """
    folder, events = written
    small = list_segments(folder)

    def late(connection: Any, path: Path, position: int, until: int) -> Events:
        if small[0].path.exists():
            if gone == "merged":
                merge_segments(folder, small)
            else:
                small[0].path.unlink()
        return read_events(connection, path, position, until)

    monkeypatch.setattr("hopscope.history.follow.read_events", late)
    assert seen(followed(folder, 3, 5, 400)) == seen(events[first:])


@pytest.mark.parametrize("at", [200, -300])
def test_a_segment_that_rots_after_it_was_checked(written: tuple[Path, Events], at: int) -> None:
    """A flipped bit, which changes neither time nor size, gives no wrong event; the archive sets the file
    aside in its next round, and then the events after it follow.
    """
    folder, events = written
    path = list_segments(folder)[0].path
    stat, raw = path.stat(), bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert archive_once(folder, HistorySettings()).quarantined == 0
    with pytest.raises(HistoryError, match=f"^{path} is damaged"):
        followed(folder, 3, 5, 400)
    assert archive_once(folder, HistorySettings()).quarantined == 1
    assert seen(followed(folder, 3, 5, 400)) == seen(events[700:])


def test_a_journal_that_grows_is_followed(written: tuple[Path, Events], make_events: MakeEvents) -> None:
    """Events that are appended later come with the next read; a shard that has none yet gives none."""
    folder, _ = written
    follower = EventFollower(folder)
    with JournalWriter(folder, 7) as writer:
        assert len(follower.read(7, 0, 10)) == 0
        for part in range(3):
            more = make_events(5, seed=part, start=5 * part)
            writer.append(more)
            assert seen(follower.read(7, 5 * part, 10)) == seen(more)
    assert follower.shards() == [3, 7]
    follower.close()
