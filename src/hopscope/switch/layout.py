"""Structures that the programs of a switch (`switch.h`) and Python share, as NumPy types."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from ..settings.watch import MAX_WATCHES

SHARED = ("control", "counters", "ports", "watches", "reports", "sender")
"""Names of the pins of the maps that all programs of a switch share, and that outlive the process."""
REPORT_RING_BYTES = 1 << 22
"""Size of the ring of reports."""


class SwitchCount(IntEnum):
    """What happened to a packet that leaves through an interface of the switch (enum switch_count)."""

    SOURCE = 0
    """INT was inserted; INT-MD already has the values of this hop."""
    TRANSIT = 1
    """This hop was added to its INT-MD."""
    HOP_LIMIT = 2
    """The E bit of its INT was set: the path is longer than the hop limit."""
    MTU = 3
    """The M bit of its INT was set: the values of this hop would not fit into the MTU."""
    POSTCARD = 4
    """Unchanged, and reported: INT-MX in transit, or INT-XD."""
    SINK = 5
    """Its INT was removed and reported, even if the packet is for this machine."""
    FAILED = 6
    """Dropped: the kernel ran out of memory halfway through a change."""
    OTHER = 7
    """Unchanged: neither TCP nor UDP over IPv4 or IPv6."""
    UNWATCHED = 8
    """Unchanged: in no entry of the watch list."""
    UNSAMPLED = 9
    """Unchanged: watched, but not chosen by `sample`."""
    LONG = 10
    """Unchanged: watched, but it would be too long for the MTU with INT."""
    GSO = 11
    """Unchanged: segments in one buffer (GSO), which the kernel cuts later."""
    OPTIONS = 12
    """Unchanged: IP options or extension headers."""
    FRAGMENT = 13
    """Unchanged: an IP fragment."""
    LENGTH = 14
    """Unchanged: lengths that contradict each other."""
    INT = 15
    """Unchanged: marked as INT, but of another form, or damaged."""
    FULL = 16
    """Unchanged: its INT has the greatest length that the shim can state."""
    REFUSED = 17
    """Unchanged: the kernel refused to enlarge the packet."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


class ReportCount(IntEnum):
    """What happened to the reports of a switch. Its programs count the first four (enum report_count), the
    sending process the others.
    """

    QUEUED = 0
    """Put into the ring of `hopscope switch run`."""
    RING_FULL = 1
    """Lost: the ring was full."""
    NO_SENDER = 2
    """Not made: `hopscope switch run` was not running."""
    LIMITED = 3
    """Not made: more drop reports than `switch.drop_rate` allows."""
    SENT = 4
    """Sent to the collector, including those in datagrams that failed."""
    DATAGRAMS = 5
    """Datagrams sent; one can hold several reports."""
    FAILED = 6
    """Datagrams that the network stack did not accept, for example because there was no route."""

    @property
    def label(self) -> str:
        """Name as counted."""
        return f"reports_{self.name.lower()}"


PROGRAM_REPORTS = 4
"""Number of the first members of ReportCount, which programs count."""


class Protocol(IntEnum):
    """Protocols of an entry of the watch list: IP protocol numbers, except ANY."""

    ANY = 0
    """TCP and UDP."""
    TCP = 6
    UDP = 17


class IntMode(IntEnum):
    """How a packet of the watch list is treated (enum int_mode)."""

    MD = 0
    """INT-MD: it carries the metadata that hops write into it."""
    MX = 1
    """INT-MX: it carries only instructions, and hops report."""
    XD = 2
    """INT-XD: it does not change, and hops report."""
    DROPS = 3
    """Reported only if it is dropped."""

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
"""The watch list, and the list that replaces it (struct switch_watches)."""

DROP_CONTROL = np.dtype(
    [
        ("interval_ns", "<u8"),  # between two reports of a CPU, if there are many
        ("network", "<u4"),  # number of the network namespace
        ("port", "<u4"),  # 0: the DSCP announces INT
        ("dscp", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""Settings of the program that reports drops (struct drop_control)."""

CONTROL = np.dtype(
    [
        ("node_id", "<u4"),
        ("instructions", "<u4"),
        ("hop_limit", "<u4"),
        ("port", "<u4"),  # 0: the DSCP announces INT
        ("dscp", "<u4"),
        ("processors", "<u4"),  # number of possible CPUs
        ("epoch_ns", "<u8"),  # offset from CLOCK_TAI to the time since 1970
    ]
)
"""Settings of a program (struct switch_control)."""

COUNTERS = np.dtype([("packets", "<u8", (len(SwitchCount),)), ("reports", "<u8", (PROGRAM_REPORTS,))])
"""Counters of one CPU (struct switch_counters)."""

PORT = np.dtype(
    [
        ("longest", "<u4"),  # longest frame, bytes, without a VLAN tag
        ("mbits", "<u4"),  # speed, Mbit/s; 0: unknown, or the utilisation is not needed
        ("window_ns", "<u8"),
        ("window_bytes", "<u8"),
        ("utilization", "<u4"),  # in 1/100 %
        ("queue", "<u4"),  # packets
        ("hops", "<u8"),  # packets whose latency was known
        ("latency_ns", "<u8"),  # sum of their latencies
    ]
)
"""An interface (struct switch_port)."""

SENDER = np.dtype(
    [(name, "<u8") for name in ("alive_ns", "sequence", "lost", "reports", "datagrams", "failed")]
)
"""Values that the process that sends reports writes (struct switch_sender)."""
