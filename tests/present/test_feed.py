"""The live feed: nothing is shown twice, and what a listener misses is told to the event."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT, EVENT_VERSION
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.present.feed import Feed, cursor_text, parse_cursor


def events(first: int, count: int, shard: int = 0) -> np.ndarray:
    """EVENT records with consecutive numbers."""
    made = np.zeros(count, EVENT)
    made["sequence"] = np.arange(first, first + count)
    made["time_ns"], made["shard"] = made["sequence"], shard
    return made


def ring(folder: Path, shard: int = 0, capacity: int = 64) -> RingWriter:
    """A worker's ring."""
    return RingWriter(create_ring(folder / f"worker-{shard}.events", EVENT, capacity, EVENT_VERSION))


def test_a_listener_reads_each_event_once(tmp_path: Path) -> None:
    """Two rings are merged by time; each read goes on where the last ended."""
    one, two = ring(tmp_path), ring(tmp_path, 1)
    feed = Feed(tmp_path)
    cursor: dict[int, int] = {}
    one.write(events(0, 5))
    two.write(events(0, 3, 1))
    feed.poll()
    read, lost = feed.read(cursor)
    assert (len(read), lost, cursor) == (8, 0, {0: 5, 1: 3})
    assert np.all(np.diff(read["time_ns"]) >= 0)
    one.write(events(5, 2))
    feed.poll()
    assert feed.read(cursor)[0]["sequence"].tolist() == [5, 6]
    assert len(feed.read(cursor)[0]) == 0


def test_read_and_lost_is_what_was_published(tmp_path: Path) -> None:
    """A ring that turned over, a buffer that dropped, a listener that was away: the sum is exact."""
    writer = ring(tmp_path, capacity=64)
    feed, cursor = Feed(tmp_path, keep=100), {0: 0}
    total = 0
    for count in (10, 500, 64, 3, 200, 40):
        writer.write(events(total, count))
        total += count
        feed.poll()
    seen, missed = 0, 0
    while True:
        read, lost = feed.read(cursor, 7)
        seen, missed = seen + len(read), missed + lost
        if not len(read):
            break
    assert seen + missed == total
    assert missed > 0
    assert cursor == {0: total}


def test_a_listener_comes_back_with_its_cursor(tmp_path: Path) -> None:
    """Last-Event-ID survives as text; a ring that is recreated goes on with the numbers of the journal."""
    writer = ring(tmp_path)
    feed = Feed(tmp_path)
    writer.write(events(0, 10))
    feed.poll()
    cursor = parse_cursor(cursor_text({0: 4}))
    assert cursor == {0: 4}
    writer = ring(tmp_path)
    writer.write(events(12, 3))
    feed.poll()
    read, lost = feed.read(cursor)
    assert (read["sequence"].tolist(), lost) == ([*range(4, 10), 12, 13, 14], 2)


def test_a_listener_from_before_the_first_event_misses_none(tmp_path: Path) -> None:
    """Its cursor is no empty text, which a browser would not send back."""
    feed = Feed(tmp_path)
    text = cursor_text(feed.now())
    assert text
    ring(tmp_path).write(events(0, 3))
    feed.poll()
    cursor = parse_cursor(text)
    assert cursor is not None
    read, lost = feed.read(cursor)
    assert (len(read), lost, cursor) == (3, 0, {0: 3})


@pytest.mark.parametrize("text", [None, "", "x", "1", "0-1;1-2", "0-1,", "0-" + "9" * 30, "0-1," * 900])
def test_a_strange_cursor_is_none(text: str | None) -> None:
    """What is no cursor starts at the newest event."""
    assert parse_cursor(text) is None


def test_a_cursor_of_the_future_waits(tmp_path: Path) -> None:
    """A cursor of another folder gives no old events and no absurd loss."""
    writer, feed = ring(tmp_path), Feed(tmp_path)
    writer.write(events(0, 5))
    feed.poll()
    cursor = {0: 10**15}
    assert feed.read(cursor)[1] == 0
    writer.write(events(5, 2))
    feed.poll()
    assert feed.read(cursor)[0]["sequence"].tolist() == [5, 6]
