"""Registers and counters of labelling switches by port, for simulation, testbed and controller."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

EVERY = 255
"""Value in place of S: the port labels every packet, as in the one-bit form of section 5."""


class Chance(IntEnum):
    """Probability function for a further label within the interval, in a packet with i labels."""

    NEVER = 0
    """Base A: 0."""
    F1 = 1
    """1 where i > 0 (section 6)."""
    F2 = 2
    """i / (MAX_hop - 1) (section 3.1)."""
    F2_LISTING = 3
    """i / MAX_hop (Algorithm 5, Figures 15 and 16)."""
    F3 = 4
    """F2 times the elapsed share of the interval (section 6)."""
    CUSTOM = 5
    """A custom kernel: f(count, max_hop, elapsed, interval)."""
    TABLE = 6
    """From a table by number of labels and elapsed share of the interval (`label.labelling.chance_table`)."""


class PortCounter(IntEnum):
    """Columns of the counters, uint64 [ports, PortCounter]."""

    RECEIVED = 0
    """Frames received."""
    SENT = 1
    """Frames sent."""
    SENT_BYTES = 2
    """Bytes of the frames sent, including Ethernet header and labels."""
    LABELS = 3
    """Labels that the port wrote."""
    LABEL_BYTES = 4
    """Bytes of labels, of this and other ports, in sent frames."""
    RESTORED = 5
    """Last hop: packets whose labels were removed."""
    EXPORTED = 6
    """Last hop: labels that were sent to the controller."""
    TOO_LONG = 7
    """Packets that got no label although one was due, because it would have exceeded the MTU."""
    FRAGMENTED = 8
    """Packets cut into fragments so that a label fits."""
    LOST = 9
    """Frames dropped by the configured loss."""
    UNROUTED = 10
    """Frames received for an unknown address, or without IP."""
    DAMAGED = 11
    """Frames received with invalid headers or labels, or from a host with labels."""
    NO_ROOM = 12
    """Frames dropped because the transmit ring or the queue was full, or a slot was too short."""
    UNSENT = 13
    """Last hop: labels without room in a datagram."""
    REJECTED = 14
    """Frames rejected by the interface: it was down, or they were too long."""
    MISSED = 15
    """Frames lost because the port's receive ring was full: the switches were paused for too long."""
    REJECTED_EXPORTS = 16
    """Datagrams of labels that the controller's host rejected, by ingress port of their packets."""
    LINK_DOWN = 17
    """Frames received while the port's link was set down."""


REGISTER_ARRAYS: dict[str, Any] = {
    "node": np.uint32,  # id of the switch, from 1; rows are sorted by node and number
    "number": np.uint16,  # of the port in its switch, from 1
    "last": np.int64,  # Reg1: when the port wrote its last label, ns by the switches' clock
    "shift": np.uint8,  # Reg2: the interval is T / 2^S
    "flag": np.uint8,  # Reg2 of the one-bit form: 1 labels every packet
    "loss": np.uint32,  # a frame is lost if a random number of 32 bits is below this
    "down": np.uint8,  # 1: the link is set down, and routes avoid it
}
"""Arrays of the region of registers with a row for every switch port (INT-label, sections 3 and 5)."""

TRACKED = np.dtype(
    [
        ("source_high", "<u8"),
        ("source_low", "<u8"),
        ("high", "<u8"),
        ("low", "<u8"),
        ("every", "<u4"),
        ("seen", "<u4"),
    ]
)
"""A tracked flow by its addresses: one packet in `every` is labelled by all switches; 0: a free row."""
MAX_TRACKED = 1024
