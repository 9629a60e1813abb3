"""Settings of the lake: one history of all members, its files in an S3 store, its catalog in PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from .destinations.s3 import FOLDER_IN_BUCKET, S3Settings
from .destinations.shown import shown
from .section import Seconds


class LakeSettings(S3Settings):
    """Shared history (DuckLake): events of this collector go to Parquet files that all members read.

    Without `catalog` there is none.
    """

    catalog: str = Field(default="", pattern=r"^(postgres(ql)?://[^\s?#]+/[^\s/?#]+)?$")
    """Database of the catalog, `postgresql://USER@HOST:PORT/DATABASE`. Its messages must be in English
    (`lc_messages = C`)."""
    password: str = ""
    """Password of that database; `env:NAME` or `file:PATH` says where to find it."""
    tls: bool = False
    """Connect to the database over TLS, and verify it."""
    schema_name: str = Field(default="hopscope", pattern=r"^[a-z_][a-z0-9_]{0,30}$")
    """Schema of the catalog's tables in the database, and folder of the lake's files in `data`."""
    data: str = Field(default="", pattern=rf"^({FOLDER_IN_BUCKET}|/[^:\x00]*)?$")
    """Where the files are: `s3://BUCKET/PREFIX`, or a folder that all members share."""
    ca_file: Path | None = None
    """TLS: CA certificates (PEM) to verify the database and the S3 server with; default: those of the
    system."""
    every_seconds: Seconds = Field(default=30.0, ge=0.5, le=3600)
    """How often events are committed; until then they are in this member's history alone."""
    batch_events: int = Field(default=1_000_000, ge=1000, le=10_000_000)
    """Number of waiting events at which they are committed early; also the most events of one commit."""
    retention_days: float = Field(default=90.0, gt=0, le=10_000)
    """Days whose events are kept."""
    maintain_seconds: Seconds = Field(default=600.0, ge=1)
    """How often small files are merged and old days deleted; one member at a time does it."""

    @property
    def enabled(self) -> bool:
        """Whether events go to a lake."""
        return bool(self.catalog)

    @property
    def place(self) -> str:
        """Catalog and files, without passwords."""
        return f"{shown(self.catalog)}, {self.data}"

    @model_validator(mode="after")
    def _whole(self) -> LakeSettings:
        if bool(self.catalog) != bool(self.data):
            given, missing = ("catalog", "data") if self.catalog else ("data", "catalog")
            raise ValueError(f"found {given} without {missing}, expected both or none")
        return self
