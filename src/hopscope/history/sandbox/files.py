"""What a user's SQL reads at the scope of a cluster: Parquet files, and events that came with the query.

The process has neither the catalog nor its password, and no extension that reaches a database.  The files are
listed one by one: with a folder of a bucket allowed, `FROM 's3://BUCKET/FOLDER/../x'` and
`FROM 's3://BUCKET/FOLDER/x?s3_endpoint=HOST'` would be asked of the store, or of another host.
"""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np

from ...detect.records import EVENT
from ..columns import COLUMNS, quoted, register

NAMES = ", ".join(("member", *(name for name, _ in COLUMNS), "incarnation"))
"""Columns of events of several members, in order."""


def open_files(connection: duckdb.DuckDBPyConnection, source: dict[str, Any], body: bytes) -> None:
    """Make the view `events`.

    `source`: `files`, paths or s3:// URLs; `before`, statements that make them readable; `tails`, a list of
    member, incarnation and number of EVENT records, which follow each other in `body`.
    """
    for statement in source["before"]:
        connection.execute(statement)
    parts = []
    if source["files"]:
        files = ", ".join(map(quoted, source["files"]))
        # parts of the path are no columns
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
    who = f"{quoted(member)} AS member, {quoted(incarnation)} AS incarnation"
    return f"SELECT {NAMES} FROM (SELECT *, {who} FROM ({source}))"
