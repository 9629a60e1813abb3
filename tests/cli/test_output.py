"""Printing of rows: the same for every command."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hopscope.cli.output.printer import MEASURED, RED, Format, Printer, cell
from hopscope.present.events import when
from hopscope.present.spreadsheet import escape_formula
from support.processes.command import hopscope

ROWS = [{"name": "a", "count": 5, "rest": None}, {"name": "bcd", "count": 12345, "more": True}]


def printed(
    form: Format, rows: list[dict[str, object]], columns: tuple[str, ...] = ("name", "count", "rest")
) -> str:
    stream = io.StringIO()
    printer = Printer(form, columns, stream)
    assert printer.put(rows) == len(rows)
    printer.flush()
    return stream.getvalue()


def test_json_prints_each_row_as_it_is() -> None:
    """One object a line, with the row's own keys."""
    assert [json.loads(line) for line in printed(Format.JSON, ROWS).splitlines()] == ROWS


def test_csv_has_a_header_and_the_columns() -> None:
    """Absent and null are empty; other keys are left out."""
    assert printed(Format.CSV, ROWS) == "name,count,rest\na,5,\nbcd,12345,\n"
    assert printed(Format.CSV, []) == "name,count,rest\n"


def test_table_is_aligned() -> None:
    """Numbers to the right, texts to the left, no blanks at the end; nothing without rows."""
    assert printed(Format.TABLE, ROWS) == "name  count  rest\na         5\nbcd   12345\n"
    assert printed(Format.TABLE, []) == ""


def test_table_goes_on_with_the_widths_of_its_beginning() -> None:
    """Many rows are printed as they come."""
    lines = printed(Format.TABLE, [{"name": str(i)} for i in range(3 * MEASURED)], ("name",)).splitlines()
    assert len(lines) == 3 * MEASURED + 1
    assert lines[-1].strip() == str(3 * MEASURED - 1)


@given(st.lists(st.text(max_size=9), min_size=2, max_size=2))
def test_csv_quotes_what_must_be(texts: list[str]) -> None:
    """Any text comes back out of CSV; before what a spreadsheet would run is an apostrophe."""
    if any("\r" in text or "\0" in text for text in texts):
        return
    text = printed(Format.CSV, [{"name": texts[0], "count": texts[1]}], ("name", "count"))
    read = list(csv.reader(io.StringIO(text, newline="")))[1]
    assert read == texts or [escape_formula(each) for each in texts] == read
    assert not any(re.match(r"[=@\t\n]|[+-][^0-9]", each) and len(each) > 1 for each in read)


def test_cells() -> None:
    """How single values are written."""
    assert [cell(value) for value in (None, True, 1.5, "x", [1, {"a": None}])] == [
        "",
        "true",
        "1.5",
        "x",
        '[1, {"a": null}]',
    ]


def test_times() -> None:
    """RFC 3339 to the ns, also before 1970, and a number where no calendar reaches."""
    assert when(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert when(-1) == "1969-12-31T23:59:59.999999999Z"
    assert when(2**63) == "2262-04-11T23:47:16.854775808Z"
    assert when(2**90) == str(2**90)


def test_a_table_has_times_with_units() -> None:
    """A column that ends in _ns is headed without it, and aligned; CSV and JSON have numbers."""
    rows: list[dict[str, object]] = [
        {"name": "a", "latency_ns": 640},
        {"name": "b", "latency_ns": 11_844_201},
        {"name": "c"},
    ]
    columns = ("name", "latency_ns")
    assert printed(Format.TABLE, rows, columns) == "name  latency\na      640 ns\nb     11.8 ms\nc\n"
    moments = printed(Format.TABLE, [{"switch_ns": 1_700_000_000_000_000_001}], ("switch_ns",))
    assert moments == "switch\n2023-11-14T22:13:20.000000001Z\n"
    assert printed(Format.CSV, rows, columns) == "name,latency_ns\na,640\nb,11844201\nc,\n"


def test_rows_are_coloured_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with a colour is all in it; a file, a pipe and NO_COLOR have none."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def lines(stream: io.StringIO) -> list[str]:
        printer = Printer(Format.TABLE, ("kind",), stream, lambda row: RED if row["kind"] == "raised" else "")
        printer.put([{"kind": "raised"}, {"kind": "change"}])
        printer.flush()
        return stream.getvalue().splitlines()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert lines(Terminal()) == ["kind", "\x1b[31mraised\x1b[0m", "change"]
    assert lines(io.StringIO()) == ["kind", "raised", "change"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert lines(Terminal()) == ["kind", "raised", "change"]


@pytest.mark.parametrize(
    ("given", "form"),
    [
        (("--json", "--format", "csv"), "csv"),
        (("--format=TABLE", "--json"), "TABLE"),
        (("-fcsv", "--json"), "csv"),
    ],
)
def test_json_and_another_format_exclude_each_other(given: tuple[str, ...], form: str) -> None:
    """Neither wins silently, in whatever order they are given."""
    done = hopscope("direct", "monitors", *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--json: cannot be used with --format {form}" in done.stderr


@pytest.mark.parametrize("given", [("--json",), ("--json", "--format", "JSON"), ("-f", "json", "--json")])
def test_json_is_short_for_its_format(given: tuple[str, ...]) -> None:
    """The same rows, also where both say so."""
    done = hopscope("direct", "monitors", *given)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[0])["name"] == "int-path-tracing"
