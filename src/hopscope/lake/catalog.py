"""The lake: DuckLake, with its catalog in PostgreSQL and its files in a folder or an S3 bucket.

`events`: a row is an event, identified by (member, incarnation, shard, sequence). The columns are those of
`history/columns`, then `member` and `incarnation`, both VARCHAR. The table is partitioned by day of `time`,
UTC.

`marks`: a row is a commit of a shard's events: `member`, `incarnation`, `shard` USMALLINT, `next` UBIGINT,
`time` TIMESTAMP_NS. The mark of a shard, the first event that the lake does not have, is the highest `next`.

`gaps`: a row states that a number of events of a shard (`events`), from `first` to before `next`, are below
the mark but not in the lake: `member`, `incarnation`, `shard`, `first`, `next`, `events` UBIGINT, `reason`
VARCHAR, `time`. Reasons are `history` (local history had lost them), `retention` (deleted because of their
age), and `missing` (the member will write those that it still has).

A member's events are committed in one transaction with their marks. All members of a lake use one schema of
the database. Beside DuckLake's tables, it has two of our own: `hopscope_lake` (version of the tables, and a
generation, which changes when the catalog is rebuilt) and `hopscope_member` (which incarnation writes as a
member).
"""

from __future__ import annotations

import os
import secrets
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from ..history.columns import COLUMNS, quoted
from ..settings.destinations import shown
from ..settings.lake import LakeSettings
from .database import COMMIT, Address, Database, LakeError
from .extensions import connect_with_extensions

__all__ = ["VERSION", "Lake", "LakeError", "create"]

VERSION = 1
"""Version of the tables; a lake with a later version is rejected."""
EVENT_COLUMNS = ", ".join(name for name, _ in COLUMNS) + ", member, incarnation"
"""Columns of `events`, in order."""
_OF_SHARD = "member VARCHAR, incarnation VARCHAR, shard USMALLINT"
_CATALOG = "lake"
_SESSION = (
    "connect_timeout=10 keepalives=1 keepalives_idle=10 keepalives_interval=5 keepalives_count=3 "
    "tcp_user_timeout=20000 application_name='hopscope lake' "
    "options='-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 "
    "-c idle_in_transaction_session_timeout=600s'"
)
"""Connection options, by which neither end waits long if the other one disappears silently."""
_MARK_ROWS = 4096
"""If a commit has fewer marks, they become rows in the database instead of files."""


