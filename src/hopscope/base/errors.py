"""The base of errors that are reported in one line: of the user or the machine, not of the program."""

from __future__ import annotations


class HopscopeError(Exception):
    """What is wrong and what to do, in one line; the command line prints it and exits with `status`."""

    status: int = 2
