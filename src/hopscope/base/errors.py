"""The base class of errors that are reported in one line: errors of the user or the machine, not program
errors.
"""

from __future__ import annotations


class HopscopeError(Exception):
    """An error whose message is one line: what is wrong, and the remedy. Commands print it and exit with
    `status`.
    """

    status: int = 2


def described(error: BaseException) -> str:
    """The message of a HopscopeError; class and message of any other error, whose message alone may be
    meaningless.
    """
    return str(error) if isinstance(error, HopscopeError) else f"{type(error).__name__}: {error}"
