"""Events of local history in the lake: gaps, names, a flush, retention; by a writer without a process."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hopscope.history.files.names import list_segments
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.lake import process
from hopscope.lake.catalog import Lake, LakeError, create, events_folder
from hopscope.lake.check import check
from hopscope.lake.counters import LAKE_COUNTERS
from hopscope.lake.maintenance import maintain
from hopscope.lake.members import RefusedError, retire
from hopscope.lake.process import LakeProcess
from hopscope.lake.status import flush, read_marks, read_status, write_marks
from hopscope.lake.writer import LakeWriter
from hopscope.settings.history import HistorySettings
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_witness import events_of, marks_of, sequences
from support.events.event_make import Events, random_events
from support.servers.postgres_server import PostgresServer
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.e2e
NOWHERE = LakeSettings(catalog="postgresql://hopscope@127.0.0.1/hopscope", data="/lake")


def recent(count: int) -> Events:
    """Events of now."""
    events = random_events(count)
    events["time_ns"] = time.time_ns() - np.arange(count, 0, -1)
    return events


def test_what_history_lost_is_a_stated_gap(
    database: PostgresServer, local: LakeSettings, tmp_path: Path
) -> None:
    """The mark passes over it, its events are counted, and a check knows it from a hole."""
    events = recent(100)
    writer = LakeWriter(local, tmp_path / "data", "c1", "one")
    writer.connect()
    with JournalWriter(tmp_path / "data", 0) as journal:
        journal.append(events[:60].copy())
        assert writer.commit() == 60
        journal.skip_to(75)
        journal.append(events[75:].copy())
        assert (writer.commit(), writer.counts["lost"]) == (25, 15)
    writer.close()
    assert marks_of(database, local) == {("c1", 0): 100}
    assert sequences(events_of(database, local, tmp_path / "lake" / local.schema_name)) == {
        ("c1", 0): [*range(60), *range(75, 100)]
    }
    with Lake(local) as lake:
        (shard,) = check(lake).shards
        assert (shard.events, shard.next, shard.gaps, shard.problem) == (85, 100, {"history": 15}, "")
        lake.connection.execute(f"DELETE FROM {lake.events} WHERE sequence = 33")
        lake.connection.execute(f"INSERT INTO {lake.events} FROM {lake.events} WHERE sequence = 44")
        (shard,) = check(lake).shards
        assert shard.problem == "1 missing, 1 doubled"


def test_a_file_outside_the_folders_of_days_is_named(local: LakeSettings) -> None:
    """Somebody has changed the lake's tables: a check says which file it cannot count."""
    create(local)
    with Lake(local) as lake:
        lake.connection.execute(f"ALTER TABLE {lake.events} RESET PARTITIONED BY")
        lake.connection.execute(
            f"INSERT INTO {lake.events} (time, member) VALUES ('2026-01-02 03:04:05', 'c1')"
        )
        with pytest.raises(LakeError, match=r"hopscope/events/ducklake-[^/]*: it is in no folder of a day"):
            check(lake)


def test_a_name_belongs_to_one_data_folder(local: LakeSettings, tmp_path: Path) -> None:
    """Another data folder, or a second process, is refused until the first is retired."""
    writers = [LakeWriter(local, tmp_path / name, "c1", name) for name in ("one", "two", "one")]
    writers[0].connect()
    with pytest.raises(RefusedError, match="another process writes as member c1"):
        writers[2].connect()
    with pytest.raises(LakeError, match="is writing"):
        retire(local, "c1")
    writers[0].close()

    with pytest.raises(RefusedError, match=r"member c1 with another data folder.*hopscope lake retire c1"):
        writers[1].connect()
    assert retire(local, "c1").incarnation == "one"
    writers[1].connect()
    for writer in writers:
        writer.close()


def test_a_data_folder_that_is_older_than_the_lake(local: LakeSettings, tmp_path: Path) -> None:
    """New events with numbers of events in the lake would be taken for these: the writer refuses, until the
    journal has later numbers. It notes which, for the collector's next start.
    """
    folder = tmp_path / "data"
    with JournalWriter(folder, 0) as journal:
        journal.append(recent(100))
        writer = LakeWriter(local, folder, "c1", "one")
        writer.connect()
        assert writer.commit() == 100
        writer.close()
    shutil.rmtree(folder)
    with JournalWriter(folder, 0) as journal:
        journal.append(recent(60))
        writer = LakeWriter(local, folder, "c1", "one")
        for _ in range(2):
            with pytest.raises(RefusedError, match=r"up to 99, and local history ends before 60.*100 on"):
                writer.connect()
        journal.skip_to(read_marks(folder, local)[0])
        journal.append(recent(30))
        writer.connect()
        assert (writer.commit(), writer.marks, writer.counts["lost"]) == (30, {0: 130}, 0)
        writer.close()