class Lake:
    """DuckDB with the lake attached, which must exist (`create`); only one thread may use it at a time.

    `read_only`: nothing can be written. `connection`: a result of `prepared`, instead of `memory_bytes` and
    `threads`. LakeError: the lake cannot be reached, does not exist, or has a later version.
    """

    def __init__(
        self,
        settings: LakeSettings,
        *,
        read_only: bool = False,
        memory_bytes: int = 1024**3,
        threads: int = 2,
        schema: str | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self.settings = settings
        self.schema = schema or settings.schema_name
        """The catalog's schema in the database."""
        self.connection = connection or prepared(settings, memory_bytes=memory_bytes, threads=threads)
        """DuckDB; its method `cursor()` makes connections for other threads."""
        try:
            self._attach(read_only)
        except BaseException:
            end(self.connection)
            raise

    @property
    def events(self) -> str:
        """Name of the table in SQL."""
        return self.table("events")

    @property
    def marks(self) -> str:
        """Name of the table in SQL."""
        return self.table("marks")

    @property
    def gaps(self) -> str:
        """Name of the table in SQL."""
        return self.table("gaps")

    def table(self, name: str) -> str:
        """Name of a table in SQL."""
        return f"{_CATALOG}.hopscope.{name}"

    @property
    def name(self) -> str:
        """Name of the attached database in DuckDB, for DuckLake's functions."""
        return _CATALOG

    def snapshot(self) -> int:
        """Number of the newest snapshot; `FROM {lake.events} AT (VERSION => n)` reads it as long as it is
        kept.
        """
        row = self.connection.execute(f"SELECT id FROM {_CATALOG}.current_snapshot()").fetchone()
        assert row is not None
        return int(row[0])

    def generation(self) -> str:
        """The catalog's generation, which changes when the catalog is rebuilt."""
        return self._own()[1]

    def _attach(self, read_only: bool) -> None:
        mode = "READ_ONLY" if read_only else "CREATE_IF_NOT_EXISTS false"
        try:
            self.connection.execute(
                f"ATTACH 'ducklake:lake' AS {_CATALOG} (METADATA_SCHEMA {quoted(self.schema)}, {mode})"
            )
            version, _ = self._own()
        except duckdb.Error as error:
            raise self.named(error) from None
        if version > VERSION:
            raise LakeError(
                f"{self.settings.place}: the lake has version {version}, and this Hopscope knows {VERSION}; "
                "use the version that made it"
            )

    def _own(self) -> tuple[int, str]:
        """The lake's version and generation."""
        row = self.connection.execute(
            f"SELECT version, generation FROM __ducklake_metadata_{_CATALOG}.{self.schema}.hopscope_lake"
        ).fetchone()
        if row is None:
            raise LakeError(f"{self.settings.place}: there is no lake; a start with [lake] makes one")
        return int(row[0]), str(row[1])

    def named(self, error: duckdb.Error) -> LakeError:
        """A DuckDB error as a LakeError with one line, without the options of the connection."""
        text = _line(error)
        if "creating a new DuckLake is explicitly disabled" in text or "hopscope_lake" in text:
            return LakeError(
                f"{self.settings.place}: there is no lake in schema {self.schema}; "
                "a collector with these settings makes one when it starts, or: hopscope lake init"
            )
        if "DATA_PATH" in text:
            return LakeError(f"{self.settings.place}: the lake's files are elsewhere ({text[:300]})")
        return LakeError(f"{self.settings.place}: {text}")

    def close(self) -> None:
        """Close DuckDB and its connections to the database."""
        end(self.connection)

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prepared(settings: LakeSettings, *, memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """A DuckDB that is ready to attach the lake. This takes a quarter of a second, and needs no server.
    LakeError: a key or a file of certificates cannot be read.
    """
    connection = connect_with_extensions(memory_bytes, threads)
    try:
        _configure(connection, settings)
        _make_secrets(connection, settings)
    except BaseException:
        connection.close()
        raise
    return connection


def end(connection: duckdb.DuckDBPyConnection) -> None:
    """Close a connection to the lake, whatever state it is in.

    First, its transaction is rolled back: if closing has to do so after the database is gone, DuckDB aborts
    the process.
    """
    for step in (partial(connection.execute, "ROLLBACK"), connection.close):
        with suppress(duckdb.Error):
            step()


@contextmanager
def alone(lake: Lake, database: Database) -> Iterator[None]:
    """A transaction during which no member commits. DuckLake refuses to delete from a table into which others
    have inserted meanwhile; with many members, one always has.
    """
    with database.locked(COMMIT):
        lake.connection.execute("BEGIN")
        yield
        lake.connection.execute("COMMIT")


def create(settings: LakeSettings, database: Database | None = None) -> bool:
    """Create the lake if it does not exist; returns whether it did not. Many processes may do so at once.

    LakeError: the database or the store cannot be reached or refuses, or the database's messages are not in
    English.
    """
    if database is None:
        with Database(settings) as database:
            return create(settings, database)
    database.check_language()
    database.lock("create")
    try:
        if _exists(database, settings.schema_name):
            return False
        make_tables(settings, settings.schema_name, database)
        return True
    finally:
        with suppress(LakeError):
            database.unlock("create")


def _exists(database: Database, schema: str) -> bool:
    ((found,),) = database.run("SELECT to_regclass(:name) IS NOT NULL", name=f"{schema}.hopscope_lake")
    return bool(found) and bool(database.run(f"SELECT 1 FROM {schema}.hopscope_lake"))


def make_tables(settings: LakeSettings, schema: str, database: Database) -> None:
    """Create the catalog in a schema of the database; an incomplete one of a killed process is replaced."""
    if settings.data.startswith("/"):
        try:
            Path(settings.data).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(f"{settings.data}: {error.strerror}") from None
    database.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    database.run(f"CREATE SCHEMA {schema}")
    database.run(f"CREATE TABLE {schema}.hopscope_lake (version integer, generation text, made timestamptz)")
    database.run(
        f"CREATE TABLE {schema}.hopscope_member"
        " (member text PRIMARY KEY, incarnation text NOT NULL, since timestamptz NOT NULL DEFAULT now())"
    )
    connection = prepared(settings, memory_bytes=256 * 1024**2, threads=1)
    try:
        connection.execute(f"ATTACH 'ducklake:lake' AS {_CATALOG} (METADATA_SCHEMA {quoted(schema)})")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
        made = f"{_CATALOG}.hopscope"
        for statement in (
            f"SELECT * FROM glob({quoted(files_folder(settings) + '*')}) LIMIT 1",  # fails without the bucket
            "BEGIN",
            f"CREATE SCHEMA {made}",
            f"CREATE TABLE {made}.events ({columns}, member VARCHAR, incarnation VARCHAR)",
            f"ALTER TABLE {made}.events SET PARTITIONED BY (year(time), month(time), day(time))",
            f"CREATE TABLE {made}.marks ({_OF_SHARD}, next UBIGINT, time TIMESTAMP_NS)",
            f"CREATE TABLE {made}.gaps ({_OF_SHARD}, first UBIGINT, next UBIGINT, events UBIGINT,"
            " reason VARCHAR, time TIMESTAMP_NS)",
            "COMMIT",
            f"CALL {_CATALOG}.set_option('parquet_compression', 'zstd')",
            *(
                f"CALL {_CATALOG}.set_option('data_inlining_row_limit', {rows}, table_name => '{table}',"
                " schema => 'hopscope')"
                for table, rows in (("events", 0), ("marks", _MARK_ROWS), ("gaps", _MARK_ROWS))
            ),
        ):
            connection.execute(statement)
    except duckdb.Error as error:
        raise LakeError(f"{settings.place}: {_line(error)}") from None
    finally:
        end(connection)
    database.run(
        f"INSERT INTO {schema}.hopscope_lake VALUES ({VERSION}, :generation, now())",
        generation=secrets.token_hex(8),
    )


def files_folder(settings: LakeSettings) -> str:
    """The folder of the lake's files, with a slash at the end; it may contain nothing else."""
    return f"{settings.data.rstrip('/')}/{settings.schema_name}/"


def events_folder(settings: LakeSettings) -> str:
    """The folder of the files of `events`, which has a folder for each day."""
    return f"{files_folder(settings)}hopscope/events/"


def insert_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: list[list[str | int]]) -> None:
    """Insert rows; the last column, the time, is added.

    Values are written as literals: for parameters, DuckDB imports Pandas if it is installed, which takes 1.5
    CPU seconds.
    """
    if not rows:
        return
    now = f"make_timestamp_ns({time.time_ns()})"
    texts = ([quoted(v) if isinstance(v, str) else str(v) for v in row] for row in rows)
    values = ", ".join(f"({', '.join([*row, now])})" for row in texts)
    connection.execute(f"INSERT INTO {table} VALUES {values}")


def _configure(connection: duckdb.DuckDBPyConnection, settings: LakeSettings) -> None:
    """Set how often DuckLake retries, and how to reach the store. LakeError: see `store_statements`."""
    for statement in ("SET ducklake_max_retry_count = 100", *store_statements(settings)):
        connection.execute(statement)


def store_statements(settings: LakeSettings) -> list[str]:
    """SQL statements that let DuckDB, with httpfs, read the lake's files; they contain the key. LakeError: a
    file of certificates is missing, or the key cannot be read.
    """
    ca_file = certificates(settings)
    values = {
        "http_timeout": "20",
        "http_retries": "2",
        "http_proxy": "''",
        "enable_server_cert_verification": "true",
        **({"ca_cert_file": quoted(ca_file)} if ca_file else {}),
    }
    # GLOBAL, since DuckLake has sessions of its own
    found = [f"SET GLOBAL {name} = {value}" for name, value in values.items()]
    if settings.data.startswith("s3://"):
        found.append(f"CREATE SECRET store ({_store(settings)})")
    return found


def certificates(settings: LakeSettings) -> str:
    """The file of certificates that verify servers; empty if none is known. LakeError: it is missing."""
    if settings.ca_file is not None:
        if not os.access(settings.ca_file, os.R_OK):
            raise LakeError(f"{settings.ca_file}: it is missing, or cannot be read")
        return str(settings.ca_file)
    found = ssl.get_default_verify_paths()
    return found.cafile or ""


def _make_secrets(connection: duckdb.DuckDBPyConnection, settings: LakeSettings) -> None:
    """Give DuckDB passwords and keys as secrets, which no error message shows.
    LakeError: one cannot be read.
    """
    address = Address.of(settings)
    connection.execute(
        f"CREATE SECRET database (TYPE postgres, HOST {quoted(address.host)}, PORT {address.port},"
        f" DATABASE {quoted(address.database)}, USER {quoted(address.user)}"
        + (f", PASSWORD {quoted(address.password)})" if address.password is not None else ")")
    )
    tls = "sslmode=disable"
    if settings.tls:
        ca_file = certificates(settings)
        tls = f"sslmode=verify-full sslrootcert='{ca_file or 'system'}'"
    connection.execute(
        f"CREATE SECRET lake (TYPE ducklake, METADATA_PATH {quoted(f'{_SESSION} {tls}')},"
        f" DATA_PATH {quoted(files_folder(settings))},"
        " METADATA_PARAMETERS MAP {'TYPE': 'postgres', 'SECRET': 'database'})"
    )


def _store(settings: LakeSettings) -> str:
    """The secret that describes the S3 server."""
    words = ["TYPE s3", f"REGION {quoted(settings.region)}"]
    if settings.endpoint:
        parts = urlsplit(settings.endpoint)
        words += [f"ENDPOINT {quoted(parts.netloc + parts.path.rstrip('/'))}", "URL_STYLE 'path'"]
        words += [f"USE_SSL {'true' if parts.scheme == 'https' else 'false'}"]
    if settings.access_key:
        try:
            key = shown.secret(settings.secret)
        except (ValueError, OSError) as error:
            raise LakeError(f"lake.secret cannot be read: {error}") from None
        words += [f"KEY_ID {quoted(settings.access_key)}", f"SECRET {quoted(key)}"]
    return ", ".join(words)


def _line(error: duckdb.Error) -> str:
    """The cause of a DuckDB error as one line, without the options of the connection."""
    text = " ".join(str(error).split())
    _, found, cause = text.rpartition("connection to server")
    return found + cause if found else text.replace(_SESSION, "")[:400]
