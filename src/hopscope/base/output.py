"""Text files that a user asks for."""

from __future__ import annotations

from pathlib import Path


def write_output(path: Path, text: str) -> None:
    """Write a file. An OSError names it, and leaves no part of one that was not there before."""
    existed = path.exists()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        if not existed:
            path.unlink(missing_ok=True)
        raise OSError(error.errno, f"cannot be written ({error.strerror})", str(path)) from error
