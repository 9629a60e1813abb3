"""Settings of an S3 store."""

from __future__ import annotations

from pydantic import Field

from ..section import Section

FOLDER_IN_BUCKET = r"s3://[a-z0-9][a-z0-9.-]{1,62}(/[^\s?#]*)?"
"""Pattern of `s3://BUCKET/PREFIX`."""


class S3Settings(Section):
    """Where a store is, and who this is to it."""

    endpoint: str = Field(default="", pattern=r"^(https?://[^\s?#@]+)?$")
    """Address of the S3 server; empty: Amazon's."""
    region: str = "us-east-1"
    """Region (S3)."""
    access_key: str = ""
    """Name of the access key (S3)."""
    secret: str = ""
    """Secret of the access key (S3); `env:NAME` or `file:PATH` says where to find it."""
