"""Numbers and records that the plain loops of this room and their kernels share."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

MAX_RECORD = 16 * 1024 * 1024
"""Longest record or block of a capture file that is believed, bytes (libpcap's limit for pcapng blocks)."""


class Walk(IntEnum):
    """Why a walk over records stopped."""

    MORE = 0
    """The next record is not complete in the buffer."""
    FULL = 1
    """The frame block is full."""
    SECTION = 2
    """A block that describes sections or interfaces: read by Python."""
    BAD_LENGTH = 3
    BAD_INTERFACE = 4


class Block(IntEnum):
    """pcapng block types (draft-ietf-opsawg-pcapng, section 4)."""

    INTERFACE = 1
    PACKET = 2
    """Obsolete, still written by old tools."""
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    SECTION = 0x0A0D0D0A


class Clock(IntEnum):
    """How ticks become ns."""

    MULTIPLY = 0
    """10^-9 s or coarser: ns = ticks * scale."""
    DIVIDE = 1
    """Finer: ns = ticks // scale."""
    BINARY = 2
    """2^-scale s."""


INTERFACE = np.dtype(
    [
        ("scale", "<u8"),
        ("offset_ns", "<u8"),  # if_tsoffset, modulo 2^64
        ("snap_length", "<u4"),  # 0: none
        ("link", "u1"),  # records.Link
        ("clock", "u1"),
        ("reserved", "<u2"),
    ]
)
"""One interface of a capture file; a pcap has one, whose ticks are those of the fraction of a second."""
