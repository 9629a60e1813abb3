"""The base of errors that are reported in one line: of the user or the machine, not of the program."""

from __future__ import annotations


class HopscopeError(Exception):
    """The message is one line: what is wrong, and the remedy. Commands print it and exit with `status`."""

    status: int = 2
