"""What the programs of a switch and Python share: `bpf/switch.h` in NumPy's words."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..settings.watch import MAX_WATCHES


class SwitchCount(IntEnum):
    """What happened to a packet that leaves through an interface of the switch (enum switch_count)."""

    SOURCE = 0
    """INT was put in, with this hop."""
    TRANSIT = 1
    """This hop was added to its INT."""
    HOP_LIMIT = 2
    """Its INT says now that the path is longer than its hop limit (E bit)."""
    MTU = 3
    """Its INT says now that this hop would not fit into the MTU (M bit)."""
    FAILED = 4
    """Dropped: the kernel had no memory for it half-way through a change."""
    OTHER = 5
    """As it came: neither TCP nor UDP over IPv4 or IPv6."""
    UNWATCHED = 6
    """As it came: in no entry of the watch list."""
    UNSAMPLED = 7
    """As it came: watched, but not the one in `sample`."""
    LONG = 8
    """As it came: watched, but with INT too long for the MTU."""
    GSO = 9
    """As it came: segments in one buffer, which are cut later."""
    OPTIONS = 10
    """As it came: IP options or extension headers."""
    FRAGMENT = 11
    """As it came: an IP fragment."""
    LENGTH = 12
    """As it came: lengths that contradict each other."""
    INT = 13
    """As it came: marked as INT, but of another form, or damaged."""
    FULL = 14
    """As it came: its INT is as long as a shim can say."""
    REFUSED = 15
    """As it came: the kernel did not let it grow."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


class Protocol(IntEnum):
    """Protocols of an entry of the watch list; numbers of IP, but for ANY."""

    ANY = 0
    """TCP and UDP."""
    TCP = 6
    UDP = 17


class IntMode(IntEnum):
    """What is done with a packet of the watch list (enum int_mode)."""

    MD = 0
    """INT-MD: it carries what hops write into it."""

    @property
    def label(self) -> str:
        """Lower-case name, as in settings."""
        return self.name.lower()


WATCH = np.dtype(
    [
        ("source", "u1", (16,)),
        ("source_mask", "u1", (16,)),
        ("destination", "u1", (16,)),
        ("destination_mask", "u1", (16,)),
        ("first_port", "<u4"),
        ("last_port", "<u4"),
        ("sample", "<u4"),
        ("protocol", "u1"),  # 0: TCP and UDP
        ("mode", "u1"),  # IntMode
        ("by_flow", "u1"),
        ("reserved", "u1"),
    ]
)
"""Addresses and masks in network order, IPv4 as ::ffff:a.b.c.d (struct switch_watch)."""

WATCH_LIST = np.dtype([("count", "<u4"), ("reserved", "<u4"), ("watch", WATCH, (MAX_WATCHES,))])
WATCHES = np.dtype([("active", "<u4"), ("reserved", "<u4"), ("lists", WATCH_LIST, (2,))])
"""The watch list, and the one that takes its place (struct switch_watches)."""

CONTROL = np.dtype(
    [
        ("node_id", "<u4"),
        ("instructions", "<u4"),
        ("hop_limit", "<u4"),
        ("port", "<u4"),  # 0: the DSCP announces INT
        ("dscp", "<u4"),
        ("reserved", "<u4"),
        ("epoch_ns", "<u8"),  # what makes CLOCK_TAI the time since 1970
    ]
)
"""What a program does (struct switch_control)."""

COUNTERS = np.dtype([("packets", "<u8", (len(SwitchCount),))])
"""Counters of one processor (struct switch_counters)."""
