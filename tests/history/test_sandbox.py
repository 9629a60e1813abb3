"""Users' SQL: what it may, and that it may nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopscope.history.query import History
from hopscope.history.sandbox.processes import SqlError
from hopscope.history.sandbox.query import rejection
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.history import HistorySettings
from support.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, make_events: Callable[..., Any]) -> Iterator[History]:
    """1,000 events in a segment and 500 in a journal, in a folder with a quote in its name."""
    folder = tmp_path_factory.mktemp("da'ta")
    with JournalWriter(folder, 0, fsync_seconds=0) as writer:
        writer.append(make_events(1000))
        writer.rotate()
        archive_once(folder, HistorySettings())
        writer.append(make_events(500, start=1000))
        with History(folder) as opened:
            yield opened


def test_segments_and_fresh_events(history: History) -> None:
    """The view has both, with all columns and exact numbers."""
    table = history.sql("SELECT count(*) AS n, min(value) AS low, max(value) AS high FROM events;  ")
    assert table.rows()[0] == {"n": 1500, "low": 0, "high": 1499}
    told = history.sql("DESCRIBE events")["column_name"].tolist()
    assert told == list(history.events(limit=1).columns)
    rows = history.sql("SELECT * FROM events ORDER BY sequence", limit=2000)
    assert list(rows.rows()) == list(history.events(limit=None, order="sequence").rows())


def test_the_limit_of_rows(history: History) -> None:
    """Only the first rows come, in the order of the query, and the table says that there are more."""
    table = history.sql("FROM events SELECT value ORDER BY value DESC", limit=3)
    assert table["value"].tolist() == [1499, 1498, 1497]
    assert table.truncated
    assert not history.sql("SELECT 1 AS one", limit=1).truncated


def test_times_are_utc_in_any_time_zone() -> None:
    """An hour ago is that also where the machine's clock shows another one."""
    lines = (
        "from hopscope.history.columns import connect",
        "found = connect(2**28, 1).execute(\"SELECT now()::TIMESTAMP = now() AT TIME ZONE 'UTC'\")",
        "print(found.fetchone()[0])",
    )
    command, environment = (sys.executable, "-c", "; ".join(lines)), {**os.environ, "TZ": "Asia/Tokyo"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_times_of_events_compare_with_the_present(history: History) -> None:
    """Without a cast, in each way to write the present, as a limit, a difference and a range; the error about
    a time with a zone says what to do.
    """
    before = time.time_ns() // 1000 * 1000
    presents = "now()", "current_timestamp", "transaction_timestamp()", "get_current_timestamp()"
    for now in (*presents, "now()::TIMESTAMP"):
        (row,) = history.sql(
            f"SELECT epoch_ns({now}) AS at, count(*) FILTER (time < {now} - INTERVAL 1 HOUR) AS old,"
            f" count(*) FILTER (time BETWEEN {now} - INTERVAL 90 YEAR AND {now}) AS past,"
            f" min({now} - time) > INTERVAL 1 DAY AS ago FROM events"
        ).rows()
        assert (row["old"], row["past"], row["ago"]) == (1500, 1500, True), now
        assert before <= row["at"] <= time.time_ns(), now
    with pytest.raises(SqlError, match="put ::TIMESTAMP after one with a zone"):
        history.sql("SELECT 1 FROM events WHERE time > TIMESTAMPTZ '2026-01-02 01:00:00+01'")
    at = "TIMESTAMPTZ '2023-11-15 02:00:00+01'"
    (row,) = history.sql(f"SELECT count(*) AS n FROM events WHERE time < {at}::TIMESTAMP").rows()
    assert row == {"n": 1500}


def test_types_that_json_lacks(history: History) -> None:
    """Wide integers, decimals, times, lists, doubles of one name: nothing is rounded or lost."""
    (row,) = history.sql(
        "SELECT 18446744073709551615::UBIGINT AS a, 1 AS a, sum(1::HUGEINT << 100) AS b,"
        " 1.5::DECIMAL(9, 2) AS c, [1, NULL] AS d, NULL AS e, 'inf'::DOUBLE AS f,"
        " make_timestamp_ns(1) AS g, '\\xFF'::BLOB AS h,"
        " {'x': [1]} AS i, NULL::UBIGINT AS j, DATE '2026-01-02' AS k, true AS l"
    ).rows()
    assert row == {
        "a": 2**64 - 1, "a_1": 1, "b": 1 << 100, "c": 1.5, "d": [1, None], "e": None, "f": None,
        "g": "1970-01-01T00:00:00.000000001Z", "h": "ff", "i": {"x": [1]}, "j": None,
        "k": "2026-01-02T00:00:00.000000Z", "l": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "COPY events TO '{data}/segments/z.parquet'",
        "COPY (SELECT 1) TO '{out}'",
        "EXPLAIN ANALYZE COPY events TO '{data}/segments/z.parquet'",
        "EXPORT DATABASE '{data}/segments/z'",
        "ATTACH '{out}' AS x",
        "ATTACH ':memory:' AS x",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO events SELECT * FROM events",
        "DROP VIEW events",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA memory_limit = '100GB'",
        "PRAGMA database_list",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CALL enable_logging()",
        "USE memory",
        "PREPARE p AS SELECT 1",
        "CHECKPOINT",
        "SELECT 1; SELECT 2",
        "SELECT 1; COPY events TO '{data}/segments/z.parquet'",
        "SELECT 1) TO '{out}'; --",
        "SELECT 1) ; COPY (SELECT 1) TO '{out}'; SELECT (1",
        "WITH x AS (INSERT INTO y VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM query('COPY events TO ''{data}/segments/z.parquet''')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM read_json('/etc/passwd')",
        "SELECT * FROM read_parquet('http://127.0.0.1:9/x')",
        "SELECT * FROM parquet_metadata('/etc/passwd')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM glob('{data}/segments/../*')",
        "SELECT * FROM read_text('{data}/segments/../journal/00000.lock')",
        "SELECT getenv('HOME')",
        "SELECT * FROM sys",
        "SELECT * FROM request",
        "",
        "SELECT",
        "/*",
    ],
)
def test_hostile_sql_is_rejected(history: History, text: str, tmp_path: Path) -> None:
    """Each is one clear line; no file appears, none is changed."""
    out = tmp_path / "out"
    before = {path: path.stat().st_mtime_ns for path in history.folder.rglob("*") if path.is_file()}
    with pytest.raises(SqlError) as error:
        history.sql(text.replace("{data}", str(history.folder).replace("'", "''")).replace("{out}", str(out)))
    assert "\n" not in str(error.value)
    assert "root:" not in str(error.value)
    assert not out.exists()
    assert {path: path.stat().st_mtime_ns for path in history.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "text",
    [
        "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT count(*) FROM r",
        "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(1000) c WHERE hash(a, b, c) = 1",
        "SELECT list(range) FROM range(10000000000)",
        "SELECT repeat('x', 4000000000)",
        "SELECT * FROM (SELECT range, hash(range) FROM range(1000000000) ORDER BY 2) ORDER BY 1",
        "SELECT repeat('x', 50000000) FROM range(2)",
    ],
)
def test_endless_and_huge_queries_end(history: History, text: str) -> None:
    """Time, memory and the size of the answer are limited, each with a line that says which."""
    with pytest.raises(SqlError, match=r"longer than|more memory|larger than"):
        history.sql(text, seconds=0.5, memory_bytes=256 * 1024**2)


