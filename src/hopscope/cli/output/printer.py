"""Rows as JSON, CSV or a table on standard output, for all commands.

Rows are printed as they arrive, so the first rows of a table determine the widths of its columns. A table
heads a column such as `latency_ns` with `latency`, and prints its times with units (640 ns, 12.3 µs) or as
the time of day. In CSV, texts are escaped so that a spreadsheet takes none for a formula.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TextIO

from ...present.spreadsheet import escape_formula
from ...present.units import duration
from ..options.declare import option

Row = Mapping[str, Any]
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
MEASURED = 64
"""Number of first rows that determine the widths of a table's columns."""
NS = "_ns"
"""Suffix of the names of columns with times in ns."""
MOMENT_NS = 10**17
"""Values from three years on are times since 1970, smaller ones durations."""
RED, YELLOW, GREEN = "31", "33", "32"
"""Colours of a row (ECMA-48)."""
_NUMBER = re.compile(r"-?[\d,]*\.?\d+( ?(ns|µs|ms|s|%|bytes))?")


class Format(StrEnum):
    """How rows are printed."""

    JSON = "json"
    TABLE = "table"
    CSV = "csv"


class Summary(StrEnum):
    """How a summary is printed."""

    TEXT = "text"
    JSON = "json"


SummaryOption = Annotated[
    Summary, option("--format -f", "Output: text, or JSON (short: --json).", case_sensitive=False)
]
FormatOption = Annotated[
    Format,
    option("--format -f", "Output: JSON lines (short: --json), a table, or CSV.", case_sensitive=False),
]


class Printer:
    """Prints rows with the same columns. JSON prints each row's own keys, and needs no columns.

    `colour` gives the colour of a row in a table on a terminal; empty: the usual one.
    """

    def __init__(
        self,
        form: Format,
        columns: Sequence[str] = (),
        stream: TextIO | None = None,
        colour: Callable[[Row], str] = lambda row: "",
    ) -> None:
        self._form = form
        self._columns = list(columns)
        self._stream = stream or sys.stdout
        plain = not self._stream.isatty() or "NO_COLOR" in os.environ
        self._colour = (lambda row: "") if plain else colour
        self._waiting: list[tuple[list[str], str]] | None = []
        self._widths: list[int] = []
        self._right: list[bool] = []
        if form is Format.CSV:
            self._csv = csv.writer(self._stream, lineterminator="\n")
            self._csv.writerow(self._columns)

    def put(self, rows: Iterable[Row]) -> int:
        """Print rows, and return their number. Raises BrokenPipeError if the reader is gone."""
        count = 0
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last number is the result
            if self._form is Format.JSON:
                self._stream.write(_encode(row) + "\n")
                continue
            if self._form is Format.CSV:
                self._csv.writerow([escape_formula(cell(row.get(column))) for column in self._columns])
                continue
            cells = [_readable(column, row.get(column)) for column in self._columns]
            if self._waiting is None:
                self._stream.write(self._line(cells, self._colour(row)))
            else:
                self._waiting.append((cells, self._colour(row)))
                if len(self._waiting) >= MEASURED:
                    self.flush()
        return count

    def flush(self) -> None:
        """Print rows that wait for the table's widths, and flush the stream."""
        if self._form is Format.TABLE and self._waiting:
            heads = [column.removesuffix(NS) for column in self._columns]
            columns = list(zip(*(cells for cells, _ in self._waiting), strict=True))
            self._widths = [
                max(len(head), *map(len, column)) for head, column in zip(heads, columns, strict=True)
            ]
            self._right = [all(not text or _NUMBER.fullmatch(text) for text in column) for column in columns]
            self._stream.write(self._line(heads))
            for cells, colour in self._waiting:
                self._stream.write(self._line(cells, colour))
            self._waiting = None
        self._stream.flush()

    def _line(self, cells: Sequence[str], colour: str = "") -> str:
        padded = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(cells, self._widths, self._right, strict=True)
        )
        line = "  ".join(padded).rstrip()
        return f"\x1b[{colour}m{line}\x1b[0m\n" if colour else f"{line}\n"


def print_rows(
    form: Format,
    columns: Sequence[str],
    rows: Iterable[Row],
    colour: Callable[[Row], str] = lambda row: "",
) -> int:
    """Print all rows of an answer; returns their number."""
    printer = Printer(form, columns, colour=colour)
    count = printer.put(rows)
    printer.flush()
    return count


def cell(value: Any) -> str:
    """One value as text: None is empty, booleans are `true` and `false`."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return _encode(value)
    return str(value)


def _readable(column: str, value: Any) -> str:
    """A cell of a table."""
    if not column.endswith(NS) or not isinstance(value, int | float):
        return cell(value)
    if value < MOMENT_NS:
        return duration(value)
    from ...present.events import when

    return when(int(value))
