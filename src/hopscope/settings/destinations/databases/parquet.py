"""Settings of Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from ...section import Seconds
from ..common import ExportSettings
from ..s3 import FOLDER_IN_BUCKET, S3Settings


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
