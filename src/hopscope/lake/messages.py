"""The messages between a `LakeReader` and its process (`reader_process`), except snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import duckdb

from ..settings.lake import LakeSettings
from .snapshot import LakeSnapshot

Work = Callable[[duckdb.DuckDBPyConnection, LakeSnapshot, Any], Any]
"""The function that answers a query in the process. Its last argument comes from the caller of
`LakeReader.ask`, which computes it from the snapshot. It must be possible to pickle it."""


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
    """The error in place of an answer."""

    error: Exception
    again: bool = False
    """Whether it may help to ask again: the database was restarted, files were
    merged, or this process ended.
    """
