"""What the program of a wire and Python share: `wire.h` in NumPy's words."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from .layout import MAX_PROCESSORS


class WireCount(IntEnum):
    """What happened to a frame (enum wire_count)."""

    FORWARDED = 0
    """Redirected as it came, without INT."""
    STRIPPED = 1
    """Redirected without its INT."""
    UNVERIFIED = 2
    """Of these, with a checksum that fits neither with INT nor without."""
    LOST_HEAD = 3
    """Of all, without room in the ring for the head: redirected, but not detected."""
    FORM = 4
    """Passed up: headers that the program does not read."""
    FRAGMENT = 5
    """Passed up: an IP fragment."""
    LENGTH = 6
    """Passed up: lengths that contradict each other."""
    INT = 7
    """Passed up: INT of another form, or damaged."""
    CHECKSUM = 8
    """Passed up: a checksum of TCP or UDP that its sender left to a card."""
    LONG = 9
    """Passed up: longer than the MTU of the output."""
    OFF = 10
    """Passed up: the output cannot send, or the worker has not begun yet."""
    KEPT = 11
    """Redirected with its INT, since it is to stay."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


PASSED = tuple(count for count in WireCount if WireCount.FORM <= count <= WireCount.OFF)
"""Reasons for which frames are passed up."""


class WireRole(IntEnum):
    """What a UDP destination port announces (enum wire_role)."""

    NOTHING = 0
    INT = 1
    """INT follows."""
    INSERTED = 2
    """The UDP header was inserted with INT, if the shim does not say otherwise."""
    UP = 3
    """A tunnel."""


WIRE_COUNTERS = np.dtype(
    [
        ("frames", "<u8", (len(WireCount),)),
        ("bytes", "<u8"),  # of redirected frames, as they came
        ("reserved", "<u8", (3,)),
    ]
)
"""Counters of one processor (struct wire_counters)."""

WIRE_CONTROL = np.dtype(
    [
        ("on", "<u4"),  # 0: all frames are passed up
        ("longest", "<u4"),  # bytes of a frame that the output takes, without a VLAN tag
        ("strip", "<u4"),  # 0: INT stays in the frames
        ("read", "<u4"),  # 0: frames with INT are passed up, since the dialect's INT is another one
        ("dscp", "<u8"),  # bit per DSCP that announces INT
        ("plain_dscp", "u1", (64,)),  # of such a DSCP, what it becomes if the shim has none
        ("reserved", "u1", (40,)),
    ]
)
"""What Python sets while the program runs (struct wire_control)."""

WIRE_VARIABLES = np.dtype(
    [
        ("control", WIRE_CONTROL),
        ("counters", WIRE_COUNTERS, (MAX_PROCESSORS,)),
        ("roles", "u1", (1 << 16,)),
    ]
)
"""Variables of the program (struct wire_variables)."""
