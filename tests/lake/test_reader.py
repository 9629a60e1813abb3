"""Readers of a lake that does not answer, or whose process ends."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from hopscope.base.deadline import Deadline
from hopscope.history.errors import TooLargeError
from hopscope.lake import messages, reader, reader_process
from hopscope.lake.catalog import Lake, create
from hopscope.lake.database import LakeError
from hopscope.lake.reader import LakeReader
from hopscope.lake.snapshot import LakeSnapshot
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_make import in_bucket, lake_settings
from support.events.event_make import random_events
from support.events.member_events import commit
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server
from support.waiting import HANG_SECONDS, eventually

SETTINGS = LakeSettings(catalog="postgresql://u@127.0.0.1:1/db", data="/nowhere")


def nothing(*_: object) -> None:
    """What a query reads, and what is known of a snapshot."""


def test_queries_wait_for_one_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that hangs: of eight queries one tries to reach it, and all have its reason. Later it is
    tried again.
    """
    attempts: list[int] = []
    answer = threading.Event()

    class Hanging:
        def __init__(self, *_: object, **__: object) -> None:
            attempts.append(1)
            answer.wait(30)
            raise LakeError("no answer")

    monkeypatch.setattr(reader_process, "Lake", Hanging)
    monkeypatch.setattr(reader_process, "AWAY_SECONDS", 60.0)
    process = reader_process.LakeConnection(messages.Begin(SETTINGS, 1 << 28, 1))

    def ask(_: int) -> str:
        ours, theirs = Pipe()
        with ours:
            ours.send(nothing)
            process.answer(theirs)
            return str(ours.recv().error)

    with ThreadPoolExecutor(8) as pool:
        found = pool.map(ask, range(8))
        eventually(lambda: bool(attempts))
        assert len(attempts) == 1
        answer.set()
        assert list(found) == ["no answer"] * 8
    assert len(attempts) == 1
    process._retry_at = 0.0
    ask(0)
    assert len(attempts) == 2


@pytest.mark.parametrize(
    ("status", "connections"), [(None, 2), (400, 2), (401, 2), (403, 2), (404, 1), (503, 1)]
)
def test_a_store_that_fails_costs_no_connection(
    monkeypatch: pytest.MonkeyPatch, status: int | None, connections: int
) -> None:
    """Only a key that it refuses, and what is no answer of it, make the next query connect again."""
    opened: list[int] = []

    class Opened:
        def __init__(self, *_: object, **__: object) -> None:
            opened.append(1)
            self.connection = duckdb.connect()

        def named(self, error: duckdb.Error) -> LakeError:
            return LakeError(str(error))

    def fail(*_: object) -> None:
        error = duckdb.Error("failed") if status is None else duckdb.HTTPException("failed")
        if status is not None:
            error.status_code = status  # type: ignore[attr-defined]
        raise error

    monkeypatch.setattr(reader_process, "Lake", Opened)
    monkeypatch.setattr(reader_process, "take", fail)
    process = reader_process.LakeConnection(messages.Begin(SETTINGS, 1 << 28, 1))
    for _ in range(2):
        ours, theirs = Pipe()
        with ours:
            ours.send(nothing)
            process.answer(theirs)
            assert str(ours.recv().error) == "failed"
    assert len(opened) == connections


def test_a_query_that_needs_too_much_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own kind of error, since places of a storm are then asked for in parts."""

    def fail(*_: object) -> None:
        raise duckdb.OutOfMemoryException("failed")

    monkeypatch.setattr(reader_process, "Lake", lambda *_, **__: SimpleNamespace(connection=duckdb.connect()))
    monkeypatch.setattr(reader_process, "take", fail)
    ours, theirs = Pipe()
    with ours:
        ours.send(nothing)
        reader_process.LakeConnection(messages.Begin(SETTINGS, 1 << 28, 1)).answer(theirs)
        error = ours.recv().error
    assert isinstance(error, TooLargeError)
    assert str(error) == "the query needs too much memory: failed"


@pytest.fixture
def silent() -> Iterator[LakeReader]:
    """Of a server that takes connections and never answers, as one that is stopped."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        place = f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/db"
        with closing(LakeReader(LakeSettings(catalog=place, data="/nowhere"))) as asked:
            yield asked


