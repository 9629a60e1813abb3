"""What the programs of INT-label and Python share: `bpf/label.h` in NumPy's words."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

MAX_PORTS = 512
"""Rows of LABEL_PORT; row 0 is no port."""
MAX_INDEX = 65535
"""Interfaces with this number or a higher one are no ports: a label has 16 bits for it."""
MAX_CHANCES = 101_000
"""Probabilities of a table."""
RING_BYTES = 1 << 20


class LabelCount(IntEnum):
    """What happened to a packet that leaves through a port (enum label_count)."""

    WRITTEN = 0
    """This port's label was written into it."""
    RESTORED = 1
    """Last hop: its labels were taken off."""
    LAST = 2
    """Last hop: it had no labels, and a label of this port went to the collector."""
    FAILED = 3
    """Dropped: the kernel ran out of memory halfway through a change."""
    FORGED = 4
    """Dropped: it came from a host with labels."""
    NOT_DUE = 5
    """Unchanged: no label was due."""
    OTHER = 6
    """Unchanged: neither IPv4 nor IPv6, or with a VLAN tag."""
    OWN = 7
    """Unchanged: this machine sent it, and `switch.label.own` is off."""
    LOCAL = 8
    """Unchanged: multicast, broadcast or link-local."""
    LONG = 9
    """Unchanged: a label was due, but would make it too long for the MTU."""
    FULL = 10
    """Unchanged: a label was due, but it already has MAX_hop labels."""
    GSO = 11
    """Unchanged: segments in one buffer (GSO), which the kernel cuts later."""
    FRAGMENT = 12
    """Unchanged: an IP fragment."""
    OPTIONS = 13
    """Unchanged: IPv6 hop-by-hop options."""
    LENGTH = 14
    """Unchanged: lengths that contradict each other."""
    DAMAGED = 15
    """Unchanged: labels that cannot be read."""
    CHECKSUM = 16
    """Unchanged: a label was due, but the card might not complete its checksum then."""
    REFUSED = 17
    """Unchanged: a label was due, but the kernel did not let it grow."""
    REPORTED = 18
    """Labels, not packets: passed to `hopscope switch run`."""
    UNREPORTED = 19
    """Labels, not packets: lost, because `hopscope switch run` was not running or too slow."""
    SENT = 20
    """Datagrams with labels that were sent to the collector."""
    REJECTED = 21
    """Lost: datagrams with labels that the collector's host rejected, or that could not be sent."""
    STALE = 22
    """Packets whose labels were lost, having waited for `hopscope switch run` for more than 10 s."""

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return f"label_{self.name.lower()}"


class LabelRole(IntEnum):
    """Where a port leads (enum label_role)."""

    NONE = 0
    INNER = 1
    """To a switch."""
    HOST = 2
    """To a host: labels are taken off."""


class LabelFunction(IntEnum):
    """How a further label within the interval is decided (enum label_function)."""

    NEVER = 0
    TABLE = 1
    F3 = 2


COUNTERS = np.dtype([("packets", "<u8", (LabelCount.SENT,)), ("padding", "<u8", (4,))])
"""Counters of one processor (struct label_counters)."""

LABEL_PORT = np.dtype(
    [
        ("last", "<u8"),  # Reg1: time of its last label, CLOCK_MONOTONIC
        ("packets", "<u8"),  # that left; two processors may count one together
        ("labels", "<u8"),  # that it wrote
        ("padding", "<u8", (5,)),
        ("index", "<u4"),  # of the interface; 0: a free row
        ("longest", "<u4"),  # bytes of a frame that it takes, without a VLAN tag
        ("role", "u1"),  # LabelRole
        ("shift", "u1"),  # Reg2: the interval is T / 2^shift
        ("every", "u1"),  # Reg2 of the one-bit form: 1 labels every packet
        ("partial", "u1"),  # it can complete checksums of protocols that it does not know
        ("reserved", "<u4", (13,)),
    ]
)
"""Registers of a port (struct label_port). The program writes the first 64 bytes, Python the others."""

LABEL_CONTROL = np.dtype(
    [
        ("interval", "<u8"),  # T, ns
        ("rest", "<u8"),  # T1, ns
        (
            "function",
            "<u8",
        ),  # LabelFunction 4, half of the table of chances 4, Chance 8, columns 16, rows 32 bits
        ("epoch_ns", "<u8"),  # what makes CLOCK_TAI the time since 1970
        ("node_id", "<u4"),
        ("protocol", "<u4"),
        ("max_hop", "<u4"),
        ("own", "<u4"),
        ("tracked", "<u4"),  # flows
        ("processors", "<u4"),  # possible ones
        ("sent", "<u8"),  # datagrams to the collector
        ("rejected", "<u8"),  # datagrams that were lost on the way
        ("stale", "<u8"),  # packets whose labels waited too long
    ]
)
"""What the programs do (struct label_control)."""

FLOW_KEY = np.dtype([("source", "u1", (16,)), ("destination", "u1", (16,))])
"""Addresses in network order, IPv4 as ::ffff:a.b.c.d (struct label_flow_key)."""
FLOW_VALUE = np.dtype([("every", "<u4"), ("seen", "<u4")])
"""One packet in `every` is tracked (struct label_flow)."""

INPUTS = np.dtype([("now", "<u8"), ("random", "<u8"), ("received", "<u8"), ("queued", "<u8")])
"""What a test gives in place of clock, random numbers, time of arrival and queue (struct label_inputs)."""
