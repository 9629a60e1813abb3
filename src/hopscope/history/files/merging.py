"""Which files may be merged. Retention deletes whole files, so each may hold only a small part of history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...settings.history import HistorySettings
from .checksums import archived

PARTS = 8
"""A merged file covers at most 1 / PARTS of `keep_days` and of `keep_bytes`. It is deleted when its newest
part is too old, so its oldest part is kept for up to this much longer."""


def may_merge(paths: Sequence[Path], settings: HistorySettings) -> bool:
    """Whether files [n ≥ 1] are close enough in time, and small enough.
    FileNotFoundError: one was deleted.
    """
    oldest, newest = archived(paths)
    size = sum(path.stat().st_size for path in paths)
    is_short = newest - oldest <= settings.keep_days * 86_400e9 / PARTS
    return is_short and size <= settings.keep_bytes / PARTS
