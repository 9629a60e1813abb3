"""Errors of history."""

from __future__ import annotations

from ..base.errors import HopscopeError


class HistoryError(HopscopeError):
    """History cannot be used: one line with the file, the problem, and what to do."""


class DamagedError(HistoryError):
    """A Parquet file that cannot be read, or is not what was written: it is skipped, or renamed."""


class TooLargeError(HistoryError):
    """A question needs more memory than it may have."""
