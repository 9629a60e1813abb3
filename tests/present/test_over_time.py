"""Values of a place over time, from events of history."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT, ClearReason, Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.series.over_time import SeriesQuery, series
from hopscope.present.series.places import Buckets

LATER = Buckets(10**6, 10**5, 10)


@pytest.mark.parametrize("metric", [Metric.LINK_UTILIZATION, Metric.QUEUE_OCCUPANCY])
def test_what_was_stored_before_is_found_behind_a_hundred_places(tmp_path: Path, metric: Metric) -> None:
    """A hundred ports of a switch, or queues of a port: each was raised, and pushed since then."""
    events = np.zeros(200, EVENT)
    events["kind"][:100], events["kind"][100:] = Kind.RAISED, Kind.PUSH
    events["metric"], events["node_id"], events["ident"] = metric, 7, np.arange(200) % 100
    is_link = metric == Metric.LINK_UTILIZATION
    events["port"] = events["ident"] if is_link else 1
    events["value"] = events["time_ns"] = 1000 + np.arange(200)
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        for ident in (3, 50, 99):
            asked = (
                SeriesQuery(metric.label, 7, ident, None)
                if is_link
                else SeriesQuery(metric.label, 7, 1, ident)
            )
            found = series(history, asked, LATER, None)
            assert found.before == 1100 + ident
            assert [(each.start_ns, each.end_ns) for each in found.alarms] == [(1000 + ident, None)]


@pytest.mark.parametrize("flow_id", [None, 3])
def test_the_peak_of_an_alarm_is_its_highest_value(tmp_path: Path, flow_id: int | None) -> None:
    """Not that of the event which raised it; of a flow's latency, too. Other places do not count."""
    events = np.zeros(5, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CHANGE, Kind.CHANGE, Kind.CLEARED, Kind.CHANGE]
    events["metric"] = Metric.QUEUE_OCCUPANCY if flow_id is None else Metric.FLOW_LATENCY
    events["node_id"], events["port"], events["flow_id"], events["ip_version"] = 7, 2, 3, 4
    events["ident"][2] = 1
    events["value"], events["reason"][3] = [600, 900, 950, 8, 999], ClearReason.VALUE
    events["time_ns"] = LATER.start_ns + np.arange(5)
    if flow_id is not None:
        events["node_id"], events["port"], events["flow_id"][2] = 0xFFFFFFFF, 0xFFFF, 4
    place = (
        SeriesQuery("flow_latency", flow_id=flow_id) if flow_id else SeriesQuery("queue_occupancy", 7, 2, 0)
    )
    with JournalWriter(tmp_path, 0) as writer, History(tmp_path) as history:
        writer.append(events)
        (alarm,) = series(history, place, LATER, None).alarms
    assert alarm.peak == 900
