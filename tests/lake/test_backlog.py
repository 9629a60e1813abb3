"""How far events are from the lake, while the machine's clock is wrong."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.clock import running_ns
from hopscope.detect.records import EVENT
from hopscope.history.writing.journal import JournalWriter
from hopscope.lake import backlog as backlog_module
from hopscope.lake.backlog import Backlog
from hopscope.lake.status import write_status
from hopscope.runtime.processes.cluster import SILENT_SECONDS, _lag

HOUR_NS = 3600 * 10**9


def test_events_wait_although_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times are still to come: they have waited since they were found."""
    events = np.zeros(3, EVENT)
    events["time_ns"] = time.time_ns() + HOUR_NS
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(events)
    backlog = Backlog(tmp_path)
    backlog.look()
    assert backlog.waiting({}) == 3
    assert 0 <= backlog.age_seconds({}) < 3600
    now_ns = running_ns()
    monkeypatch.setattr(backlog_module, "running_ns", lambda: now_ns + HOUR_NS)
    assert 3600 <= backlog.age_seconds({}) < 7200
    assert backlog.age_seconds({0: 1}) < 3600
    assert (backlog.waiting({0: 3}), backlog.age_seconds({0: 3})) == (0, 0)
    backlog.close()


def test_a_lake_process_that_hangs_is_named_although_the_clock_was_set(tmp_path: Path) -> None:
    """By the time for which the machine has run since it showed how it is."""
    for ago_s, clock_ns in ((2 * SILENT_SECONDS, HOUR_NS), (0, -HOUR_NS)):
        shown = {"time_ns": time.time_ns() + clock_ns, "running_ns": running_ns() - int(ago_s * 1e9)}
        write_status(tmp_path, {**shown, "problem": "", "lag_events": 7, "lag_seconds": 1.0})
        assert ("silent" in _lag(tmp_path)["lag_problem"]) == bool(ago_s)
