"""The process that sends reports: how they become datagrams."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.base.kernels.jit import readonly
from hopscope.switch.report_kernel import GROUP_BYTES, pack
from hopscope.wire.records import FRAME
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel
NODE, MOST = 0xC0FFEE, 100


def datagrams(reports: list[bytes], sequence: int) -> list[bytes]:
    """What the kernel makes of reports."""
    batch = frame_batch(reports)
    out = np.zeros(sum(map(len, reports)) + GROUP_BYTES * len(reports), np.uint8)
    frames = np.zeros(len(reports), FRAME)
    numbers = np.uint64(NODE), np.uint64(sequence), np.uint64(MOST)
    count = int(pack(readonly(batch.arena), readonly(batch.frames), out, frames, *numbers))
    places = zip(frames["offset"].tolist(), frames["length"].tolist(), strict=True)
    return [out[at : at + size].tobytes() for at, size in list(places)[:count]]


def expected(reports: list[bytes], sequence: int) -> list[bytes]:
    """The same, report by report."""
    made: list[bytes] = []
    for report in reports:
        if not made or made[-1][-1:] == b"E" or len(made[-1]) + len(report) > MOST:
            number = (sequence + len(made)) % (1 << 22)
            made.append((2 << 28 | number).to_bytes(4, "big") + NODE.to_bytes(4, "big"))
        made[-1] += report
    return made


def test_several_reports_share_a_datagram() -> None:
    """As many as fit, numbered across the end of 22 bits; one that reaches to the end of its datagram (length
    0xff; here they end with E) is the last one, and one that is too long is alone.
    """
    random = np.random.default_rng(2)
    reports = []
    for size in random.integers(4, 140, 300).tolist():
        to_end = size % 5 == 0
        reports.append(
            bytes([0x14, 0xFF if to_end else size // 4]) + bytes(size - 3) + (b"E" if to_end else b".")
        )
    sequence = (1 << 22) - 20
    found = datagrams(reports, sequence)
    assert found == expected(reports, sequence)
    assert len(found) < len(reports)
    assert datagrams([], 0) == []
