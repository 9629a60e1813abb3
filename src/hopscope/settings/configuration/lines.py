"""Where a setting is in a TOML file: its line, for errors. tomllib does not say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\s*({_NAME})\s*\]\s*(?:#.*)?$")
_ITEM = re.compile(rf"\s*\[\[\s*({_NAME})\s*\]\]\s*(?:#.*)?$")
_KEY = re.compile(rf"\s*({_NAME})\s*=")
_LAST = re.compile(r"(\.[^.\[\]]*|\[\d+\])$")


def with_lines(file: Path, errors: Iterable[str]) -> list[str]:
    """Errors of a file, `FILE: KEY: …`, with the line of the key, `FILE:LINE: KEY: …`; others as they are."""
    given = list(errors)
    head = f"{file}: "
    if not file.is_file() or not any(each.startswith(head) for each in given):
        return given
    lines = _lines(file.read_text(encoding="utf-8-sig", errors="replace"))
    found = []
    for each in given:
        if each.startswith(head):
            rest = each.removeprefix(head)
            line = _line(rest.partition(": ")[0], lines)
            each = f"{file}:{line}: {rest}" if line else each
        found.append(each)
    return found


def _line(key: str, lines: dict[str, int]) -> int | None:
    """The line of a key, of the first key in it, or of the closest table or list around it that has one."""
    while key not in lines:
        if inside := [line for each, line in lines.items() if each.startswith((f"{key}.", f"{key}["))]:
            return inside[0]
        around = _LAST.sub("", key)
        if around == key:
            return None
        key = around
    return lines[key]


def _lines(text: str) -> dict[str, int]:
    """The line of every table, item of a list and key, as `listen[0].port`; of a list, that of its first
    item.
    """
    lines: dict[str, int] = {}
    items: dict[str, int] = {}
    above, begun = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        if not _is_whole(begun):  # within a text or a list of several lines
            begun += f"\n{line}"
            continue
        begun = line
        if item := _ITEM.match(line):
            name = _placed(item[1], items)
            items[name] = items.get(name, -1) + 1
            lines.setdefault(name, number)
            above = f"{name}[{items[name]}]"
            lines[above] = number
        elif table := _TABLE.match(line):
            above = _placed(table[1], items)
            lines.setdefault(above, number)
        elif key := _KEY.match(line):
            name = ".".join(_parts(key[1]))
            lines.setdefault(f"{above}.{name}" if above else name, number)
    return lines


def _is_whole(statement: str) -> bool:
    try:
        tomllib.loads(statement)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _parts(name: str) -> list[str]:
    return [part.strip("\"'") for part in re.findall(_PART, name)]


def _placed(name: str, items: dict[str, int]) -> str:
    """A dotted name of a header; what is above it and is a list is the newest item of that."""
    *above, last = _parts(name)
    place = ""
    for part in above:
        place = f"{place}.{part}" if place else part
        if place in items:
            place += f"[{items[place]}]"
    return f"{place}.{last}" if place else last
