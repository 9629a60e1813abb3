"""Alarms that were open when the collector was killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hopscope.base.names import Names
from hopscope.detect.records import ClearReason, Kind, Metric
from hopscope.export.alerts.alarms import Alarms
from hopscope.history.errors import HistoryError
from hopscope.history.files.journal_file import read_journals
from hopscope.history.writing.journal import JournalWriter
from hopscope.present import alarms
from hopscope.runtime.pipeline.lost_alarms import end_alarms
from hopscope.settings.destinations.alerts.common import AlertSettings
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a killed collector of two shards, with four open alarms: two queues of shard 0, one flow
    at a hop in shard 0, and a queue of shard 1. Its clock stopped ten seconds after the first event.
    """
    monkeypatch.setattr(alarms, "BACK_NS", START_NS)  # these events are old
    hop: dict[str, Any] = {"metric": Metric.HOP_LATENCY}
    ours = joined(
        event(RAISED, 1, port=1),
        event(RAISED, 2, port=2),
        event(CLEARED, 3, port=1),
        event(RAISED, 4, port=1),
        event(RAISED, 5, **hop, **flow(1)),
        event(RAISED, 5, **hop, **flow(2)),
        event(CLEARED, 6, **hop, **flow(1)),
        event(Kind.SILENT, 7),
        event(Kind.CHANGE, 10),
    )
    for shard, events in ((0, ours), (1, joined(event(RAISED, 3, port=1)))):
        for part in ("journal", "segments"):
            (tmp_path / part).mkdir(exist_ok=True)
        with JournalWriter(tmp_path, shard) as journal:
            journal.append(events)
    return tmp_path


def test_each_open_alarm_ends_once(killed: Path) -> None:
    """By hand: shards, places and numbers of the ends, at the time of the newest event; but once."""
    lines: list[str] = []
    for _ in range(2):
        end_alarms(killed, True, lines.append)
        events = read_journals(killed)
        ends = events[events["reason"] == ClearReason.STOPPED]
        assert set(ends["time_ns"].tolist()) == {START_NS + 10 * SECOND}
        assert set(ends["kind"].tolist()) == {CLEARED}
        assert ends[["shard", "sequence", "metric", "port", "flow_id"]].tolist() == [
            (0, 9, Metric.QUEUE_OCCUPANCY, 2, 0),
            (0, 10, Metric.QUEUE_OCCUPANCY, 1, 0),
            (0, 11, Metric.HOP_LATENCY, 2, 2),
            (1, 1, Metric.QUEUE_OCCUPANCY, 1, 0),
        ]
    assert lines == ["4 alarms ended, because the collector was killed"]


def test_destinations_end_their_alerts(killed: Path) -> None:
    """A destination sends the ends of alerts whose beginnings it sent; that of a silent source stays open."""
    followed, numbers = (
        Alarms(AlertSettings(kind="x"), Names(), "me", True),
        [0, 0],
    )

    def taken() -> list[tuple[str, str]]:
        events = read_journals(killed)
        found = []
        for shard, first in enumerate(numbers):
            ours = events[(events["shard"] == shard) & (events["sequence"] >= first)]
            numbers[shard] += len(ours)
            found += [(each["kind"], each["alarm"]) for each in followed.take(ours)]
        return found

    before = taken()
    ended = {alarm for kind, alarm in before if kind == "cleared"}
    begun = {alarm for kind, alarm in before if kind == "raised"}
    end_alarms(killed, True, lambda _: None)
    assert sorted(taken()) == sorted(("cleared", alarm) for alarm in begun - ended)
    assert [alarm.alert["kind"] for alarm in followed] == ["silent"]


def test_a_damaged_history_does_not_hinder_the_start(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said that alarms do not end."""

    def fail(*_: object) -> None:
        raise HistoryError("damaged")

    monkeypatch.setattr(alarms, "open_in_history", fail)
    lines: list[str] = []
    end_alarms(killed, True, lines.append)
    assert lines == ["damaged: alarms that were open when the collector was killed do not end"]
