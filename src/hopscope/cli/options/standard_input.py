"""Standard input as text."""

from __future__ import annotations

import sys
from typing import TextIO

from ...base.errors import HopscopeError


def standard_input() -> TextIO:
    """Standard input. Raises HopscopeError if it is closed."""
    if sys.stdin is None:
        raise HopscopeError("standard input: cannot be read (is closed)")
    return sys.stdin
