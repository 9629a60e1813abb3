"""Which files may become one: retention deletes whole files, so one has a small part of what is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...settings.history import HistorySettings
from .checksums import archived

PARTS = 8
"""A merged file has at most one of so many parts of `keep_days` and of `keep_bytes`. It is deleted when its
newest part is too old: the oldest stays for so much longer."""


def may_be_one(paths: Sequence[Path], settings: HistorySettings) -> bool:
    """Whether files [n ≥ 1] are close enough in time, and small enough. FileNotFoundError: one is gone."""
    oldest, newest = archived(paths)
    size = sum(path.stat().st_size for path in paths)
    is_short = newest - oldest <= settings.keep_days * 86_400e9 / PARTS
    return is_short and size <= settings.keep_bytes / PARTS
