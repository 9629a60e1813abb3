"""Merging, retention and what killed writers leave; then the same lake with its catalog lost or too old."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from hopscope.history.writing.journal import JournalWriter
from hopscope.lake import maintenance
from hopscope.lake.catalog import Lake, create, events_folder
from hopscope.lake.check import check
from hopscope.lake.database import COMMIT, Database
from hopscope.lake.maintenance import maintain
from hopscope.lake.members import RefusedError
from hopscope.lake.rebuild import rebuild
from hopscope.lake.writer import LakeWriter
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_witness import events_of, live_files, marks_of, sequences
from support.events.event_make import random_events
from support.servers.postgres_server import PostgresServer

pytestmark = pytest.mark.e2e
DAY = 86_400 * 10**9


class Member:
    """A member whose events are written block by block."""

    def __init__(self, settings: LakeSettings, folder: Path, name: str = "c1") -> None:
        self.folder = folder
        self.journal = JournalWriter(folder, 0, fsync_seconds=0)
        self.writer = LakeWriter(settings, folder, name, f"{name}-first")

    def write(self, *counts: int, days_ago: float = 0) -> None:
        """Commit blocks of so many events each."""
        self.writer.connect()
        for count in counts:
            events = random_events(count)
            events["time_ns"] = time.time_ns() - int(days_ago * DAY) + np.arange(count)
            self.journal.append(events)
            self.writer.commit()

    def again(self) -> int:
        """Connect, and write what the lake lacks; how many events."""
        self.writer.connect()
        count = 0
        while more := self.writer.refill() + self.writer.commit():
            count += more
        return count

    def forget(self) -> None:
        """Local history is gone, but its numbers go on."""
        self.journal.rotate()
        for path in (self.folder / "journal").glob("*.journal"):
            path.unlink()

    def close(self) -> None:
        self.writer.close()
        self.journal.close()


@pytest.fixture
def member(local: LakeSettings, tmp_path: Path) -> Iterator[Member]:
    one = Member(local, tmp_path / "data")
    yield one
    one.close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept for readers, and every file is old enough."""
    monkeypatch.setattr(maintenance, "SNAPSHOT_MINUTES", -1)
    monkeypatch.setattr(maintenance, "ORPHAN_MINUTES", -1)


def files(settings: LakeSettings) -> list[Path]:
    """Files on the disk with events."""
    return sorted(Path(events_folder(settings)).rglob("*.parquet"))


def found(database: PostgresServer, settings: LakeSettings) -> dict[tuple[str, int], list[int]]:
    """Sequences in the lake, by PyArrow."""
    return sequences(events_of(database, settings, Path(settings.data) / settings.schema_name))


def is_whole(settings: LakeSettings) -> bool:
    with Lake(settings, read_only=True) as lake:
        return check(lake).whole


def test_a_round_merges_files_and_deletes_old_days(
    database: PostgresServer, local: LakeSettings, member: Member
) -> None:
    """Each event stays once; old days are stated as expired, whole; a reader in flight is not disturbed."""
    keeping = local.model_copy(update={"retention_days": 10.0})
    member.write(300, 200, days_ago=20)
    member.write(*[100] * 9)
    with Lake(keeping, read_only=True) as reader:
        reader.connection.execute("BEGIN")
        query = f"SELECT count(DISTINCT sequence) FROM {reader.events}"
        assert reader.connection.execute(query).fetchall() == [(1400,)]
        result = maintain(keeping, steps=("expire", "prune", "merge"))
        assert result is not None
        assert (result.expired_events, result.merged_files, result.marks) == (500, 9, 10)
        assert reader.connection.execute(query).fetchall() == [(1400,)]
    again = maintain(keeping)
    assert again is not None
    assert (again.expired_events, again.merged_files, again.notes) == (0, 0, [])
    assert len(files(local)) == len(live_files(database, local)) == 1
    assert found(database, local) == {("c1", 0): list(range(500, 1400))}
    assert marks_of(database, local) == {("c1", 0): 1400}
    with Lake(local) as lake:
        (shard,) = check(lake).shards
    assert (shard.events, shard.gaps, shard.problem) == (900, {"retention": 500}, "")
    member.write(10)
    assert is_whole(local)


