"""Users' SQL: what it may, and that it may nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopscope.history.archive import archive_once
from hopscope.history.journal import JournalWriter
from hopscope.history.query import History
from hopscope.history.sandbox import SqlError, message
from hopscope.settings.collector import HistorySettings

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, make_events: Callable[..., Any]) -> Iterator[History]:
    """1,000 events in a segment and 500 in a journal, in a folder with a quote in its name."""
    folder = tmp_path_factory.mktemp("da'ta")
    with JournalWriter(folder, 0) as writer:
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


FORKS = """
import io, os, sys
from hopscope.history.sandbox import main
for line in sys.stdin:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.dup2(writer, 1)
        os.close(writer)
        sys.stdin = io.StringIO(line)
        main()
    os.close(writer)
    with open(reader, "rb") as answers:
        answer = answers.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.buffer.write(f"{status} {len(answer)}\\n".encode() + answer)
    sys.stdout.flush()
"""


class Fork:
    """Stands in for `Popen`: the same program in a fork of a process that has imported what it needs."""

    def __init__(self, parent: subprocess.Popen[bytes]) -> None:
        self._parent = parent
        self.returncode: int | None = None

    def communicate(self, request: bytes, timeout: float) -> tuple[bytes, bytes]:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(request + b"\n")
        self._parent.stdin.flush()
        self.returncode, size = map(int, self._parent.stdout.readline().split())
        return self._parent.stdout.read(size), b""

    def poll(self) -> int | None:
        return self.returncode


@pytest.fixture(scope="module")
def forks() -> Iterator[Callable[..., Fork]]:
    """Starts sandboxes as forks of one process: 0.2 s of a processor each, not 0.5."""
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", FORKS], **streams) as parent:  # type: ignore[call-overload]
        yield lambda *_, **__: Fork(parent)


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
def test_hostile_sql_is_rejected(
    history: History, forks: Callable[..., Fork], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is one clear line; no file appears, none is changed."""
    monkeypatch.setattr("hopscope.history.sandbox.subprocess.Popen", forks)
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
        history.sql(text, seconds=1.0, memory_bytes=256 * 1024**2)


def test_a_query_of_some_seconds_draws_nothing(history: History) -> None:
    """DuckDB's progress bar, which comes after two seconds, is not in the answer."""
    table = history.sql(
        "SELECT count(*) AS n FROM range(1500000000) a WHERE hash(a.range) = 1", seconds=600.0
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
        ("SELECT\n  sqroot(4)", 'Did you mean "sqrt"? (line 2, column 3)'),
        ("SELEC 1", 'syntax error at or near "SELEC" (line 1, column 1)'),
    ],
)
def test_errors_keep_the_hint_and_the_place(query: str, expected: str) -> None:
    """DuckDB's candidates and the position in the user's query are in the one line of the error."""
    with duckdb.connect() as connection, pytest.raises(duckdb.Error) as failed:
        connection.execute(f"SELECT * FROM (\n{query}\n) LIMIT 0" if query.startswith("SELECT") else query)
    before = int(query.startswith("SELECT"))
    found = message(failed.value, before)
    assert expected in found
    assert "\n" not in found
    assert message(duckdb.Error("a long line\n\nLINE 1: ...cut off\n   ^")) == "a long line"
