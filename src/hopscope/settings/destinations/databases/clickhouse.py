"""Settings of ClickHouse."""

from __future__ import annotations

from pydantic import Field

from ..common import ExportSettings
from ..tls import TlsSettings

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