def test_a_day_expires_in_slices(
    local: LakeSettings, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is whole files and a commit of its own, so that commits of members come between; a round without
    old events makes none.
    """
    monkeypatch.setattr(maintenance, "EXPIRE_EVENTS", 50)
    keeping = local.model_copy(update={"retention_days": 10.0})
    member.write(20, 30, 60, 10, 5, days_ago=20)
    member.write(7)
    real = Database.lock
    waits: list[int] = []

    def lock(database: Database, name: str) -> None:
        """Others commit before each slice."""
        if name == COMMIT:
            with Lake(local, read_only=True) as lake:
                ((left,),) = lake.connection.execute(f"SELECT count(*) FROM {lake.events}").fetchall()
            waits.append(left)
        real(database, name)

    monkeypatch.setattr(Database, "lock", lock)
    for expired in (125, 0):
        result = maintain(keeping, steps=("expire",))
        assert result is not None
        assert result.expired_events == expired
    assert waits == [132, 82, 22]
    assert retention_of(local) == [(0, 125, 125)]
    assert is_whole(local)


def test_the_catalog_forgets_files_that_are_deleted(
    database: PostgresServer, local: LakeSettings, member: Member
) -> None:
    """Files are deleted once: neither their rows stay, nor does a later round delete and count them again."""
    for small in (8, 9):  # that of the first round, too
        member.write(*[10] * 8)
        result = maintain(local, steps=("merge", "forget"))
        assert result is not None
        assert (result.merged_files, result.deleted_files) == (small, small)
        rows = database.run(f"SELECT count(*) FROM {local.schema_name}.ducklake_files_scheduled_for_deletion")
        assert rows == "0\n"


@pytest.mark.parametrize("first", ["round", "commit"])
@pytest.mark.parametrize("step", ["expire", "prune", "merge"])
def test_a_round_and_a_commit_at_once(
    local: LakeSettings, member: Member, monkeypatch: pytest.MonkeyPatch, step: str, first: str
) -> None:
    """Neither fails because the other one commits shortly before it, and events are there once."""
    keeping = local.model_copy(update={"retention_days": 10.0})
    member.write(20, days_ago=20)
    member.write(*[10] * 8)
    member.journal.append(random_events(7))  # of long ago, too
    results: list[maintenance.MaintenanceResult | None] = []
    real = Database.lock

    def maintain_once() -> None:
        results.append(maintain(keeping, steps=[step]))

    def commit() -> None:
        assert member.writer.commit() == 7

    one, other = (maintain_once, commit) if first == "round" else (commit, maintain_once)

    def lock(database: Database, name: str) -> None:
        """The one that wants to commit lets the other do so first."""
        if name == COMMIT:
            monkeypatch.setattr(Database, "lock", real)
            one()
        real(database, name)

    monkeypatch.setattr(Database, "lock", lock)
    other()
    (result,) = results
    assert result is not None
    assert result.expired_events in ((20, 27) if step == "expire" else (0,))
    assert is_whole(local)


def test_files_of_killed_writers_are_deleted_once_their_events_are_there(
    local: LakeSettings, member: Member
) -> None:
    """A file that no commit names goes only if the lake has all its events; half a file goes, too."""
    member.write(50)
    (named,) = files(local)
    orphan, half = named.with_name("ducklake-copy.parquet"), named.with_name("ducklake-half.parquet")
    orphan.write_bytes(named.read_bytes())
    half.write_bytes(named.read_bytes()[:-100])
    result = maintain(local, steps=("orphans",))
    assert result is not None
    assert (result.notes, files(local)) == ([], [named])
    orphan.write_bytes(named.read_bytes())
    with Lake(local) as lake:
        lake.connection.execute(f"DELETE FROM {lake.events} WHERE sequence < 5")
    result = maintain(local, steps=("orphans",))
    assert result is not None
    assert "5 events that the lake lacks" in result.notes[0]
    assert orphan in files(local)


def dump(database: PostgresServer, settings: LakeSettings) -> str:
    """A backup of the catalog."""
    words = [
        "pg_dump",
        "-h",
        "127.0.0.1",
        "-p",
        str(database.port),
        "-U",
        "hopscope",
        "-n",
        settings.schema_name,
    ]
    return subprocess.run([*words, "hopscope"], check=True, capture_output=True, text=True).stdout


def restore(database: PostgresServer, settings: LakeSettings, backup: str) -> None:
    """The catalog as it was."""
    database.run(f"DROP SCHEMA {settings.schema_name} CASCADE")
    words = ["psql", "-q", "-h", "127.0.0.1", "-p", str(database.port), "-U", "hopscope", "hopscope"]
    subprocess.run(words, input=backup, check=True, capture_output=True, text=True)


def test_an_older_catalog_with_the_members_history(
    database: PostgresServer, local: LakeSettings, member: Member
) -> None:
    """Members write again what they have; the first files, which nothing names, are deleted after that."""
    member.write(100, 100)
    backup = dump(database, local)
    member.write(100, 100)
    member.writer.close()
    restore(database, local, backup)
    assert marks_of(database, local) == {("c1", 0): 200}
    assert member.again() == 200
    assert found(database, local) == {("c1", 0): list(range(400))}
    assert len(files(local)) == 5
    result = maintain(local, steps=("orphans",))
    assert result is not None
    assert result.notes == []
    assert len(files(local)) == 3
    assert is_whole(local)


def test_an_older_catalog_without_the_members_history(
    database: PostgresServer, local: LakeSettings, member: Member, tmp_path: Path
) -> None:
    """The member refuses to count as lost what the files have; a rebuild finds it there, also in files that
    were merged after the backup; nothing is doubled.
    """
    member.write(*[20] * 5)
    backup = dump(database, local)
    member.write(*[20] * 5)
    maintain(local)  # the files of the backup are gone
    member.forget()
    member.writer.disconnect()
    restore(database, local, backup)
    assert not is_whole(local)
    member.journal.append(random_events(7))
    with pytest.raises(RefusedError, match=r"older than the lake's files.*hopscope lake rebuild"):
        member.again()
    other = Member(local, tmp_path / "2", "c2")
    other.writer.connect()
    result = rebuild(local, lambda line: other.write(11))  # writers go on until its end
    other.writer.close()
    assert (result.events, result.doubled, result.missing) == (211, 0, 0)
    assert member.again() == 7
    assert found(database, local) == {("c1", 0): list(range(207)), ("c2", 0): list(range(11))}
    assert marks_of(database, local) == {("c1", 0): 207, ("c2", 0): 11}
    assert is_whole(local)
    assert database.run(f"SELECT count(*) FROM {result.old_schema}.hopscope_lake") == "1\n"


def retention_of(settings: LakeSettings) -> list[tuple[int, ...]]:
    """Ranges that are stated as expired: first, next, events."""
    with Lake(settings, read_only=True) as lake:
        return lake.connection.execute(
            f"SELECT first, next, events FROM {lake.gaps} WHERE reason = 'retention' ORDER BY first"
        ).fetchall()


def test_expired_events_are_stated_exactly(
    database: PostgresServer, local: LakeSettings, member: Member
) -> None:
    """Days that lie among others in the numbers of a shard are stated as they are, and ranges that touch as
    one: a file that is lost later is missing, and its member is asked for it.
    """
    keeping = local.model_copy(update={"retention_days": 10.0})
    member.write(100, days_ago=20)
    member.write(100)
    member.write(20, 30, days_ago=20)
    member.write(40, days_ago=19)
    member.write(100)
    (lost,) = (path for path in files(local) if 100 in pq.read_table(path)["sequence"].to_pylist())
    result = maintain(keeping)
    assert result is not None
    assert result.expired_events == 190
    expired = [(0, 100, 100), (200, 290, 90)]
    assert retention_of(local) == expired
    lost.unlink()
    member.writer.disconnect()
    rebuilt = rebuild(keeping)
    assert (rebuilt.events, rebuilt.missing) == (100, 100)
    assert retention_of(local) == expired
    assert member.again() == 100
    assert found(database, local) == {("c1", 0): [*range(100, 200), *range(290, 390)]}
    assert is_whole(local)


def test_a_rebuild_brings_no_expired_day_back(
    monkeypatch: pytest.MonkeyPatch, database: PostgresServer, local: LakeSettings, member: Member
) -> None:
    """Files of a day that has just been deleted are still there, for readers: their events stay expired."""
    monkeypatch.setattr(maintenance, "SNAPSHOT_MINUTES", 10)
    keeping = local.model_copy(update={"retention_days": 10.0})
    member.write(100, days_ago=20)
    member.write(50)
    maintain(keeping)
    assert len(files(local)) == 2
    member.writer.disconnect()
    result = rebuild(keeping)
    assert (result.events, result.missing) == (50, 0)
    assert retention_of(local) == [(0, 100, 100)]
    assert member.again() == 0
    assert found(database, local) == {("c1", 0): list(range(100, 150))}
    assert is_whole(local)


def test_ranges_of_sequences() -> None:
    """They are those that a plain loop finds, whatever the holes and blocks."""
    random, block = np.random.default_rng(1), maintenance.BLOCK_EVENTS
    shards = [
        np.arange(4 * block),
        np.flatnonzero(random.random(4 * block) < 0.5),
        np.setdiff1d(np.arange(4 * block), [0, block, 2 * block - 1, 9000]),
        np.array([block - 1, block]),
    ]
    expected = [
        (shard, int(part[0]), int(part[-1]) + 1, len(part))
        for shard, numbers in enumerate(shards)
        for part in np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    ]
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE events (member VARCHAR, incarnation VARCHAR, shard USMALLINT, sequence UBIGINT)"
        )
        for shard, numbers in enumerate(shards):
            rows = {"sequence": random.permutation(numbers)}  # noqa: F841 - DuckDB reads it
            connection.execute(f"INSERT INTO events SELECT 'c1', 'own', {shard}, sequence FROM rows")
        for statement in maintenance.find_pieces("events", "true"):
            connection.execute(statement)
        ranges = connection.execute(
            f"SELECT shard, first, next, events FROM ({maintenance.RANGES}) ORDER BY ALL"
        ).fetchall()
    assert ranges == expected


def test_a_lost_catalog(database: PostgresServer, local: LakeSettings, member: Member) -> None:
    """A rebuild takes each event of the files once, whichever have it; members fill holes that they can."""
    member.write(40, 30, days_ago=1)
    member.write(50, 60, 70)
    whole = files(local)
    copy = whole[-1].with_name("ducklake-copy.parquet")
    copy.write_bytes(whole[-1].read_bytes())
    lost = whole[-2]
    lost.unlink()
    member.writer.disconnect()
    database.run(f"DROP SCHEMA {local.schema_name} CASCADE")
    create(local)
    result = rebuild(local)
    there = 250 - result.missing
    assert (result.events, result.doubled > 0, result.missing > 0) == (there, True, True)
    assert not is_whole(local)
    assert member.again() == result.missing
    assert found(database, local) == {("c1", 0): list(range(250))}
    assert marks_of(database, local) == {("c1", 0): 250}
    assert is_whole(local)
    assert not {*whole, copy} & set(files(local))
