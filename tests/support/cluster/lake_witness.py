"""What is in a lake, read without our code: its catalog by psql, its files by PyArrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hopscope.settings.lake import LakeSettings
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server


def live_files(database: PostgresServer, settings: LakeSettings) -> list[str]:
    """Files of `events` in the newest snapshot, below the folder of the lake's files."""
    rows = database.query(
        f"SELECT s.path || t.path || f.path AS path, path_is_relative_all FROM (SELECT *, path_is_relative AS"
        f" path_is_relative_all FROM {settings.schema_name}.ducklake_data_file) f"
        f" JOIN {settings.schema_name}.ducklake_table t USING (table_id)"
        f" JOIN {settings.schema_name}.ducklake_schema s USING (schema_id)"
        " WHERE t.table_name = 'events' AND f.end_snapshot IS NULL"
    )
    assert all(row["path_is_relative_all"] for row in rows)
    return [row["path"] for row in rows]


def events_of(database: PostgresServer, settings: LakeSettings, copy: Path) -> pa.Table:
    """All events of the newest snapshot; `copy` has the lake's files."""
    deleted = database.query(
        f"SELECT 1 FROM {settings.schema_name}.ducklake_delete_file WHERE end_snapshot IS NULL"
    )
    assert not deleted  # whole files alone are deleted
    columns = ["member", "incarnation", "shard", "sequence", "value", "time"]
    files = live_files(database, settings)
    tables = [pq.ParquetFile(copy / path).read(columns=columns) for path in files]
    return pa.concat_tables(tables)


def marks_of(database: PostgresServer, settings: LakeSettings) -> dict[tuple[str, int], int]:
    """The mark of each member and shard."""
    schema = settings.schema_name
    (table,) = database.query(
        f"SELECT i.table_name AS name FROM {schema}.ducklake_inlined_data_tables i"
        f" JOIN {schema}.ducklake_table t USING (table_id) WHERE t.table_name = 'marks'"
    )
    rows = database.query(
        f"SELECT convert_from(member, 'UTF8') AS member, shard, max(next::numeric) AS mark"
        f" FROM {schema}.{table['name']} WHERE end_snapshot IS NULL GROUP BY 1, 2"
    )
    return {(row["member"], int(row["shard"])): int(row["mark"]) for row in rows}


def download(store: S3Server, settings: LakeSettings, folder: Path) -> Path:
    """Copy the lake's files out of the bucket."""
    store.download(f"{settings.data.removeprefix('s3://')}/{settings.schema_name}", folder)
    return folder


def sequences(events: pa.Table) -> dict[tuple[str, int], list[Any]]:
    """Sorted sequences of each member and shard."""
    found: dict[tuple[str, int], list[Any]] = {}
    columns = (events[name].to_pylist() for name in ("member", "shard", "sequence"))
    for member, shard, sequence in zip(*columns, strict=True):
        found.setdefault((member, shard), []).append(sequence)
    return {key: sorted(values) for key, values in found.items()}