def _archived(folder: Path, count: int) -> bool:
    """Archive; whether there are so many segments."""
    archive_once(folder, HistorySettings())
    return len(list_segments(folder)) == count


def test_what_is_not_in_the_lake_does_not_age(local: LakeSettings, tmp_path: Path) -> None:
    """Old segments go once the lake has them; what it lacks goes only for want of room, and is counted."""
    folder = tmp_path / "data"
    with JournalWriter(folder, 0, fsync_seconds=0) as journal:
        for count in (1, 2, 3):
            journal.append(recent(50))
            journal.rotate()
            eventually(partial(_archived, folder, count))
        old = HistorySettings(keep_days=1e-9)
        writer = LakeWriter(local.model_copy(update={"batch_events": 100}), folder, "c1", "one")
        writer.connect()
        assert archive_once(folder, old, marks=lambda: read_marks(folder, local)).expired_events == 0
        assert writer.commit() == 100
        assert archive_once(folder, old, marks=lambda: read_marks(folder, local)).expired_events == 100
        tight = HistorySettings().model_copy(update={"keep_bytes": 1})
        assert archive_once(folder, tight, marks=lambda: read_marks(folder, local)).expired_events == 50
        journal.append(recent(5))
        assert (writer.commit(), writer.counts["lost"]) == (5, 50)
        writer.close()


@pytest.mark.parametrize(
    "marks", ['"marks": {"0": "x"}', '"marks": {"": 5}', '"marks": [5]', '"marks": 5', '"mark": {"0": 5}']
)
def test_damaged_marks_are_none(tmp_path: Path, marks: str) -> None:
    """They end neither the archive nor the writer: nothing ages until the next commit notes them again."""
    write_marks(tmp_path, NOWHERE, {0: 5})
    noted = tmp_path / "lake.marks"
    noted.write_text(noted.read_text().replace('"marks": {"0": 5}', marks))
    assert read_marks(tmp_path, NOWHERE) == {}


def test_a_flush_and_an_orderly_stop_commit_what_waits(
    database: PostgresServer, local: LakeSettings, tmp_path: Path
) -> None:
    """Neither waits for `every_seconds`."""
    patient = local.model_copy(update={"every_seconds": 3600.0})
    folder = tmp_path / "data"
    (folder / "regions").mkdir(parents=True)
    stop = threading.Event()
    process = LakeProcess(patient, folder, "c1", "one")
    with JournalWriter(folder, 0) as journal:
        runs = threading.Thread(target=process.run, args=[stop])
        runs.start()
        journal.append(recent(10))
        assert flush(folder, HANG_SECONDS)
        journal.append(recent(20))
        assert flush(folder, HANG_SECONDS)
        assert marks_of(database, local) == {("c1", 0): 30}
        journal.append(recent(30))
        assert not flush(folder, 0)
        stop.set()
        runs.join()
    assert marks_of(database, local) == {("c1", 0): 60}
    assert read_status(folder / "regions")["lag_events"] == 0
    assert LAKE_COUNTERS.read(folder / "regions")["lake_events_total"] == 60


