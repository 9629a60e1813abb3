"""Users' SQL at the scope of a cluster: its answers, and attacks on what else could be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.history.columns import register
from hopscope.history.reading.table import Table
from hopscope.history.sandbox.processes import Sandbox, SqlError
from hopscope.lake.catalog import EVENT_COLUMNS, Lake, create
from hopscope.lake.database import LakeError
from hopscope.lake.queries import Tail
from hopscope.lake.reader import LakeReader
from hopscope.lake.sql import LakeSql
from support.cluster.lake_make import in_bucket, lake_settings
from support.events.event_make import Events, random_events
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

Ask = Callable[..., Table]


def numbered(events: Events, shard: int) -> Events:
    events["shard"], events["sequence"] = shard, np.arange(len(events))
    return events


IN_LAKE, IN_TAIL = numbered(random_events(500, seed=1), 0), numbered(random_events(300, seed=2), 1)


def insert(lake: Lake) -> None:
    source = f"SELECT *, 'c1', 'x' FROM ({register(lake.connection, 'fresh', IN_LAKE)})"
    lake.connection.execute(f"INSERT INTO {lake.events} ({EVENT_COLUMNS}) {source}")


@pytest.fixture(scope="module", params=["folder", "bucket"])
def ask(
    request: pytest.FixtureRequest,
    database: PostgresServer,
    store: S3Server,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ask]:
    """Asks a lake of 500 events and a member's tail of 300; beside its files there is another one."""
    folder = tmp_path_factory.mktemp("lake")
    files: dict[str, Any] = {"data": str(folder)} if request.param == "folder" else in_bucket(store)
    settings = lake_settings(database, **files)
    create(settings)
    with Lake(settings) as lake:
        insert(lake)
        lake.connection.execute(f"COPY (SELECT 1 AS x) TO '{settings.data}/other.parquet' (FORMAT parquet)")
        ((first,),) = lake.connection.execute(
            f"SELECT data_file FROM ducklake_list_files('{lake.name}', 'events', schema => 'hopscope')"
        ).fetchall()
    reader, sandbox = LakeReader(settings), Sandbox()
    source, body = LakeSql(reader).source(lambda *_: [Tail("c2", "y", IN_TAIL)])

    def run(text: str, limit: int = 1000, seconds: float = 10, memory_bytes: int = 1 << 28) -> Table:
        whole = text.replace("{data}", settings.data).replace("{file}", first)
        return sandbox.run(whole, source, body, limit=limit, seconds=seconds, memory_bytes=memory_bytes)

    yield run
    sandbox.close()
    reader.close()


def test_events_of_the_lake_and_of_members(ask: Ask) -> None:
    """The view has both, with the members, and nothing twice; its columns are those of history, and two."""
    table = ask(
        "SELECT member, incarnation, count(*) AS n, sum(value)::UBIGINT AS v FROM events GROUP BY 1, 2 "
        "ORDER BY 1"
    )
    assert [tuple(row.values()) for row in table.rows()] == [
        ("c1", "x", 500, IN_LAKE["value"].sum()),
        ("c2", "y", 300, IN_TAIL["value"].sum()),
    ]
    assert ask("DESCRIBE events")["column_name"].tolist()[:3] == ["member", "time", "kind"]
    assert len(ask("FROM events", limit=10)) == 10


ATTACKS = (
    "FROM '{data}/other.parquet'",
    "FROM '{file}/../../../../../../other.parquet'",
    "FROM '{file}?s3_endpoint=127.0.0.1:9'",
    "FROM glob('{data}/**')",
    "FROM read_text('http://127.0.0.1:9/x')",
    "FROM read_text('/proc/self/environ')",
    "COPY (SELECT 1) TO '{file}' (FORMAT parquet)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{data}/new.parquet' (FORMAT parquet)",
    "SELECT * FROM duckdb_secrets(redact => false)",
    # the rest is the same for files of a folder and of a bucket
    "SELECT * FROM read_csv('/etc/passwd')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM parquet_metadata('{data}/other.parquet')",
    "FROM 's3://other/x.parquet'",
    "COPY events TO '{data}/new.parquet'",
    "SELECT * FROM query('COPY (SELECT 1) TO ''{data}/new.parquet''')",
    "ATTACH '/tmp/x.db'",
    "ATTACH 'host=127.0.0.1' AS p (TYPE postgres)",
    "INSTALL spatial",
    "LOAD postgres_scanner",
    "SELECT * FROM postgres_query('lake', 'SELECT 1')",
    "SELECT * FROM postgres_scan('host=127.0.0.1', 'public', 'x')",
    "SELECT * FROM ducklake_snapshots('lake')",
    "SELECT current_setting('s3_secret_access_key')",
    "SELECT getenv('HOME')",
    "SET enable_external_access = true",
    "SET s3_endpoint = '127.0.0.1:9'",
    "CREATE SECRET s (TYPE s3, ENDPOINT '127.0.0.1:9')",
    "SELECT 1; SELECT 2",
    "DELETE FROM events",
)


def test_nothing_else_can_be_reached(ask: Ask, request: pytest.FixtureRequest) -> None:
    """Other files, places, servers, extensions, settings and statements are refused; nothing is written."""
    in_a_bucket = "bucket" in request.node.name
    for attack in ATTACKS[:9] if in_a_bucket else ATTACKS:
        with pytest.raises(SqlError):
            print(attack, ask(attack).rows()[:3])
    assert ask("SELECT count(*) AS n FROM events")["n"].tolist() == [800]
    with suppress(SqlError):
        shown = ask("SELECT * FROM duckdb_secrets()").rows()
        assert S3Server.SECRET not in str(shown)
        assert [row["name"] for row in shown] == ["store"]


def test_limits_hold(ask: Ask) -> None:
    """Rows, time and memory are limited."""
    table = ask("SELECT value FROM events", limit=7)
    assert (len(table), table.truncated) == (7, True)
    with pytest.raises(SqlError):
        ask("SELECT count(*) FROM range(100000000000) a, range(1000000) b", seconds=0.5)
    with pytest.raises(SqlError, match="memory"):
        ask("SELECT repeat('x', 3000000000)", memory_bytes=1 << 26)


def test_rows_that_were_deleted_one_by_one_are_no_answer(database: PostgresServer, tmp_path: Path) -> None:
    """Files do not show what was deleted from them: the query says so."""
    settings = lake_settings(database, data=str(tmp_path / "files"))
    create(settings)
    with Lake(settings) as lake:
        insert(lake)
        lake.connection.execute(f"DELETE FROM {lake.events} WHERE sequence < 20")
    reader = LakeReader(settings)
    sql = LakeSql(reader)
    with pytest.raises(SqlError, match="deleted"):
        sql.run("SELECT 1", lambda *_: [], limit=1, seconds=5, memory_bytes=1 << 28)
    sql.close()
    reader.close()


def test_files_that_are_away_are_no_fault_of_a_query(database: PostgresServer, tmp_path: Path) -> None:
    """The lake is away then, as it is without its database: the API says 503, not 400."""
    settings = lake_settings(database, data=str(tmp_path / "files"))
    create(settings)
    with Lake(settings) as lake:
        insert(lake)
    with closing(LakeReader(settings)) as reader, closing(LakeSql(reader)) as sql:
        run = partial(sql.run, tails=lambda *_: [], limit=1, seconds=5, memory_bytes=1 << 28)
        with pytest.raises(SqlError, match="mine"):
            run("SELECT error('mine')")
        (tmp_path / "files").rename(tmp_path / "elsewhere")
        with pytest.raises(LakeError, match="try again"):
            run("SELECT count(value) FROM events")
