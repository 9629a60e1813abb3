"""Tables of `hopscope top`."""

from __future__ import annotations

from rich.table import Table

WORDS = ("path", "where", "flow", "switch", "port", "metric")
"""Columns of text; the others are numbers."""


def make_table(first: str, *columns: str) -> Table:
    """A table without frames; the heading of its first column is its title. A terminal of 80 columns is wide
    enough for both ends of an IPv4 flow.
    """
    table = Table(box=None, pad_edge=False, expand=True, header_style="bold cyan")
    table.add_column(first, no_wrap=True, min_width=14, ratio=None if columns[0] == "metric" else 2)
    for column in columns:
        words = column in WORDS
        wide = column in ("path", "where", "flow")
        table.add_column(
            column,
            justify="left" if words else "right",
            no_wrap=True,
            min_width=16 if words else 9,
            ratio=1 if wide else None,
        )
    return table


def red(alarming: bool) -> str:
    """Style of a row."""
    return "red" if alarming else ""
