"""Settings of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ..section import Seconds
from .common import ExportSettings


class ParquetSettings(ExportSettings):
    """Parquet files by hour, in a folder or an S3 bucket."""

    folder: str = Field(default="parquet", pattern=r"^(s3://[a-z0-9][a-z0-9.-]{1,62}(/[^\s?#]*)?|[^:\x00]+)$")
    """Folder, or `s3://BUCKET/PREFIX`; a bucket must exist."""
    compression: Literal["zstd", "snappy"] = "zstd"
    """Compression of the files."""
    endpoint: str = Field(default="", pattern=r"^(https?://[^\s?#@]+)?$")
    """Address of the S3 server; empty: Amazon's."""
    region: str = "us-east-1"
    """Region (S3)."""
    access_key: str = ""
    """Name of the access key (S3)."""
    secret: str = ""
    """Secret of the access key (S3); `env:NAME` or `file:PATH` names where it is."""
    ca_file: Path | None = None
    """TLS: CA certificates (PEM) that may have signed the certificate of the S3 server, beside those of the
    system."""
    batch_events: int = Field(default=250_000, ge=1, le=1_000_000)
    """Most events per file; events with the same time stay together, and hours apart."""
    batch_seconds: Seconds = Field(default=60.0, le=3600)
    """Longest time that an event waits for a file to fill."""

    @property
    def place(self) -> str:
        """The folder or bucket."""
        return self.folder
