"""What a shard says of itself."""

from __future__ import annotations

from hopscope.runtime.shard import FULL_SECONDS, Shard
from hopscope.settings.collector import HistorySettings


def test_a_full_table_is_logged_once_a_minute() -> None:
    """One line when a table has no room, with what had none; the next at the earliest a minute later, if
    there was more.
    """
    lines: list[str] = []
    shard = Shard(HistorySettings(), notify=lines.append)
    shard.tick()
    assert lines == []
    shard.count("distribution_table_full_total", 3)
    shard._warn_if_full(100.0)
    shard.count("distribution_table_full_total", 4)
    shard._warn_if_full(100.0 + FULL_SECONDS / 2)
    assert lines == ["the table of distributions is full: hops were not counted (3 more)"]
    shard._warn_if_full(100.0 + FULL_SECONDS)
    shard._warn_if_full(100.0 + 3 * FULL_SECONDS)
    assert lines[1:] == ["the table of distributions is full: hops were not counted (4 more)"]
