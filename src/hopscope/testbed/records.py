"""What the switches of a testbed keep by port: the arrays of their registers, and what is counted."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


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
"""A tracked flow, by its addresses: every so many of its packets are labelled by all switches."""
