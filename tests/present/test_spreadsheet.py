"""CSV that a spreadsheet opens."""

from __future__ import annotations

import csv
import io

import pytest

from hopscope.cli.output.printer import Format, Printer
from hopscope.present.spreadsheet import escape_formula
from support.formulas import CELLS


@pytest.mark.parametrize(("text", "cell"), CELLS)
def test_text_is_no_formula(text: str, cell: str) -> None:
    """Each beginning of a formula; numbers and usual names stay."""
    assert escape_formula(text) == cell


def test_rows_that_a_command_prints_have_no_formula() -> None:
    """Read back, with a negative number as it is."""
    stream = io.StringIO()
    Printer(Format.CSV, ("name", "change"), stream).put([{"name": "=1+1", "change": -5}])
    assert list(csv.reader(io.StringIO(stream.getvalue()))) == [["name", "change"], ["'=1+1", "-5"]]
