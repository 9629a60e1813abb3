"""Errors of history."""

from __future__ import annotations

from ..base.errors import HopscopeError


class HistoryError(HopscopeError):
    """History cannot be used. The message is one line: the file, the problem, and what to do."""


class DamagedError(HistoryError):
    """A file cannot be read, or its content has changed since it was written. It is skipped or renamed."""


class TooLargeError(HistoryError):
    """A query needs more memory than it may use."""
