"""Settings of PostgreSQL."""

from __future__ import annotations

from pydantic import Field

from ....wire.address import with_port
from ..common import ExportSettings
from ..tls import TlsSettings


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
