"""What the switches of a testbed keep by port: the arrays of their registers, and what is counted."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np


class PortCounter(IntEnum):
    """Columns of the counters, uint64 [ports, PortCounter]."""

    RECEIVED = 0
    """Frames that came in at the port."""
    SENT = 1
    """Frames that went out at the port."""
    SENT_BYTES = 2
    """Their bytes, Ethernet header and labels included."""
    LABELS = 3
    """Labels that the port wrote."""
    LABEL_BYTES = 4
    """Bytes of labels, of this and of other ports, in what went out."""
    RESTORED = 5
    """Last hop: packets whose labels were taken off."""
    EXPORTED = 6
    """Last hop: labels that were sent to the controller."""
    TOO_LONG = 7
    """Packets without a label that was due, since it would not have fitted into the MTU."""
    FRAGMENTED = 8
    """Packets cut into fragments so that a label fits."""
    LOST = 9
    """Frames dropped by the share of loss that was asked for."""
    UNROUTED = 10
    """Frames that came in for an address of no host, or with no hops left."""
    DAMAGED = 11
    """Frames that came in with headers or labels that cannot be."""
    NO_ROOM = 12
    """Frames dropped because the port's transmit ring was full: the queue's limit."""


REGISTER_ARRAYS: dict[str, Any] = {
    "node": np.uint32,  # id of the switch, from 1; rows rise by node and number
    "number": np.uint16,  # of the port in its switch, from 1
    "last": np.int64,  # Reg1: when the port wrote its last label, ns by the switches' clock
    "shift": np.uint8,  # Reg2: the interval is T / 2^S
    "flag": np.uint8,  # Reg2 of the one-bit form: 1 labels every packet
    "loss": np.uint32,  # a frame is lost where a random number of 32 bits is below this
}
"""Arrays of the region of registers with a row for every switch port (INT-label, sections 3 and 5)."""
