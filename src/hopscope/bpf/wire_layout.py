"""Structures that the program of a wire (`wire.h`) and Python share, as NumPy types."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from .layout import MAX_PROCESSORS


class WireCount(IntEnum):
    """What happened to a frame (enum wire_count)."""

    FORWARDED = 0
    """Redirected unchanged: without INT."""
    STRIPPED = 1
    """Redirected without its INT."""
    UNVERIFIED = 2
    """Of the stripped ones: with a checksum that was right neither with INT nor without."""
    LOST_HEAD = 3
    """Of all redirected ones: without room in the ring for the head, so not detected."""
    FORM = 4
    """Passed up: headers that the program does not read."""
    FRAGMENT = 5
    """Passed up: an IP fragment."""
    LENGTH = 6
    """Passed up: lengths that contradict each other."""
    INT = 7
    """Passed up: INT of another form, or damaged."""
    CHECKSUM = 8
    """Passed up: a checksum of TCP or UDP that its sender left to its network card."""
    LONG = 9
    """Passed up: longer than the MTU of the output."""
    OFF = 10
    """Passed up: the output cannot send, or the worker has not begun yet."""
    KEPT = 11
    """Redirected with its INT, since the settings keep it."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


PASSED = tuple(count for count in WireCount if WireCount.FORM <= count <= WireCount.OFF)
"""Reasons for which frames are passed up."""

UNREAD_PROTOCOLS = (1, 2, 58, 89, 112, 132)
"""IP protocols whose packets are redirected unread: ICMP, IGMP, ICMPv6, OSPF, VRRP and SCTP
(`carries_nothing`).
"""


class WireRole(IntEnum):
    """What a UDP destination port announces (enum wire_role)."""

    NOTHING = 0
    INT = 1
    """INT follows."""
    INSERTED = 2
    """The UDP header was inserted with INT, unless the shim says otherwise."""
    UP = 3
    """A tunnel."""


WIRE_COUNTERS = np.dtype(
    [
        ("frames", "<u8", (len(WireCount),)),
        ("bytes", "<u8"),  # bytes of redirected frames, as received
        ("reserved", "<u8", (3,)),
    ]
)
"""Counters of one CPU (struct wire_counters)."""

WIRE_CONTROL = np.dtype(
    [
        ("on", "<u4"),  # 0: all frames are passed up
        ("longest", "<u4"),  # longest frame that the output accepts, bytes, without a VLAN tag
        ("strip", "<u4"),  # 0: INT stays in the frames
        ("read", "<u4"),  # 0: frames with INT are passed up, since the dialect's INT has another form
        ("dscp", "<u8"),  # bit per DSCP that announces INT
        ("plain_dscp", "u1", (64,)),  # for each of these DSCPs, its replacement if the shim has none
        ("reserved", "u1", (40,)),
    ]
)
"""Values that Python sets while the program runs (struct wire_control)."""

WIRE_VARIABLES = np.dtype(
    [
        ("control", WIRE_CONTROL),
        ("counters", WIRE_COUNTERS, (MAX_PROCESSORS,)),
        ("roles", "u1", (1 << 16,)),
    ]
)
"""Variables of the program (struct wire_variables)."""
