"""Paths of one flow over time, from events of history."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.flows.paths import MAX_PATHS, path_at, path_periods


def test_a_path_change_is_found_behind_any_number_of_pushes(tmp_path: Path) -> None:
    """A flow that lives for hours is pushed more often than there are events in one answer; it changes its
    path after that. From a push on, its path of then is known, too.
    """
    pushes = MAX_PATHS + 10
    events = np.zeros(pushes + 3, EVENT)
    events["kind"], events["metric"], events["flow_id"] = Kind.PUSH, Metric.FLOW_PATH, 9
    events["time_ns"], events["hop_count"] = 100 + np.arange(len(events)), 2
    events["path"][:, :2] = 5, 6
    events["kind"][0], events["kind"][pushes + 1] = Kind.NEW_KEY, Kind.PATH_CHANGE
    events["path"][pushes + 1 :, :2] = 5, 7
    changed = int(events["time_ns"][pushes + 1])
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        found, truncated = path_periods(history, 9, None, None)
        assert [(period.nodes, period.kind) for period in found] == [
            ((5, 6), "new_key"),
            ((5, 7), "path_change"),
        ]
        assert (found[0].until, found[1].until, truncated) == (found[1].since, None, False)
        found, _ = path_periods(history, 9, changed - 5, None)
        assert [(period.nodes, period.kind) for period in found] == [
            ((5, 6), "push"),
            ((5, 7), "path_change"),
        ]
        moments = (99, 100, changed - 1, changed, changed + 10**9)
        assert [path_at(history, 9, at) for at in moments] == [(), (5, 6), (5, 6), (5, 7), (5, 7)]
