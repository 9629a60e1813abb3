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
    """Maximum number of rows; the configuration may allow fewer."""
    format: Literal["json", "csv", "parquet"] = "json"
    """Form of the answer; Parquet is made of the history of one member."""


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
    """Time that it took."""


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
    """Empty: none, or as the source sends it."""
    meaning: str


class SqlView(Model):
    """A view."""

    name: str
    meaning: str
    columns: list[SqlColumn]


class SqlExample(Model):
    """A query to begin with."""

    title: str
    sql: str


class SqlLimits(Model):
    """Limits of a query, from the configuration."""

    rows: int
    seconds: float
    memory_bytes: int


class SqlSchema(Model):
    """What SQL can ask."""

    views: list[SqlView]
    cluster_columns: list[SqlColumn]
    """Further columns of `events` in queries over a lake of all members."""
    examples: list[SqlExample]
    limits: SqlLimits
