"""PostgreSQL, and TimescaleDB: events by binary COPY.

A block is one transaction, which also writes the block's numbers into `int_block`: a copy of the block finds
them there, and writes nothing. No event is duplicated, however often the server or the collector is killed.

The client is pg8000 (BSD), not psycopg (LGPL): its COPY passes bytes on unchanged, so it does not matter that
it is written in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pg8000.native
from pg8000.exceptions import Error

from ...base.errors import described
from ...base.names import Names
from ...detect.records import NO_PORT
from ...settings.destinations.databases import PostgresSettings
from ...wire.records import Records
from ..block import EventBlock
from ..credentials import secret, tls_context
from ..destination import Context, DeliveryError, Destination
from .postgres_schema import copy_rows, days, migrations

_MIGRATING = 0x686F70
"""Advisory lock for migrations."""


class Postgres(Destination):
    """One database."""

    Settings = PostgresSettings
    settings: PostgresSettings

    def __init__(self, settings: PostgresSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._connection: Any = None
        self._hypertable = False
        self._days: set[str] = set()

    def connect(self) -> None:
        """Create missing tables, if `create` is set, and write the names of nodes and ports."""
        settings = self.settings
        self.close()
        password = secret(settings.password) if settings.password else None
        tls = tls_context(settings) if settings.tls else None
        with _named():
            local = settings.host.startswith("/")
            self._connection = pg8000.native.Connection(
                settings.user,
                host=None if local else settings.host,
                unix_sock=f"{settings.host}/.s.PGSQL.{settings.port}" if local else None,
                port=settings.port,
                database=settings.database,
                password=password,
                ssl_context=tls,
                timeout=settings.timeout_seconds,
                application_name="hopscope",
            )
            ((self._hypertable,),) = self._run("SELECT to_regproc('create_hypertable') IS NOT NULL")
            if settings.create:
                self._migrate(settings.schema_name)
            self._write_names(self.context.names)

    def _migrate(self, schema: str) -> None:
        """Apply the migrations that `int_migration` does not list, in one transaction, one collector at a
        time.
        """
        with self._transaction():
            self._run(f"SELECT pg_advisory_xact_lock({_MIGRATING})")
            self._run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            self._run(
                f"CREATE TABLE IF NOT EXISTS {schema}.int_migration"
                " (number integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
            )
            ((done,),) = self._run(f"SELECT coalesce(max(number), 0) FROM {schema}.int_migration")
            for number, statements in enumerate(migrations(schema, self._hypertable), 1):
                if number > done:
                    for statement in statements:
                        self._run(statement)
                    self._run(f"INSERT INTO {schema}.int_migration (number) VALUES ({number})")

    def _write_names(self, names: Names) -> None:
        """Write names of ports, and of nodes with NO_PORT; newer names replace older ones."""
        rows = [(node, NO_PORT, name) for node, name in names.nodes.items()]
        rows += [(node, port, name) for (node, port), name in names.ports.items()]
        with self._transaction():
            for node, port, name in rows:
                self._run(
                    f"INSERT INTO {self.settings.schema_name}.int_name VALUES (:node, :port, :name)"
                    " ON CONFLICT (node_id, port) DO UPDATE SET name = excluded.name",
                    node=node,
                    port=port,
                    name=name.replace("\0", "\N{REPLACEMENT CHARACTER}"),  # invalid in text
                )

    def send(self, block: EventBlock) -> None:
        """Write a block in one transaction, unless it has been written already."""
        schema = self.settings.schema_name
        with _named(), self._transaction():
            fresh = self._run(
                f"INSERT INTO {schema}.int_block VALUES (:member, :shard, :first, :last, :time)"
                " ON CONFLICT DO NOTHING RETURNING 1",
                member=block.member,
                shard=block.shard,
                first=block.first,
                last=block.last,
                time=int(block.records["time_ns"][0]),
            )
            if not fresh:
                return
            made = self._partitions(block.records)
            rows = copy_rows(block)
            self._run(f"COPY {schema}.int_event FROM STDIN WITH (FORMAT binary)", stream=iter([rows]))
        self._days |= made
        self.context.count("bytes_total", len(rows))

    def _partitions(self, events: Records) -> set[str]:
        """Create the partitions for the days of the events; returns the days."""
        if self._hypertable or not self.settings.create:
            return set()
        wanted = set(days(events))
        for day in wanted - self._days:
            table = f"{self.settings.schema_name}.int_event"
            self._run(
                f"CREATE TABLE IF NOT EXISTS {table}_{day.replace('-', '')} PARTITION OF {table} FOR VALUES"
                f" FROM ('{day} 00:00+00') TO (timestamptz '{day} 00:00+00' + INTERVAL '24 hours')"
            )
        return wanted

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._run("BEGIN")
        try:
            yield
        except BaseException:
            with suppress(Error, OSError):
                self._run("ROLLBACK")
            raise
        self._run("COMMIT")

    def _run(self, statement: str, **given: Any) -> Any:
        """The rows that a statement returns."""
        return self._connection.run(statement, **given)

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        self._days.clear()
        if connection is not None:
            with suppress(Error, OSError):
                connection.close()


@contextmanager
def _named() -> Iterator[None]:
    """Convert errors of the client to DeliveryError: rejected values are final, all else is retried."""
    try:
        yield
    except (Error, OSError) as error:
        fields = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        code, message = str(fields.get("C", "")), fields.get("M", described(error))
        again = not code.startswith("22")  # data exceptions
        raise DeliveryError(f"{message} ({code})" if code else str(message), again) from None