def test_a_query_of_some_seconds_draws_nothing(history: History) -> None:
    """DuckDB's progress bar, which comes after two seconds, is not in the answer."""
    table = history.sql(
        "SELECT count(*) AS n FROM range(30) a WHERE sleep_ms(100 + 0 * a.range) = 1", seconds=600.0
    )
    assert table["n"].tolist() == [0]


def test_secrets_of_the_environment(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process has no setting of ours in its environment, where the API's token may be."""
    monkeypatch.setenv("HOPSCOPE_SERVE__TOKEN", "0123456789abcdef")
    table = history.sql("SELECT name, value::VARCHAR AS value FROM duckdb_settings()")
    assert not any("0123456789abcdef" in str(value) for value in table["value"].tolist())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT valeu FROM (SELECT 1 AS value)",
            '"valeu" not found in FROM clause! Candidate bindings: "value" (line 1, column 8)',
        ),
        ("SELECT 1\nFROM evnts", "Table with name evnts does not exist!"),
        ("SELECT 1\nFROM flows", "Table with name flows does not exist! (line 2, column 6)"),
        ("SELECT\n  sqroot(4)", 'Did you mean "sqrt"? (line 2, column 3)'),
        ("SELEC 1", 'syntax error at or near "SELEC" (line 1, column 1)'),
    ],
)
def test_errors_keep_the_hint_and_the_place(query: str, expected: str) -> None:
    """DuckDB's candidates and the position in the user's query are in the one line of the error."""
    with duckdb.connect() as connection, pytest.raises(duckdb.Error) as failed:
        connection.execute(f"SELECT * FROM (\n{query}\n) LIMIT 0" if query.startswith("SELECT") else query)
    before = int(query.startswith("SELECT"))
    error = rejection(failed.value, before)
    assert expected in str(error)
    assert "\n" not in str(error)
    if error.line is not None:
        assert f"(line {error.line}, column {error.column})" in str(error)
    cut = rejection(duckdb.Error("a long line\n\nLINE 1: ...cut off\n   ^"))
    assert (str(cut), cut.line, cut.column) == ("a long line", 1, None)


