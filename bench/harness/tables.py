"""Results of benchmarks: a CSV file for each, and the tables that pages show of them.

A benchmark has dozens of rows. A page shows a parameter with few values as columns, and what all rows
share above the table. Every row, with its note, is in the file.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from .common import number

Row = dict[str, str]

RESULT = ("result", "unit", "note")
LONG = 8
"""A table of more rows gets a parameter as columns, if one fits."""
WIDE = 6
"""Columns that a parameter may take."""
FOLDED = 20
"""A table of more rows is folded."""
LONG_NOTE = 160
"""A longer note is a list after the table."""


def write(path: Path, rows: Sequence[Row]) -> None:
    """All rows of a benchmark; a parameter that a row lacks is empty."""
    keys = dict.fromkeys(key for row in rows for key in row if key not in RESULT)
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*keys, *RESULT], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(folder: Path) -> dict[str, list[Row]]:
    """The rows of every benchmark, by its name."""
    found = {}
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def render(rows: Sequence[Row]) -> str:
    """All rows in one table, or a table for each set of parameters that has columns, and one for the rest."""
    if len(rows) <= LONG or _spread(rows):
        return _table(rows)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(_parameters(row)), []).append(row)
    parts = [group for group in groups.values() if _spread(group)]
    rest = [row for group in groups.values() if not _spread(group) for row in group]
    return "\n\n".join(_table(part) for part in [*parts, *([rest] if rest else [])])


def _parameters(row: Row) -> list[str]:
    return [key for key, value in row.items() if key not in RESULT and value]


def _spread(rows: Sequence[Row]) -> str | None:
    """The parameter with the most values that can be columns: no cell is then empty."""
    if len(rows) <= LONG:
        return None
    sizes = {}
    for key in _parameters(rows[0]):
        values = {row[key] for row in rows}
        cells = {(_rest(row, key), row[key]) for row in rows}
        lines = {rest for rest, _ in cells}
        if 1 < len(values) <= WIDE and len(cells) == len(rows) == len(lines) * len(values):
            sizes[key] = len(values)
    return max(reversed(sizes), key=lambda key: sizes[key]) if sizes else None


def _rest(row: Row, key: str) -> tuple[tuple[str, str], ...]:
    return tuple((k, v) for k, v in row.items() if k not in (key, "result", "note"))


def _table(rows: Sequence[Row]) -> str:
    spread = _spread(rows)
    keys = [key for key in rows[0] if key not in ("result", "note", spread) and any(row[key] for row in rows)]
    shared = {key: rows[0][key] for key in keys if len(rows) > 1 and len({row[key] for row in rows}) == 1}
    keys = [key for key in keys if key not in shared]
    if spread:
        head = [*keys, *(_title(spread, value) for value in dict.fromkeys(row[spread] for row in rows))]
        results: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for row in rows:
            results.setdefault(_rest(row, spread), []).append(_short(row["result"]))
        lines = [[_grouped(dict(rest)[key]) for key in keys] + cells for rest, cells in results.items()]
        aside: list[str] = []
    else:
        before = [key for key in keys if key != "unit"]
        noted = any(0 < len(row["note"]) <= LONG_NOTE for row in rows)
        head = [*before, "result", *(["unit"] if "unit" in keys else []), *(["note"] if noted else [])]
        lines = []
        for row in rows:
            note = row["note"] if len(row["note"]) <= LONG_NOTE else "below"
            cells = {**row, "result": _short(row["result"]), "note": note}
            lines.append([_grouped(cells[key]) for key in head])
        aside = [
            f"- {part}" for row in rows if len(row["note"]) > LONG_NOTE for part in row["note"].split("; ")
        ]
    text = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    text += ["| " + " | ".join(line) + " |" for line in lines]
    if len(lines) > FOLDED:
        text = [f"<details><summary>{len(lines)} rows</summary>", "", *text, "", "</details>"]
    unit = shared.pop("unit", "")
    heading = "; ".join([*([unit] if unit else []), *(_title(key, value) for key, value in shared.items())])
    return "\n".join([*([f"{heading}:", ""] if heading else []), *text, *(["", *aside] if aside else [])])


def _title(key: str, value: str) -> str:
    """A word says itself what it is; a number does not."""
    return f"{key} {_grouped(value)}" if value[0].isdigit() else value


def _grouped(value: str) -> str:
    return f"{int(value):,}" if value.isdigit() else value


def _short(result: str) -> str:
    value = float(result)
    return f"{value / 1e6:#.3g}".rstrip(".") + " M" if abs(value) >= 1e6 else number(value)
