"""What labelling switches keep by port, and how they decide: for simulation, testbed and controller."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np

EVERY = 255
"""In place of S: the port labels every packet, as the one-bit form of section 5 has it."""


class Chance(IntEnum):
    """By which function a packet with i labels gets another one inside the interval."""

    NEVER = 0
    """Base A: by none."""
    F1 = 1
    """1 where i > 0 (section 6)."""
    F2 = 2
    """i / (MAX_hop - 1) (section 3.1)."""
    F2_LISTING = 3
    """i / MAX_hop (Algorithm 5, Figures 15 and 16)."""
    F3 = 4
    """That of F2, times the share of the interval that has passed (section 6)."""
    OWN = 5
    """By a kernel that is given: f(count, max_hop, elapsed, interval)."""


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
    """Frames that came in for an address of no host, or without IP."""
    DAMAGED = 11
    """Frames that came in with headers or labels that cannot be, or from a host with labels."""
    NO_ROOM = 12
    """Frames dropped because the transmit ring was full, the queue's limit, or its slots are too short."""
    UNSENT = 13
    """Last hop: labels for which no datagram had room."""
    REFUSED = 14
    """Frames that were sent and that the interface did not take: it was down, or they are too long for it."""
    MISSED = 15
    """Frames that came while the port's receive ring was full: the switches stood still for too long."""
    UNTAKEN = 16
    """Datagrams of labels that the controller's machine did not take, by where their packets came in."""


REGISTER_ARRAYS: dict[str, Any] = {
    "node": np.uint32,  # id of the switch, from 1; rows rise by node and number
    "number": np.uint16,  # of the port in its switch, from 1
    "last": np.int64,  # Reg1: when the port wrote its last label, ns by the switches' clock
    "shift": np.uint8,  # Reg2: the interval is T / 2^S
    "flag": np.uint8,  # Reg2 of the one-bit form: 1 labels every packet
    "loss": np.uint32,  # a frame is lost where a random number of 32 bits is below this
}
"""Arrays of the region of registers with a row for every switch port (INT-label, sections 3 and 5)."""
