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

from ..wire import protocols

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
    typer.Option("--format", "-f", help="JSON (an object a line), a table, or CSV.", case_sensitive=False),
]


@contextmanager
def until_reader_leaves() -> Iterator[None]:
    """End the command in silence, with status 0, where nobody reads standard output any more."""
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
        """Print rows; how many. Raises BrokenPipeError where nobody reads on."""
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
        """Print what waits for the table's widths, and hand all to the reader."""
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
    """One value as text: nothing for what is absent, JSON's words for what is null or a truth value."""
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


def flow_text(flow: Mapping[str, Any]) -> str:
    """A flow object as one line: `10.0.0.1:4000 → 10.0.1.2:53 udp`."""
    ends = []
    for address, port in ((flow["src"], flow.get("sport")), (flow["dst"], flow.get("dport"))):
        host = f"[{address}]" if port is not None and ":" in str(address) else address
        ends.append(host if port is None else f"{host}:{port}")
    proto = flow.get("proto")
    return f"{ends[0]} → {ends[1]} {protocols.NAMES.get(proto or 0, proto)}"


def utc(time_ns: int) -> str:
    """A time as RFC 3339, UTC, to the ns."""
    from datetime import UTC, datetime

    seconds, rest = divmod(time_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
    except (OverflowError, ValueError, OSError):
        return str(time_ns)
