"""Models of SQL over history."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .common import Body, ClusterModel, Error, Model


class Query(Body):
    """A read-only SQL query over history."""

    sql: str = Field(min_length=1, max_length=20_000)
    """One SELECT; `GET /api/v0/sql/schema` describes the views."""
    limit: int = Field(default=1000, ge=1, le=1_000_000)
    """Maximum number of rows; the settings may allow fewer."""
    format: Literal["json", "csv", "parquet"] = "json"
    """Format of the answer; Parquet is available for the history of one member only."""


class Table(ClusterModel):
    """Rows of a query."""

    columns: list[str]
    types: list[str]
    """DuckDB type of each column."""
    rows: list[list[object]]
    """64-bit numbers above 2^53 - 1 are decimal text, times RFC 3339."""
    truncated: bool
    """The result has more rows than the limit."""
    seconds: float
    """Time that the query took."""


class SqlRejected(Error):  # noqa: N818
    """Why a query was not answered, with DuckDB's hint."""

    line: int | None = None
    """Line of the query, from 1; null: unknown."""
    column: int | None = None
    """Column in the line, from 1; null: unknown."""


class SqlColumn(Model):
    """A column of a view."""

    name: str
    type: str
    """Its DuckDB type."""
    unit: str
    """Empty: none, or the unit that the source sends."""
    meaning: str


class SqlView(Model):
    """A view."""

    name: str
    meaning: str
    columns: list[SqlColumn]


class SqlExample(Model):
    """An example query."""

    title: str
    sql: str


class SqlLimits(Model):
    """Limits of queries, from the settings."""

    rows: int
    seconds: float
    memory_bytes: int


class SqlSchema(Model):
    """Views, columns, examples and limits of SQL queries."""

    views: list[SqlView]
    cluster_columns: list[SqlColumn]
    """Additional columns of `events` in queries over the lake of a cluster."""
    examples: list[SqlExample]
    limits: SqlLimits
