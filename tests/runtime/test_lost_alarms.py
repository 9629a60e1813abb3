"""Alarms that were open when the collector was killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from hopscope.base.names import Names
from hopscope.detect.records import ClearReason, Kind, Metric
from hopscope.export.alerts.alarms import Alarms
from hopscope.history.errors import HistoryError
from hopscope.history.files.journal_file import read_journals
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.memory.data_folder import DataFolder
from hopscope.present import alarms
from hopscope.runtime.pipeline.lost_alarms import end_alarms
from hopscope.settings.destinations.alerts import AlertSettings
from hopscope.settings.history import HistorySettings
from support.events.alert_events import SECOND, event, flow, joined
from support.events.event_make import START_NS

RAISED, CLEARED = Kind.RAISED, Kind.CLEARED


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DataFolder]:
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
    with DataFolder(tmp_path / "data", tmp_path) as folder:
        folder.alarms_left = True
        for shard, events in ((0, ours), (1, joined(event(RAISED, 3, port=1)))):
            with JournalWriter(folder.path, shard) as journal:
                journal.append(events)
        yield folder


def ended(folder: DataFolder) -> list[str]:
    """End the alarms; returns the lines that are logged."""
    with structlog.testing.capture_logs() as lines:
        end_alarms(folder, True)
    return [line["event"] for line in lines]


def test_each_open_alarm_ends_once(killed: DataFolder) -> None:
    """By hand: shards, places and numbers of the ends, at the time of the newest event; but once. None ends
    after a collector that ended by itself.
    """
    killed.alarms_left = False
    assert ended(killed) == []
    for lines in (["4 alarms ended, because the collector was killed"], []):
        killed.alarms_left = True
        assert ended(killed)[1:] == lines
        assert not killed.alarms_left
        events = read_journals(killed.path)
        ends = events[events["reason"] == ClearReason.STOPPED]
        assert set(ends["time_ns"].tolist()) == {START_NS + 10 * SECOND}
        assert set(ends["kind"].tolist()) == {CLEARED}
        assert ends[["shard", "sequence", "metric", "port", "flow_id"]].tolist() == [
            (0, 9, Metric.QUEUE_OCCUPANCY, 2, 0),
            (0, 10, Metric.QUEUE_OCCUPANCY, 1, 0),
            (0, 11, Metric.HOP_LATENCY, 2, 2),
            (1, 1, Metric.QUEUE_OCCUPANCY, 1, 0),
        ]


def test_no_alarm_ends_in_the_future(killed: DataFolder) -> None:
    """If the clock of the killed collector was ahead, ends are not later than this clock, unless the alarm
    itself is.
    """
    second = (time.time_ns() - START_NS) // SECOND + 3600
    with JournalWriter(killed.path, 0) as journal:
        journal.append(joined(event(RAISED, second, port=3), event(Kind.CHANGE, second + 1)))
    ended(killed)
    events = read_journals(killed.path)
    ends = events[events["reason"] == ClearReason.STOPPED]
    late = ends["port"] == 3
    assert ends["time_ns"][late].tolist() == [START_NS + second * SECOND]
    assert ends["time_ns"][~late].min() > START_NS + 10 * SECOND
    assert ends["time_ns"][~late].max() <= time.time_ns()


def test_checksums_are_not_compared(killed: DataFolder) -> None:
    """A start does not wait for all segments to be read: alarms in one with a wrong checksum end, too."""
    archive_once(killed.path, HistorySettings())
    sums = list((killed.path / "segments").glob("*.crc32"))
    assert len(sums) == 2
    for path in sums:
        path.write_text("00000000 7\n")
    assert ended(killed)[1:] == ["4 alarms ended, because the collector was killed"]


def test_destinations_end_their_alerts(killed: DataFolder) -> None:
    """A destination sends the ends of alerts whose beginnings it sent; that of a silent source stays open."""
    followed, numbers = (
        Alarms(AlertSettings(kind="x"), Names(), "me", True),
        [0, 0],
    )

    def taken() -> list[tuple[str, str]]:
        events = read_journals(killed.path)
        found = []
        for shard, first in enumerate(numbers):
            ours = events[(events["shard"] == shard) & (events["sequence"] >= first)]
            numbers[shard] += len(ours)
            found += [(each["kind"], each["alarm"]) for each in followed.take(ours)]
        return found

    before = taken()
    over = {alarm for kind, alarm in before if kind == "cleared"}
    begun = {alarm for kind, alarm in before if kind == "raised"}
    ended(killed)
    assert sorted(taken()) == sorted(("cleared", alarm) for alarm in begun - over)
    assert [alarm.alert["kind"] for alarm in followed] == ["silent"]


def test_the_next_start_ends_what_this_one_cannot(
    killed: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A history that cannot be read, or a shard that cannot be written, does not prevent the start, and other
    shards are written. A log line says so, and a later start writes the rest.
    """

    def fail(*_: object) -> None:
        raise HistoryError("damaged")

    with monkeypatch.context() as patch:
        patch.setattr(alarms, "open_in_history", fail)
        assert "the next start tries again" in ended(killed)[-1]
    assert killed.alarms_left
    with JournalWriter(killed.path, 0):
        failed, partly = ended(killed)[1:]
    assert "the next start tries again" in failed
    assert partly == "1 alarm ended, because the collector was killed"
    killed.close()
    with DataFolder(killed.path, killed.regions.parent) as following:
        assert ended(following)[1:] == ["3 alarms ended, because the collector was killed"]
    with DataFolder(killed.path, killed.regions.parent) as following:
        assert ended(following) == []
