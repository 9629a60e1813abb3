"""Reads TOML files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_PLACE = re.compile(r" \(at (?:line (\d+), (column \d+)|end of document)\)$")


class TomlError(ValueError):
    """A file is not valid TOML; the message is `LINE: why`, to be put after the file's name and a colon."""


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a file. Raises OSError, UnicodeDecodeError and TomlError."""
    text = file.read_text(encoding="utf-8-sig")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TomlError("1: tables or lists are nested too deeply") from None
    except ValueError as error:
        # also TOMLDecodeError; other errors, such as for numbers of 5,000 digits, state no place
        why = str(error)
        place = _PLACE.search(why)
        line, column = place.groups() if place else (None, None)
        line = line or str(len(text.splitlines()))
        raise TomlError(f"{line}: {_PLACE.sub('', why)} at {column or 'the end of the file'}") from error


def whole_number(value: object, highest: int) -> int | None:
    """A number from 0 to `highest`, given as a number or as text (also `0x…`);
    None: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value.strip(), 0) if isinstance(value, str) else value
    except ValueError:
        return None
    return number if 0 <= number <= highest else None
