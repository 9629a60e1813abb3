"""Rows as JSON, CSV or a table on standard output: how every command prints.

Rows are printed as they come: a table takes the widths of its columns from the first of them.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer

Row = Mapping[str, Any]
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
MEASURED = 64
"""Rows of which a table takes the widths of its columns."""


class Format(StrEnum):
    """How rows are printed."""

    JSON = "json"
    TABLE = "table"
    CSV = "csv"


FormatOption = Annotated[
    Format,
    typer.Option("--format", "-f", help="Output: JSON lines, a table, or CSV.", case_sensitive=False),
]


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """End the command silently, with status 0, once standard output has no reader."""
    try:
        yield
    except BrokenPipeError:
        # Typer would end with 1; and the interpreter's flush of what is buffered must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


class Printer:
    """Prints rows with the same columns. JSON prints each row's own keys, and needs no columns."""

    def __init__(self, form: Format, columns: Sequence[str] = (), stream: TextIO | None = None) -> None:
        self._form = form
        self._columns = list(columns)
        self._stream = stream or sys.stdout
        self._waiting: list[list[str]] | None = []
        self._widths: list[int] = []
        self._right: list[bool] = []
        if form is Format.CSV:
            self._csv = csv.writer(self._stream, lineterminator="\n")
            self._csv.writerow(self._columns)

    def put(self, rows: Iterable[Row]) -> int:
        """Print rows; how many. Raises BrokenPipeError if the reader is gone."""
        count = 0
        for count, row in enumerate(rows, 1):  # noqa: B007 - the last number is the result
            if self._form is Format.JSON:
                self._stream.write(_encode(row) + "\n")
                continue
            cells = [cell(row.get(column)) for column in self._columns]
            if self._form is Format.CSV:
                self._csv.writerow(cells)
            elif self._waiting is None:
                self._stream.write(self._line(cells))
            else:
                self._waiting.append(cells)
                if len(self._waiting) >= MEASURED:
                    self.flush()
        return count

    def flush(self) -> None:
        """Print rows that wait for the table's widths, and flush the stream."""
        if self._form is Format.TABLE and self._waiting:
            self._widths = [
                max(len(column), *(len(cells[i]) for cells in self._waiting))
                for i, column in enumerate(self._columns)
            ]
            self._right = [
                all(not cells[i] or _is_number(cells[i]) for cells in self._waiting)
                for i in range(len(self._columns))
            ]
            self._stream.write(self._line(self._columns))
            for cells in self._waiting:
                self._stream.write(self._line(cells))
            self._waiting = None
        self._stream.flush()

    def _line(self, cells: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(cells, self._widths, self._right, strict=True)
        )
        return "  ".join(padded).rstrip() + "\n"


def cell(value: Any) -> str:
    """One value as text: empty for None, JSON's words for truth values."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return _encode(value)
    return str(value)


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdecimal()
