"""ClickHouse: events as RowBinary over HTTP, with roll-ups by minute that the server keeps.

Each block is one INSERT with the block's id as its deduplication token: current servers insert a copy neither
into the events nor into the roll-ups. Older servers insert it again; the table then has equal rows until it
merges them, and `SELECT … FINAL` returns each event once.
"""

from __future__ import annotations

import time

from ...settings.destinations.databases import ClickHouseSettings
from ..block import EventBlock
from ..credentials import secret
from ..destination import Context, DeliveryError, Destination
from ..http import HttpClient
from .clickhouse_schema import MODERN, RowEncoder, migrations, name_rows


class ClickHouse(Destination):
    """One server."""

    Settings = ClickHouseSettings
    settings: ClickHouseSettings
    _client: HttpClient

    def __init__(self, settings: ClickHouseSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = RowEncoder(context.member)
        self._modern = False

    def connect(self) -> None:
        """Create missing tables, if `create` is set, and write the names of nodes and ports."""
        settings = self.settings
        self.close()
        headers = {"x-clickhouse-user": settings.user}
        if settings.password:
            headers["x-clickhouse-key"] = secret(settings.password)
        self._client = HttpClient(settings.url, headers, settings, settings.timeout_seconds)
        version = self._run("SELECT version()").strip()
        self._modern = tuple(int(part) for part in version.split(".")[:2]) >= MODERN
        if not self._modern and (settings.ttl_days or settings.minute_ttl_days):
            raise DeliveryError(f"ClickHouse {version} has no TTL: ttl_days and minute_ttl_days must be 0")
        if settings.create:
            self._migrate(settings.database)
            self._expire("int_event", "time", settings.ttl_days)
            self._expire("int_event_minute", "minute", settings.minute_ttl_days)
        if names := name_rows(self.context.names, int(time.time())):
            self._insert("int_name", names, {})

    def _migrate(self, database: str) -> None:
        """Apply the migrations that `int_migration` does not list."""
        self._run(f"CREATE DATABASE IF NOT EXISTS {database}")
        self._run(
            f"CREATE TABLE IF NOT EXISTS {database}.int_migration (number UInt32, applied DateTime)"
            " ENGINE = ReplacingMergeTree(applied) ORDER BY number"
        )
        done = int(self._run(f"SELECT max(number) FROM {database}.int_migration"))
        for number, statements in enumerate(migrations(database, self._modern), 1):
            if number > done:
                for statement in statements:
                    self._run(statement)
                self._run(f"INSERT INTO {database}.int_migration SELECT {number}, now()")

    def _expire(self, table: str, column: str, days: int) -> None:
        """Give a table this TTL, unless it has it already; 0 leaves the table unchanged."""
        if not days:
            return
        database, ttl = self.settings.database, f"toDateTime({column}) + toIntervalDay({days})"
        made = f"SELECT engine_full FROM system.tables WHERE database = '{database}' AND name = '{table}'"
        if f"TTL {ttl} " not in self._run(made):
            self._run(f"ALTER TABLE {database}.{table} MODIFY TTL {ttl}")

    def send(self, block: EventBlock) -> None:
        """Insert a block in one request."""
        body = self._encoder.rows(block)
        once = {
            "insert_deduplication_token": block.id,
            "deduplicate_blocks_in_dependent_materialized_views": "1",
            "async_insert": "0",
        }
        self._insert("int_event", body, once if self._modern else {})
        self.context.count("bytes_total", len(body))

    def _insert(self, table: str, rows: bytes, parameters: dict[str, str]) -> None:
        query = f"INSERT INTO {self.settings.database}.{table} FORMAT RowBinary"
        self._client.ask("POST", "/", params={"query": query, **parameters}, content=rows)

    def _run(self, statement: str) -> str:
        """The answer of one statement, as text."""
        return self._client.ask("POST", "/", content=statement.encode()).text
