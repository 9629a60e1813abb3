"""The one base of errors that are told in a line: a mistake of the user, or of the machine, not of the program."""

from __future__ import annotations


class HopscopeError(Exception):
    """What is wrong and what to do, in one line; the command line prints it and ends with `status`."""

    status: int = 2
