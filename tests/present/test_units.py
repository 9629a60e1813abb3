"""Times as people read them."""

from __future__ import annotations

import pytest

from hopscope.present.units import duration

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
