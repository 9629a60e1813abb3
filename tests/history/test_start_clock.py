"""A clock that cannot be right at the start of a collector."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from hopscope.detect.records import EVENT
from hopscope.history.files.names import list_segments
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.history.writing.start_clock import DAY_NS, StartClock, check_clock
from hopscope.memory.data_folder import DataFolder
from hopscope.serve import readiness
from hopscope.settings.history import HistorySettings


def test_a_clock_that_cannot_be_right_is_named(tmp_path: Path) -> None:
    """Years after the newest file, or hours before it; an empty folder and a month's pause say nothing."""
    assert check_clock(tmp_path) == StartClock()
    (tmp_path / "owner.lock").touch()
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(np.zeros(1, EVENT))
    now_ns = time.time_ns()
    assert check_clock(tmp_path, now_ns + 29 * DAY_NS) == StartClock()
    assert check_clock(tmp_path, now_ns - DAY_NS // 48) == StartClock()
    late = check_clock(tmp_path, now_ns + 800 * DAY_NS)
    assert late.ahead_ns // DAY_NS == 800
    assert "800.0 days after the newest file" in late.problem
    early = check_clock(tmp_path, now_ns - 400 * DAY_NS)
    assert early.ahead_ns == 0
    assert "400.0 days before the newest file" in early.problem
    with DataFolder(tmp_path, tmp_path / "shared") as folder:
        folder.write_owner(clock_problem=late.problem)
        (found,) = readiness.clock(tmp_path)
        assert (found.name, found.ready, found.detail) == ("clock", False, late.problem)
        assert found.advice
        folder.write_owner(clock_problem="")
        assert readiness.clock(tmp_path) == []
        assert check_clock(tmp_path, time.time_ns()) == StartClock()


def test_a_start_years_later_deletes_nothing(tmp_path: Path) -> None:
    """Ages are counted without the time since the newest file; the next start believes the clock."""
    settings = HistorySettings(keep_days=7)
    (tmp_path / "owner.lock").touch()
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(np.zeros(1, EVENT))
    archive_once(tmp_path, settings)
    (segment,) = list_segments(tmp_path)
    years_ago = time.time() - 3 * 365 * 86_400
    os.utime(segment.path, (years_ago, years_ago))
    late = check_clock(tmp_path)
    with DataFolder(tmp_path, tmp_path / "shared") as folder:
        folder.write_owner(clock_ahead_ns=late.ahead_ns)
        archive_once(tmp_path, settings)
        assert len(list_segments(tmp_path)) == 1
        folder.write_owner(clock_ahead_ns=check_clock(tmp_path).ahead_ns)
        archive_once(tmp_path, settings)
        assert not list_segments(tmp_path)
