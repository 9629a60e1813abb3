"""Files that a user asks for."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_output(path: Path, content: str | bytes) -> None:
    """Write a file. An OSError names it, and leaves no part of one that was not there before."""
    is_new = not os.path.lexists(path)
    try:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        if is_new:
            with suppress(OSError):
                path.unlink()
        raise OSError(error.errno, f"cannot be written ({error.strerror})", str(path)) from error
