"""Routes of SQL over history: the views, and one SELECT with its result as JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ....history.errors import HistoryError
from ....present.events import all_wide
from ....present.history import SharedHistory
from ....present.spreadsheet import escape_formula
from ...context import Context, Ctx
from ...models import sql as m
from ...models.common import Cluster
from ...scope import asks_cluster
from ..router import api_router

if TYPE_CHECKING:
    from ....history.reading.table import Table

router = api_router("history", "/sql")
TRUNCATED = "hopscope-truncated"
"""Header: `true` if the result has more rows than the limit."""
CLUSTER = "hopscope-cluster"
"""Header of an answer from several members: the object `cluster`, for which CSV has no place."""
_ROWS_AT_A_TIME = 2000
_FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rows; the header `hopscope-truncated` says whether there are more, and "
        "`hopscope-cluster`, with `scope=cluster`, which members answered",
        "model": m.Table,
        "content": {
            "text/csv": {"schema": {"type": "string"}},
            "application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}},
        },
    },
    400: {"model": m.SqlRejected, "description": "Invalid parameter or query"},
}


@router.get("/schema", summary="Views and columns of SQL")
async def schema(context: Ctx) -> m.SqlSchema:
    """Every view with its columns, their types, units and meaning; example queries; and the limits."""
    settings = context.settings
    limits = m.SqlLimits(
        rows=settings.sql_rows, seconds=settings.sql_seconds, memory_bytes=settings.sql_memory_bytes
    )
    return m.SqlSchema(**_described(), limits=limits)


@cache
def _described() -> dict[str, Any]:
    from ....history.schema import CLUSTER_COLUMNS, EXAMPLES, VIEWS  # history needs DuckDB

    return {
        "views": [m.SqlView.model_validate(view, from_attributes=True) for view in VIEWS],
        "cluster_columns": [
            m.SqlColumn.model_validate(each, from_attributes=True) for each in CLUSTER_COLUMNS
        ],
        "examples": [m.SqlExample.model_validate(each, from_attributes=True) for each in EXAMPLES],
    }


@router.post("", summary="Read-only SQL over history", response_model=m.Table, responses=_FILES)
async def sql(context: Ctx, request: Request, query: m.Query) -> Response:
    """One SELECT over history, within the limits of time, memory and rows from the settings."""
    try:
        if query.format == "parquet":
            return await _parquet(context, request, query)
        found = await context.query(request, lambda past, gone: _Answer(context, past, query, gone))
    except HistoryError as error:
        place = {name: getattr(error, name, None) for name in ("line", "column")}
        return JSONResponse({"error": " ".join(str(error).split()), **place}, 400)
    if query.format == "csv":
        return StreamingResponse(
            _csv(found.table),
            media_type="text/csv; charset=utf-8",
            headers=found.headers() | _attachment("csv"),
        )
    return JSONResponse(found.as_json(), headers=found.headers())


class _Answer:
    """A table, its rows as JSON, and (from `Context.query`) the members of a cluster that answered."""

    def __init__(self, context: Context, past: SharedHistory, query: m.Query, gone: threading.Event) -> None:
        begin = time.monotonic()
        rows = min(query.limit, context.settings.sql_rows)
        self.table: Table = past.sql(query.sql, rows, context.settings, gone)
        self.seconds = time.monotonic() - begin
        self.rows: list[Any] = []
        if query.format == "json":
            columns = [[all_wide(value) for value in column] for column in self.table.lists()]
            self.rows = list(zip(*columns, strict=True))
        self.cluster: Cluster | None = None

    def as_json(self) -> dict[str, Any]:
        """As `m.Table`."""
        body: dict[str, Any] = {
            "columns": list(self.table.columns),
            "types": list(self.table.types),
            "rows": self.rows,
            "truncated": self.table.truncated,
            "seconds": round(self.seconds, 4),
        }
        return body if self.cluster is None else {"cluster": self.cluster.model_dump(), **body}

    def headers(self) -> dict[str, str]:
        """Headers with the information for which CSV has no place."""
        found = _truncated(self.table.truncated)
        return found if self.cluster is None else {**found, CLUSTER: json.dumps(self.cluster.model_dump())}


async def _parquet(context: Context, request: Request, query: m.Query) -> Response:
    if asks_cluster(request):
        raise HTTPException(400, "format: Parquet is for one member's history, expected json or csv")
    rows = min(query.limit, context.settings.sql_rows)
    found = await context.query(
        request, lambda past, gone: past.parquet(query.sql, rows, context.settings, gone)
    )
    return Response(
        found.content,
        media_type="application/vnd.apache.parquet",
        headers=_truncated(found.truncated) | _attachment("parquet"),
    )


def _truncated(truncated: bool) -> dict[str, str]:
    return {TRUNCATED: str(truncated).lower()}


def _attachment(ending: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="answer.{ending}"'}


def _csv(table: Table) -> Iterator[str]:
    """A table as CSV (RFC 4180), some rows at a time. NULL is an empty field, lists are as in JSON, and no
    text can be read as a formula.
    """
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(map(escape_formula, table.columns))
    for number, row in enumerate(zip(*table.lists(), strict=True), 1):
        writer.writerow([_cell(value) for value in row])
        if number % _ROWS_AT_A_TIME == 0:
            yield written.getvalue()
            written.seek(0)
            written.truncate()
    yield written.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return json.dumps(value)
    return value if value is None or isinstance(value, int | float | Decimal) else escape_formula(str(value))
