"""Small text files, which are always replaced as a whole."""

from __future__ import annotations

from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replace a file; readers see either the old or the new text."""
    fresh = path.with_name(f"{path.name}.part")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def read_text(path: Path) -> str | None:
    """The text in a file, or None if there is no file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
