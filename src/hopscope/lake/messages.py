"""What a `LakeReader` and the process that reads for it (`reading`) tell each other, beside snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb

from ..settings.lake import LakeSettings
from .snapshot import LakeSnapshot

Work = Callable[[duckdb.DuckDBPyConnection, LakeSnapshot, Any], Any]
"""What a question reads, with what its asker knows of the snapshot. It must be possible to pickle it."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first message to the process."""

    settings: LakeSettings
    memory_bytes: int
    threads: int


@dataclass(frozen=True, slots=True)
class Found:
    """An answer."""

    value: Any


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is none."""

    error: Exception
    again: bool = False
    """It may help to ask again: the database was started again, files were merged, or this process ended."""