def test_a_lake_that_takes_no_events_is_away(
    local: LakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only until the database answers again, as where the disk of its files is full: the log says once
    that events do not come, and once that they do, which is tried again without waiting for `every_seconds`.
    """
    patient = local.model_copy(update={"every_seconds": 3600.0})
    folder = tmp_path / "data"
    (folder / "regions").mkdir(parents=True)
    commit, full = LakeWriter.commit, threading.Event()
    full.set()
    begun: set[int] = set()

    def refuse(writer: LakeWriter) -> int:
        if full.is_set():
            begun.add(one.status()["since_ns"])
            raise LakeError("No space left on device")
        return commit(writer)

    monkeypatch.setattr(LakeWriter, "commit", refuse)
    stop = threading.Event()
    with JournalWriter(folder, 0) as journal:
        journal.append(recent(10))
        one = LakeProcess(patient, folder, "c1", "one")
        runs = threading.Thread(target=one.run, args=[stop])
        runs.start()
        try:
            eventually(lambda: one.counts["failures"] >= 4)
            assert len(begun) == 2  # "connecting" since, and "away" since
            full.clear()
            eventually(lambda: one.connected)
            assert one.counts["events"] == 10
        finally:
            full.clear()
            stop.set()
            runs.join()


def test_a_lake_that_is_refilled_takes_events(
    local: LakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no longer away once a part of what it lacked is there, however many parts follow."""
    one = LakeProcess(local, tmp_path, "c1", "one")
    one._failed(LakeError("No space left on device"))
    monkeypatch.setattr(LakeWriter, "connect", lambda writer: None)
    monkeypatch.setattr(LakeWriter, "refill", lambda writer: 1)
    assert one._turn()
    assert one.status()["problem"] == ""


def test_servers_that_hang_are_noticed(
    database: PostgresServer, local: LakeSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that takes connections and answers nothing: the process shows what waits, and ends."""
    monkeypatch.setattr(process, "STUCK_SECONDS", 1.5)
    folder = tmp_path / "data"
    (folder / "regions").mkdir(parents=True)
    with JournalWriter(folder, 0) as journal:
        journal.append(recent(10))
        one = LakeProcess(local, folder, "c1", "one")
        database.signal(signal.SIGSTOP)
        try:
            with pytest.raises(LakeError, match="no answer"):
                one.run(threading.Event())
        finally:
            database.signal(signal.SIGCONT)
    status = read_status(folder / "regions")
    assert (status["state"], status["lag_events"]) == ("connecting", 10)


def test_long_work_is_not_taken_for_a_server_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge, or the deletion of many days, may take longer than any answer; the process does not end."""
    monkeypatch.setattr(process, "STUCK_SECONDS", 1.5)
    monkeypatch.setattr(LakeProcess, "_write", lambda self: None)
    stop = threading.Event()

    def maintain_for_long(*_: object) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < 4 or time.thread_time() < 2:
            pass
        stop.set()

    monkeypatch.setattr(process, "maintain", maintain_for_long)
    (tmp_path / "regions").mkdir()
    LakeProcess(NOWHERE.model_copy(update={"maintain_seconds": 1.0}), tmp_path, "c1", "one").run(stop)


def test_little_work_that_adds_up_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that tries to reach a server that hangs, again and again, works a little each time."""
    (tmp_path / "regions").mkdir()
    one = LakeProcess(NOWHERE, tmp_path, "c1", "one")
    one._clocks["maintain"] = 1
    one._moved_at["maintain"] = never = -1.0
    worked = [*np.arange(1, 20) * 0.03, 1.0]
    with monkeypatch.context() as patched:
        patched.setattr(time, "clock_gettime", lambda clock: worked.pop(0))
        while len(worked) > 1:
            one._look_for_work()
        assert one._moved_at["maintain"] == never
        one._look_for_work()
    assert one._moved_at["maintain"] > never


def test_a_wrong_clock_moves_events_of_its_member_alone(
    database: PostgresServer, local: LakeSettings, tmp_path: Path
) -> None:
    """Events are in the day of their own time; retention counts by the clock of the database."""
    keeping = local.model_copy(update={"retention_days": 1.0})
    now = database.query("SELECT extract(epoch FROM now()) * 1000000 AS us")[0]["us"] * 1000
    for name, hours in (("behind", -1), ("right", 0), ("ahead", 1)):
        events = recent(20)
        events["time_ns"] = int(now) + hours * 3600 * 10**9
        with JournalWriter(tmp_path / name, 0) as journal:
            journal.append(events)
        writer = LakeWriter(keeping, tmp_path / name, name, name)
        writer.connect()
        assert writer.commit() == 20
        writer.close()
    result = maintain(keeping, steps=("expire",))
    assert result is not None
    assert result.expired_events == 0
    for file in Path(events_folder(local)).rglob("*.parquet"):
        (day,) = set(pq.ParquetFile(file).read(columns=["time"])["time"].cast("date32").to_pylist())
        assert f"/year={day.year}/month={day.month}/day={day.day}/" in str(file)
