"""Settings of databases and files of events."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ...wire.address import with_port
from ..section import Seconds
from .common import ExportSettings
from .metrics import MetricsSettings
from .s3 import FOLDER_IN_BUCKET, S3Settings
from .tls import TlsSettings

MAX_TTL_DAYS = 10_000
"""Days after which the server's clock of 32 bits could overflow."""


class ClickHouseSettings(TlsSettings, ExportSettings):
    """ClickHouse, by RowBinary over HTTP."""

    url: str = Field(default="http://127.0.0.1:8123", pattern=r"^https?://[^\s?#]+$")
    """Address of the server's HTTP interface."""
    database: str = Field(default="hopscope", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")
    """Database."""
    user: str = "default"
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    create: bool = True
    """Create the database and tables if they are missing, and apply migrations; nothing is ever dropped."""
    ttl_days: int = Field(default=0, ge=0, le=MAX_TTL_DAYS)
    """Days after which the server deletes events; 0: it keeps them. Servers before 22.3 need 0."""
    minute_ttl_days: int = Field(default=0, ge=0, le=MAX_TTL_DAYS)
    """The same for the roll-ups per minute."""
    batch_events: int = Field(default=65_536, ge=1, le=65_536)
    """Most events per insert; events with the same time stay together."""


class InfluxServerSettings(TlsSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, as a server of line protocol."""

    url: str = Field(default="http://127.0.0.1:8086", pattern=r"^https?://[^\s?#]+$")
    """Address of the server."""
    api: int = Field(default=2, ge=1, le=3)
    """Version of its API; VictoriaMetrics takes 1 and 2."""
    database: str = Field(default="hopscope", min_length=1)
    """Database (1, 3) or bucket (2)."""
    organization: str = ""
    """Organization (2)."""
    user: str = ""
    """User (1)."""
    password: str = ""
    """Password (1); `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Token (2, 3); `env:NAME` or `file:PATH` says where to find it."""
    create: bool = True
    """Create the database or bucket if it is missing; nothing is ever dropped."""
    gzip: bool = True
    """Compress requests."""


class InfluxSettings(InfluxServerSettings, ExportSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, by line protocol."""

    naming: Literal["hopscope", "intcollector"] = "hopscope"
    """Measurements: `int_event`, or those that INTCollector writes, for a migration from it."""


class InfluxMetricsSettings(InfluxServerSettings, MetricsSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, by line protocol."""


class ParquetSettings(S3Settings, ExportSettings):
    """Parquet files by hour, in a folder or an S3 bucket."""

    folder: str = Field(default="parquet", pattern=rf"^({FOLDER_IN_BUCKET}|[^:\x00]+)$")
    """Folder, or `s3://BUCKET/PREFIX`; a bucket must exist."""
    compression: Literal["zstd", "snappy"] = "zstd"
    """Compression of the files."""
    ca_file: Path | None = None
    """TLS: CA certificates (PEM) to verify the S3 server with, in addition to those of the system."""
    batch_events: int = Field(default=250_000, ge=1, le=1_000_000)
    """Most events per file; events with the same time stay together, and hours apart."""
    batch_seconds: Seconds = Field(default=60.0, le=3600)
    """Longest time that an event waits for a file to fill; 0: it does not wait."""

    @property
    def place(self) -> str:
        """The folder or bucket."""
        return self.folder


class PostgresSettings(TlsSettings, ExportSettings):
    """PostgreSQL, with or without TimescaleDB, by binary COPY."""

    host: str = Field(default="127.0.0.1", min_length=1)
    """Host name or address; with a leading slash the folder of the server's Unix socket."""
    port: int = Field(default=5432, ge=1, le=65_535)
    """Port."""
    database: str = Field(default="hopscope", min_length=1)
    """Database, which must exist."""
    schema_name: str = Field(default="hopscope", pattern=r"^[a-z_][a-z0-9_]{0,30}$")
    """Schema of the tables."""
    user: str = Field(default="hopscope", min_length=1)
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    tls: bool = False
    """Use TLS, and verify the server (`sslmode=verify-full`)."""
    create: bool = True
    """Create the schema and tables if they are missing, and apply migrations; nothing is ever dropped."""
    batch_events: int = Field(default=20_000, ge=1, le=65_536)
    """Most events per transaction; events with the same time stay together."""

    @property
    def place(self) -> str:
        """Host, port and database."""
        return f"postgresql://{with_port(self.host, self.port)}/{self.database}"
