"""Structures that the programs of INT-label (`label.h`) and Python share, as NumPy types."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

MAX_PORTS = 512
"""Rows of LABEL_PORT; row 0 stands for no port."""
MAX_INDEX = 65535
"""Interfaces whose number is this or higher cannot be ports: a label has 16 bits for the number."""
MAX_CHANCES = 101_000
"""Most probabilities in a table."""
RING_BYTES = 1 << 20


class LabelCount(IntEnum):
    """What happened to a packet that leaves through a port (enum label_count)."""

    WRITTEN = 0
    """This port's label was written into it."""
    RESTORED = 1
    """Last hop: its labels were removed."""
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
    """Unchanged: a label was due, but the network card might then not complete its checksum."""
    REFUSED = 17
    """Unchanged: a label was due, but the kernel refused to enlarge the packet."""
    REPORTED = 18
    """Labels, not packets: passed to `hopscope switch run`."""
    UNREPORTED = 19
    """Labels, not packets: lost, because `hopscope switch run` was not running or too slow."""
    SENT = 20
    """Datagrams with labels that were sent to the collector."""
    REJECTED = 21
    """Lost: datagrams with labels that the collector's host rejected, or that could not be sent."""
    STALE = 22
    """Packets whose labels were lost after waiting more than 10 s for `hopscope switch run`."""

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
    """To a host: labels are removed."""


class LabelFunction(IntEnum):
    """How a further label within the interval is decided (enum label_function)."""

    NEVER = 0
    TABLE = 1
    F3 = 2


COUNTERS = np.dtype([("packets", "<u8", (LabelCount.SENT,)), ("padding", "<u8", (4,))])
"""Counters of one CPU (struct label_counters)."""

LABEL_PORT = np.dtype(
    [
        ("last", "<u8"),  # Reg1: time of its last label, CLOCK_MONOTONIC
        ("packets", "<u8"),  # packets that left; two CPUs may count two packets as one
        ("labels", "<u8"),  # labels that it wrote
        ("padding", "<u8", (5,)),
        ("index", "<u4"),  # of the interface; 0: a free row
        ("longest", "<u4"),  # longest frame that it takes, bytes, without a VLAN tag
        ("role", "u1"),  # LabelRole
        ("shift", "u1"),  # Reg2: the interval is T / 2^shift
        ("every", "u1"),  # Reg2 of the one-bit form: 1 labels every packet
        ("partial", "u1"),  # 1: it can complete checksums of protocols that it does not know
        ("reserved", "<u4", (13,)),
    ]
)
"""Registers of a port (struct label_port). The program writes the first 64 bytes, Python the rest."""

LABEL_CONTROL = np.dtype(
    [
        ("interval", "<u8"),  # T, ns
        ("rest", "<u8"),  # T1, ns
        # LabelFunction 4, half of the table of chances 4, Chance 8, columns 16, rows 32 bits
        ("function", "<u8"),
        ("epoch_ns", "<u8"),  # offset from CLOCK_TAI to the time since 1970
        ("node_id", "<u4"),
        ("protocol", "<u4"),
        ("max_hop", "<u4"),
        ("own", "<u4"),
        ("tracked", "<u4"),  # number of tracked flows
        ("processors", "<u4"),  # number of possible CPUs
        ("sent", "<u8"),  # datagrams sent to the collector
        ("rejected", "<u8"),  # datagrams rejected or not sent
        ("stale", "<u8"),  # packets whose labels waited too long
    ]
)
"""Settings of the programs (struct label_control)."""

FLOW_KEY = np.dtype([("source", "u1", (16,)), ("destination", "u1", (16,))])
"""Addresses in network order, IPv4 as ::ffff:a.b.c.d (struct label_flow_key)."""
FLOW_VALUE = np.dtype([("every", "<u4"), ("seen", "<u4")])
"""One packet in `every` is tracked (struct label_flow)."""

INPUTS = np.dtype([("now", "<u8"), ("random", "<u8"), ("received", "<u8"), ("queued", "<u8")])
"""Values for tests in place of clock, random number, time of arrival and queue (struct label_inputs)."""
