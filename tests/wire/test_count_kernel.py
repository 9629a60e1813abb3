"""How many reports a datagram counts as, for the rate limit."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from support.packets.by_hand import ethernet, group, inner_udp, single

pytestmark = pytest.mark.kernel


def counted(datagram: bytes) -> int:
    from hopscope.wire.telemetry.count_kernel import count_reports

    arena = np.frombuffer(b"\x25" * 64 + datagram + b"\x25" * 64, np.uint8)
    return int(count_reports(arena, np.uint64(64), np.uint64(len(datagram))))


@pytest.mark.parametrize("reports", [1, 2, 40])
def test_reports_of_a_group(reports: int) -> None:
    """Each report of a 2.0 datagram counts."""
    one = single(ethernet(inner_udp(b"")) + b"\0\0")  # whole words
    assert len(one) % 4 == 0
    assert counted(group(*[one] * reports)) == reports


def test_empty_reports_count() -> None:
    """A datagram of 64 KiB may hold 16,374 reports of four bytes."""
    head = struct.pack("!II", 2 << 28, 1)
    assert counted(head + bytes(65_496)) == 16_374


def test_a_report_without_a_length_is_the_last() -> None:
    """255 words, or 0 of a report that is not empty, reach to the end of the datagram."""
    head = struct.pack("!II", 2 << 28, 1)
    for begin in (b"\x04\xff\0\0", b"\x04\0\0\0"):
        assert counted(head + begin + bytes(400)) == 1
    assert counted(head + b"\x04\x01\0\0" + bytes(4) + b"\x04\xff\0\0" + bytes(400)) == 2


@pytest.mark.parametrize(
    "datagram", [b"", b"\x20", b"\x20" * 11, b"\x10" + bytes(99), bytes(99), b"\x24" * 12]
)
def test_everything_else_is_one(datagram: bytes) -> None:
    """Other versions have one report, and what is damaged counts, too."""
    assert counted(datagram) == 1
