"""Dialects: which version a first byte stands for, and the table that the decoders look it up in."""

from __future__ import annotations

import pytest

from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect, version_of
from hopscope.wire.rules import FIRST_BYTE, INT_DSCP, TABLE, UDP_ROLE


@pytest.mark.parametrize(
    ("first", "version"),
    [
        (0x00, 5),
        (0x0F, 5),
        (0x10, 5),
        (0x12, 5),
        (0x13, 0),
        (0x14, 10),
        (0x1F, 10),
        (0x20, 20),
        (0x2F, 20),
        (0x30, 0),
    ],
)
def test_auto(first: int, version: int) -> None:
    """Ver 1 is 1.0 where the second nibble can be its Length, and 0.5 where it can be its NProto."""
    assert version_of(first, "auto") == version


def test_forced_versions() -> None:
    """A dialect may say which layout Ver 1 is."""
    assert version_of(0x11, "1.0") == 10
    assert version_of(0x14, "0.5") == 5
    assert version_of(0x10, "2.0") == 0


def test_table() -> None:
    """The table holds the ports, the DSCP values and the versions, and cannot be written."""
    table = Dialect("one", ports=(7,), int_dscp=(3,), int_ports=(8, 7)).table()
    assert table.shape == (TABLE,)
    assert [table[FIRST_BYTE + 0x20], table[INT_DSCP + 3], table[INT_DSCP + 4]] == [20, 1, 0]
    assert [table[UDP_ROLE + 7], table[UDP_ROLE + 8], table[UDP_ROLE + 9]] == [3, 2, 0]
    with pytest.raises(ValueError, match="read-only"):
        table[0] = 1


def test_names() -> None:
    """Every dialect is found by its name, and the default is the specification's."""
    assert all(name == dialect.name for name, dialect in DIALECTS.items())
    assert DEFAULT.name == "spec"
    assert DEFAULT.ports == (32766, 54321, 8090, 8086, 5900, 1234, 556)
