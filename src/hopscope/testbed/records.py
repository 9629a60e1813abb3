"""Records and parameters of the testbed's switches."""

from enum import IntEnum

import numpy as np


class SwitchAt(IntEnum):
    """Indices into the parameters and state of `switch_kernel`, uint64 [SwitchAt]."""

    PROTOCOL = 0
    """IP protocol of labelled packets."""
    MAX_HOP = 1
    CHANCE = 2
    """labelling.records.Chance."""
    REST = 3
    """T1, ns."""
    FRAGMENT = 4
    """1: fragment packets that a label makes too long."""
    SEED = 5
    DRAWN = 6
    """Random numbers drawn."""
    INGRESS = 7
    """Ingress port of the frames, a row of the registers."""
    EGRESS = 8
    """Egress port of the frames."""
    FROM_HOST = 9
    """1: the ingress port leads to a host."""
    TO_HOST = 10
    """1: the egress port leads to a host, so labels are removed."""
    FIRST_NEXT_HOPS = 11
    """Row of the next hops of the ingress port's switch to host 0."""
    NOW = 12
    """Time, ns."""
    QUEUED = 13
    """Bytes waiting at the egress port."""
    MTU = 14
    """IP bytes of the longest packet that the egress port sends."""
    ROOM = 15
    """Bytes of the longest frame that one of its slots holds."""
    DATAGRAM = 16
    """Number of the label datagram being filled."""


HOST_ADDRESS = np.dtype([("high", "<u8"), ("low", "<u8"), ("host", "<u8")])
"""An address of a host, IPv4 as ::ffff:a.b.c.d."""
NEXT_HOPS = np.dtype([("first", "<u4"), ("count", "<u4")])
"""Next hops of a switch to a host: `count` egress ports from `first` on."""
