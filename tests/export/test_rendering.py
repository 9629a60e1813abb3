"""Lines rendered by the kernel, against what Python's own formatting makes of the same values."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopscope.export.rendering import Lines

pytestmark = pytest.mark.kernel
WORDS = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 9, 10, 2**32, 2**64 - 1]), min_size=1)
GROUP = st.sampled_from([0, 0, 0, 1, 0x10, 0xABC, 0xFFFF])


@settings(deadline=None)
@given(WORDS)
def test_numbers(values: list[int]) -> None:
    """Decimal and hexadecimal, some of them left out, between texts that are not ASCII."""
    column = np.array(values, np.uint64)
    odd = column % np.uint64(2) == 1
    lines = Lines(len(values))
    lines.text("größe=")
    lines.number(column)
    lines.text(" odd=", odd)
    lines.hexadecimal(column, odd)
    lines.text("\n")
    expected = "".join(f"größe={one}{f' odd={one:016x}' if one % 2 else ''}\n" for one in values)
    assert lines.encoded().decode() == expected


@settings(deadline=None)
@given(st.lists(st.lists(GROUP, min_size=8, max_size=8), min_size=1))
@example([[0] * 8, [0] * 7 + [1], [1] + [0] * 7, [0, 0, 1, 0, 0, 0, 1, 1], [1, 0, 0, 1, 0, 0, 1, 1]])
@example([[1, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0xFFFF, 0x0A00, 1], [0, 0, 0, 0, 0, 0, 0x0A00, 1]])
def test_addresses(groups: list[list[int]]) -> None:
    """As `ipaddress` writes them; IPv4 is ::ffff:a.b.c.d in records."""
    whole = [int.from_bytes(b"".join(group.to_bytes(2, "big") for group in one), "big") for one in groups]
    lines = Lines(len(whole))
    high, low = (np.array([one >> shift & 2**64 - 1 for one in whole], np.uint64) for shift in (64, 0))
    lines.address(high, low)
    lines.text("\n")
    expected = [ipaddress.IPv6Address(one) for one in whole]
    assert lines.encoded().decode().splitlines() == [str(one.ipv4_mapped or one) for one in expected]


def test_choices_and_lists() -> None:
    """A text of a number, and a part of a list; numbers of lines without the part may be any."""
    index = np.array([1, 0, 99])
    lines = Lines(3)
    lines.choice(["zero", "one"], index, index < 2)
    lines.text(";")
    lines.numbers(np.array([7, 8, 9]), np.array([0, 1, 3]), np.array([3, 2, 3]))
    lines.text("|")
    lines.choices(["a", "bc"], np.array([0, 1, 1]), np.array([0, 0, 2]), np.array([0, 2, 3]))
    assert lines.encoded() == b"one;7,8,9|zero;8|a,bc;|bc"
    assert Lines(0).encoded() == b""
