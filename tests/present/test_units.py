"""Figures and times as people read them."""

from __future__ import annotations

import pytest

from hopscope.present.units import duration, measured, si

SCRIPT = "<script>alert(1)</script>"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (0.25, "0.25"), (12.5, "12.5"), (999.6, "1.00k"), (12_345, "12.3k"),
     (999_999, "1.00M"), (4.56e9, "4.56G"), (2**64, "1.84e+07T")],
)  # fmt: skip
def test_counts_are_short(value: float, text: str) -> None:
    """At most three digits and a prefix, without a step at the borders."""
    assert si(value) == text


TIMES = [
    (0, "0 ns"),
    (999, "999 ns"),
    (1000, "1.00 µs"),
    (48_210, "48.2 µs"),
    (2.5e6, "2.50 ms"),
    (3e9, "3.00 s"),
]


@pytest.mark.parametrize(("ns", "text"), TIMES)
def test_times_have_units(ns: float, text: str) -> None:
    """The unit that makes the number short."""
    assert duration(ns) == text


def test_large_values_come_as_text() -> None:
    """Events carry 64-bit numbers as text; both forms are drawn."""
    assert measured("1500", "ns") == measured(1500, "ns") == "1.50 µs"
    assert measured(SCRIPT, None) == SCRIPT.replace("<", "&lt;").replace(">", "&gt;")
