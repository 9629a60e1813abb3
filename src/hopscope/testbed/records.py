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


class SwitchAt(IntEnum):
    """Places in what `switch_kernel` is told and keeps, uint64 [SwitchAt]."""

    PROTOCOL = 0
    """IP protocol of labelled packets."""
    MAX_HOP = 1
    CHANCE = 2
    """labelling.records.Chance."""
    REST = 3
    """T1, ns."""
    FRAGMENT = 4
    """1: packets that a label makes too long are cut into two."""
    SEED = 5
    DRAWN = 6
    """Random numbers drawn."""
    INGRESS = 7
    """Port that frames came in at, a row of the registers."""
    EGRESS = 8
    """Port that they leave at."""
    FROM_HOST = 9
    """1: at the ingress port is a host."""
    TO_HOST = 10
    """1: at the egress port is a host: labels are taken off."""
    FIRST_WAY = 11
    """Row in the ways of the ingress port's switch to host 0."""
    NOW = 12
    """Time, ns."""
    QUEUED = 13
    """Bytes waiting at the egress port."""
    MTU = 14
    """IP bytes of the longest packet that the egress port sends."""
    ROOM = 15
    """Bytes of the longest frame that one of its slots holds."""
    DATAGRAM = 16
    """Number of the datagram of labels that is being filled."""


HOST_ADDRESS = np.dtype([("high", "<u8"), ("low", "<u8"), ("host", "<u8")])
"""An address of a host, IPv4 as ::ffff:a.b.c.d."""
WAY = np.dtype([("first", "<u4"), ("count", "<u4")])
"""How a switch reaches a host: by one of `count` egress ports from `first` on."""
FOLLOWED = np.dtype(
    [
        ("source_high", "<u8"),
        ("source_low", "<u8"),
        ("high", "<u8"),
        ("low", "<u8"),
        ("every", "<u4"),
        ("seen", "<u4"),
    ]
)
"""A flow that is followed, by its addresses: every so many of its packets are labelled by all switches."""
