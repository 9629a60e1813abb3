"""SQL over HTTP: the schema, the three forms of an answer, and errors with their place."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from hopscope.history.query import History
from hopscope.history.schema import EXAMPLES, VIEWS
from hopscope.lake.database import LakeError
from hopscope.present.history import SharedHistory
from hopscope.serve.models import sql as m
from hopscope.serve.routes.history.sql import TRUNCATED
from hopscope.settings.serve import ServeSettings

pytestmark = pytest.mark.e2e
BIG = "SELECT sequence, time, kind, flow_id, path, NULL AS nothing FROM events ORDER BY sequence"


def ask(api: Any, folder: Path, *queries: dict[str, Any]) -> list[httpx.Response]:
    """Answers to queries, from one server."""
    import asyncio

    async def talk() -> list[httpx.Response]:
        async with api(folder, ServeSettings(sql_rows=5)) as client:
            return [await client.post("/api/v0/sql", json=query) for query in queries]

    return asyncio.run(talk())


def test_the_schema_describes_what_the_views_have(api: Any, collector: Any) -> None:
    """Columns and types are those that DuckDB reports; each has a meaning; all examples run."""
    import asyncio

    async def talk() -> dict[str, Any]:
        async with api(collector.folder) as client:
            return (await client.get("/api/v0/sql/schema")).json()

    found = m.SqlSchema.model_validate(asyncio.run(talk()))
    assert found.limits.rows == ServeSettings().sql_rows
    with History(collector.folder) as history:
        for view in found.views:
            rows = history.sql(f"DESCRIBE {view.name}").rows()
            assert [(row["column_name"], row["column_type"]) for row in rows] == [
                (each.name, each.type) for each in view.columns
            ]
            assert all(each.meaning for each in view.columns)
        assert [view.name for view in found.views] == [view.name for view in VIEWS]
        for example in EXAMPLES:
            history.sql(example.sql)


def test_one_answer_in_three_forms(api: Any, collector: Any) -> None:
    """CSV and Parquet, read back by others, have the rows of the JSON; the configured limit holds."""
    answers = ask(
        api, collector.folder, *({"sql": BIG, "format": form} for form in ("json", "csv", "parquet"))
    )
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    table = m.Table.model_validate(answers[0].json())
    *types, nothing = table.types
    assert types == ["UBIGINT", "TIMESTAMP_NS", "VARCHAR", "UBIGINT", "UINTEGER[]"]
    assert nothing in ("INTEGER", "NULL")  # of DuckDB 1.5, and of 2
    assert (len(table.rows), table.truncated) == (5, True)
    assert all(answer.headers[TRUNCATED] == "true" for answer in answers)
    head, *rows = csv.reader(io.StringIO(answers[1].text))
    assert head == table.columns
    assert [row[:4] for row in rows] == [[str(value) for value in row[:4]] for row in table.rows]
    assert {row[5] for row in rows} == {""}
    assert rows[0][4] == str(table.rows[0][4] or "")
    path = collector.folder / "answer.parquet"
    path.write_bytes(answers[2].content)
    with duckdb.connect() as connection:
        back = connection.execute(f"SELECT sequence, kind, flow_id::VARCHAR FROM '{path}'").fetchall()
    assert back == [(row[0], row[2], str(row[3])) for row in table.rows]


def test_no_cell_of_csv_is_a_formula(api: Any, collector: Any) -> None:
    """Text and headings that a spreadsheet would run begin with an apostrophe; numbers and JSON stay."""
    query = """SELECT '=1+1' AS "@a", -5 AS b, -0.5::DECIMAL(3, 1) AS c, NULL AS d, TRUE AS e, ['=1'] AS f"""
    answers = ask(api, collector.folder, *({"sql": query, "format": form} for form in ("csv", "json")))
    found = list(csv.reader(io.StringIO(answers[0].text)))
    assert found == [["'@a", "b", "c", "d", "e", "f"], ["'=1+1", "-5", "-0.5", "", "true", '["=1"]']]
    assert answers[1].json()["rows"][0][0] == "=1+1"


def test_an_error_says_where_and_what_to_try(api: Any, collector: Any) -> None:
    """Every form answers 400 with DuckDB's candidates and the place in the query; others have no place."""
    wrong = "SELECT time,\n  valeu\nFROM events"
    answers = ask(
        api, collector.folder,
        *({"sql": wrong, "format": form} for form in ("json", "csv", "parquet")),
        {"sql": "DROP VIEW events"},
    )  # fmt: skip
    assert {answer.status_code for answer in answers} == {400}
    for answer in answers[:3]:
        problem = answer.json()
        assert '"value"' in problem["error"]
        assert (problem["line"], problem["column"]) == (2, 3)
    assert answers[3].json()["line"] is None


def test_a_lake_that_is_away_is_no_internal_error(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the fault of the query: 503, with the reason."""

    def away(*_: Any) -> None:
        raise LakeError("postgresql://lake: Connection refused")

    monkeypatch.setattr(SharedHistory, "sql", away)
    (answer,) = ask(api, collector.folder, {"sql": "SELECT 1"})
    assert (answer.status_code, answer.json()["error"]) == (503, "postgresql://lake: Connection refused")