def test_a_database_that_hangs_costs_a_query_its_share_and_later_ones_nothing(silent: LakeReader) -> None:
    """The first query waits for its share of the deadline, later ones and closing do not wait."""
    silent.prepare()
    for reason, seconds in (("no answer within 0.3 s", 0.5), ("an earlier query", 600.0)):
        begin = time.monotonic()
        with pytest.raises(LakeError, match=reason):
            silent.ask(nothing, nothing, Deadline(seconds))
        assert time.monotonic() - begin < HANG_SECONDS
    silent.close()


def test_a_call_that_hangs_for_too_long_ends_with_its_process(
    silent: LakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next query asks another process."""
    silent.prepare()
    pid = silent.pid
    with pytest.raises(LakeError, match="no answer"):
        silent.ask(nothing, nothing, Deadline(0.0))
    monkeypatch.setattr(reader, "HUNG_SECONDS", 0.0)
    with pytest.raises(LakeError, match="no answer"):
        silent.ask(nothing, nothing, Deadline(0.0))
    assert silent.pid not in (0, pid)
    assert not Path(f"/proc/{pid}").exists()


def dies(cursor: duckdb.DuckDBPyConnection, snapshot: LakeSnapshot, times: list[int]) -> Any:
    """What DuckDB does with a process, until it has been asked for three snapshots."""
    if len(times) < 3:
        os.abort()
    return snapshot.version


@pytest.mark.e2e
def test_a_process_that_ends_is_replaced(local: LakeSettings) -> None:
    """A query that it could not answer goes to the next one, twice; then it has an error, not the program
    that asked. The query after that has an answer.
    """
    create(local)
    told: list[int] = []

    def tails(_: LakeSnapshot) -> list[int]:
        told.append(1)
        return told

    with closing(LakeReader(local)) as asked:
        assert asked.ask(tails, dies) >= 1
        assert len(told) == 3
        with pytest.raises(LakeError, match="the process that reads it has ended"):
            asked.ask(lambda _: [], dies)
        assert asked.ask(tails, dies) >= 1


def values(cursor: duckdb.DuckDBPyConnection, snapshot: LakeSnapshot, _: object) -> Any:
    """What is in the files of a snapshot."""
    return cursor.execute(f"SELECT value FROM ({snapshot.events}) ORDER BY value").fetchall()


@pytest.mark.e2e
def test_a_key_that_was_changed_is_read_again(
    database: PostgresServer, store: S3Server, tmp_path: Path
) -> None:
    """A store that refuses the key of a process that reads: once the file has another one, answers go on."""
    key = tmp_path / "key"
    key.write_text(store.SECRET)
    settings = lake_settings(database, **in_bucket(store) | {"secret": f"file:{key}"})
    create(settings)
    with Lake(settings) as lake:
        commit(lake, "c1", "one", random_events(10))
    key.write_text("another")
    with closing(LakeReader(settings)) as asked:
        with pytest.raises(LakeError, match="SignatureDoesNotMatch"):
            asked.ask(nothing, values)
        key.write_text(store.SECRET)
        assert asked.ask(nothing, values) == [(value,) for value in range(10)]


def once(cursor: duckdb.DuckDBPyConnection, snapshot: LakeSnapshot, tails: int) -> int:
    """An error of DuckDB for the first snapshot."""
    cursor.execute("SELECT 1" if tails > 1 else "SELECT * FROM no_such_table")
    return tails


@pytest.mark.e2e
def test_a_query_goes_on_after_the_database_was_started_again(
    database: PostgresServer, local: LakeSettings
) -> None:
    """The caller gets each of its snapshots; the answer is that of the last one. A database that was killed
    and started between two queries is asked by another connection.
    """
    create(local)
    told: list[LakeSnapshot] = []

    def tails(snapshot: LakeSnapshot) -> int:
        told.append(snapshot)
        return len(told)

    with closing(LakeReader(local)) as asked:
        assert asked.ask(tails, once) == 2
        pid = asked.pid
        database.kill()
        with pytest.raises(LakeError, match="refused"):
            asked.ask(tails, once)
        database.start()
        eventually(lambda: answers(asked))
        assert asked.pid == pid


def answers(asked: LakeReader) -> bool:
    """Whether it has an answer."""
    try:
        return asked.ask(nothing, version) >= 1
    except LakeError:
        return False


def version(cursor: duckdb.DuckDBPyConnection, snapshot: LakeSnapshot, _: None) -> int:
    """Of the snapshot."""
    return snapshot.version