def test_an_error_of_a_query_has_its_place(history: History) -> None:
    """The line and column of the user's text survive the way out of the process."""
    with pytest.raises(SqlError) as error:
        history.sql("SELECT time,\n  valeu\nFROM events")
    assert (error.value.line, error.value.column) == (2, 3)


def test_parquet_has_the_rows_and_types_of_the_query(history: History, tmp_path: Path) -> None:
    """DuckDB reads the file back: values, types and order are those of the query; the limit holds."""
    found = history.parquet(
        "SELECT sequence, time, kind, value FROM events ORDER BY sequence -- all", limit=7
    )
    assert (found.rows, found.truncated) == (7, True)
    path = tmp_path / "answer.parquet"
    path.write_bytes(found.content)
    with duckdb.connect() as connection:
        back = connection.execute(f"FROM '{path}'")
        types = [str(kind) for _, kind, *_ in back.description or ()]
        rows = back.fetchall()
    assert types == ["UBIGINT", "TIMESTAMP_NS", "VARCHAR", "UBIGINT"]
    expected = history.sql("SELECT sequence, kind, value FROM events ORDER BY sequence", limit=7)
    assert [(row[0], row[2], row[3]) for row in rows] == [tuple(row.values()) for row in expected.rows()]
    assert expected.types == ("UBIGINT", "VARCHAR", "UBIGINT")
    assert not history.parquet("SELECT 1 AS n WHERE false").truncated


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1) TO '{out}' (FORMAT csv); --",
        "SELECT 1) TO '{out}'; SELECT (1",
        "COPY (SELECT 1) TO '{out}'",
        "SELECT nothing FROM events",
    ],
)
def test_parquet_writes_nowhere_else(history: History, text: str, tmp_path: Path) -> None:
    """A query cannot choose where the file goes, and an error is one line as in other formats."""
    with pytest.raises(SqlError):
        history.parquet(text.replace("{out}", str(tmp_path / "out")))
    assert not list(tmp_path.iterdir())


def test_a_journal_that_cannot_be_read_is_named(tmp_path: Path, make_events: Callable[..., Any]) -> None:
    """As of a collector that once ran as root: it is no matter of memory or time."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(make_events(10))
    journal = next((tmp_path / "journal").glob("*.journal"))
    journal.unlink()
    journal.mkdir()  # which root cannot read, either
    with History(tmp_path) as opened, pytest.raises(SqlError) as error:
        opened.sql("SELECT count(*) FROM events")
    assert str(error.value) == f"{journal}: Is a directory"


def test_a_query_that_is_stopped_leaves_others_alone(history: History) -> None:
    """Two queries run; one is stopped: its process ends, the other answers, and so does the next one."""
    stop, found = threading.Event(), []
    endless = (
        "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(1000) c WHERE hash(a, b, c) = 1"
    )
    slow = "SELECT count(*) AS n FROM range(10) a WHERE sleep_ms(100 + 0 * a.range) = 1"
    threads = [
        threading.Thread(target=lambda: found.append(_error(history, endless, stop))),
        threading.Thread(target=lambda: found.append(history.sql(slow, seconds=600.0)["n"].tolist())),
    ]
    for thread in threads:
        thread.start()
    stop.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == ["[0]", "the query was stopped"]
    assert history.sql("SELECT 1 AS n")["n"].tolist() == [1]


def _error(history: History, text: str, stop: threading.Event) -> str:
    with pytest.raises(SqlError) as error:
        history.sql(text, seconds=600.0, stop=stop)
    return str(error.value)


def test_the_server_is_replaced(history: History) -> None:
    """The process that forks is killed: the next query starts another one."""
    assert history.sql("SELECT 1 AS n")["n"].tolist() == [1]
    server = history._sandbox._server
    pid = server.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not server.pid)
    assert history.sql("SELECT 2 AS n")["n"].tolist() == [2]
    assert server.pid not in (0, pid)
