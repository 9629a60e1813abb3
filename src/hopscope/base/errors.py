"""The base of errors that are reported in one line: of the user or the machine, not of the program."""

from __future__ import annotations


class HopscopeError(Exception):
    """The message is one line: what is wrong, and the remedy. Commands print it and exit with `status`."""

    status: int = 2


def described(error: BaseException) -> str:
    """Its class and message: of an error whose message alone may say nothing."""
    return f"{type(error).__name__}: {error}"
