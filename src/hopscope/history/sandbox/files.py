"""The data of a user's SQL query over a cluster: Parquet files, and events that are sent with the query.

The process has neither the catalog nor its password, and no extension that reaches a database. The files are
allowed one by one. If a whole folder of a bucket were allowed, `FROM 's3://BUCKET/FOLDER/../x'` would be
requested from the store, and `FROM 's3://BUCKET/FOLDER/x?s3_endpoint=HOST'` from another host.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np

from ...detect.records import EVENT
from ..columns import COLUMNS, quoted, register

NAMES = ", ".join(("member", *(name for name, _ in COLUMNS), "incarnation"))
"""Columns of the events of several members, in order."""


def open_files(connection: duckdb.DuckDBPyConnection, source: dict[str, Any], body: bytes) -> None:
    """Create the view `events`.

    `source`: `files`, paths or s3:// URLs; `before`, SQL statements that make them readable; `tails`, a list
    of (member, incarnation, number of EVENT records), whose records follow each other in `body`.
    """
    for statement in source["before"]:
        connection.execute(statement)
    parts = []
    if source["files"]:
        files = ", ".join(map(quoted, source["files"]))
        # parts of the path, such as `day=1`, must not become columns
        parts.append(f"SELECT {NAMES} FROM read_parquet([{files}], hive_partitioning = false)")
    events = np.frombuffer(body, EVENT)
    at = 0
    for member, incarnation, rows in source["tails"] or [("", "", 0)]:
        parts.append(of_member(connection, f"tail_{len(parts)}", member, incarnation, events[at : at + rows]))
        at += rows
    connection.execute(f"CREATE VIEW events AS {' UNION ALL '.join(parts)}")


def of_member(
    connection: duckdb.DuckDBPyConnection, name: str, member: str, incarnation: str, events: Any
) -> str:
    """Register EVENT records of one member as table `name`; returns the SELECT of NAMES from it."""
    source = register(connection, name, events)
    owner = f"{quoted(member)} AS member, {quoted(incarnation)} AS incarnation"
    return f"SELECT {NAMES} FROM (SELECT *, {owner} FROM ({source}))"
