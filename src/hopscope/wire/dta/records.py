"""Records of Direct Telemetry Access: reports, and translators' answers."""

from enum import IntEnum

import numpy as np


class DtaFlag(IntEnum):
    """Bits of `flags` in DTA."""

    IMMEDIATE = 1
    RETRANSMIT = 2


DTA = np.dtype(
    [
        ("counter", "<u8"),  # Key-Increment
        ("key_at", "<u4"),  # index in the arena
        ("data_at", "<u4"),
        ("list", "<u4"),  # Append
        ("sequence", "<u4"),  # 0 in the form without
        ("opcode", "u1"),
        ("flags", "u1"),
        ("redundancy", "u1"),
        ("hop", "u1"),  # Postcarding; 1 is the first
        ("path_length", "u1"),
        ("key_bytes", "u1"),
        ("data_bytes", "u1"),
        ("reason", "u1"),
    ]
)
"""One DTA report, 32 bytes, row by row with the frames: a damaged one is a row with a `DtaReason`.

For an Append, `key_at` is the place of its list; for a Key-Increment, `data_at` is that of its counter. A
row that the parser rejected has opcode, flags and sequence if its base header is complete; all other fields
are zero.
"""

DTA_ANSWER = np.dtype(
    [
        ("source_hi", "<u8"),  # the reporter; for a received answer, the translator
        ("source_lo", "<u8"),
        ("sequence", "<u4"),  # ACK: the last report that need not be kept; NACK: the first to send again
        ("count", "<u2"),  # NACK: number in a row; 0: all from there on (the published form)
        ("source_port", "<u2"),
        ("nack", "u1"),
        ("reason", "u1"),  # NACK: a DtaReason; 0: it is missing
        ("reserved", "<u2"),
    ]
)
"""A translator's answer, 28 bytes."""
