"""Records of RoCEv2: packets, parsed or to be built."""

from enum import IntEnum

import numpy as np


class Opcode(IntEnum):
    """Opcode of a Base Transport Header (InfiniBand, table 38): 3 bits of service, 5 of operation."""

    RC_SEND_FIRST = 0x00
    RC_SEND_MIDDLE = 0x01
    RC_SEND_LAST = 0x02
    RC_SEND_LAST_IMMEDIATE = 0x03
    RC_SEND_ONLY = 0x04
    RC_SEND_ONLY_IMMEDIATE = 0x05
    RC_WRITE_FIRST = 0x06
    RC_WRITE_MIDDLE = 0x07
    RC_WRITE_LAST = 0x08
    RC_WRITE_LAST_IMMEDIATE = 0x09
    RC_WRITE_ONLY = 0x0A
    RC_WRITE_ONLY_IMMEDIATE = 0x0B
    RC_READ_REQUEST = 0x0C
    RC_READ_RESPONSE_FIRST = 0x0D
    RC_READ_RESPONSE_MIDDLE = 0x0E
    RC_READ_RESPONSE_LAST = 0x0F
    RC_READ_RESPONSE_ONLY = 0x10
    RC_ACK = 0x11
    RC_ATOMIC_ACK = 0x12
    RC_CMP_SWAP = 0x13
    RC_FETCH_ADD = 0x14
    UC_SEND_FIRST = 0x20
    UC_SEND_MIDDLE = 0x21
    UC_SEND_LAST = 0x22
    UC_SEND_LAST_IMMEDIATE = 0x23
    UC_SEND_ONLY = 0x24
    UC_SEND_ONLY_IMMEDIATE = 0x25
    UC_WRITE_FIRST = 0x26
    UC_WRITE_MIDDLE = 0x27
    UC_WRITE_LAST = 0x28
    UC_WRITE_LAST_IMMEDIATE = 0x29
    UC_WRITE_ONLY = 0x2A
    UC_WRITE_ONLY_IMMEDIATE = 0x2B
    UD_SEND_ONLY = 0x64
    UD_SEND_ONLY_IMMEDIATE = 0x65
    CNP = 0x81
    """Congestion notification packet (RoCEv2 annex A17.9.3)."""


class RoceFlag(IntEnum):
    """Bits of `flags` in ROCE."""

    ACK_REQUEST = 1
    SOLICITED = 2
    BECN = 4
    FECN = 8
    MIGRATION = 16


ROCE = np.dtype(
    [
        ("address", "<u8"),  # RETH and AtomicETH
        ("value", "<u8"),  # to add, or to swap in; ATOMIC_ACK: the old value
        ("compare", "<u8"),
        ("source_hi", "<u8"),  # the peer: sender, or receiver of a packet to build; IPv4 as ::ffff:a.b.c.d
        ("source_lo", "<u8"),
        ("key", "<u4"),
        ("length", "<u4"),  # DMALen
        ("queue_pair", "<u4"),  # destination
        ("source_queue_pair", "<u4"),  # DETH
        ("queue_key", "<u4"),  # DETH
        ("psn", "<u4"),
        ("message", "<u4"),  # MSN
        ("immediate", "<u4"),
        ("payload_at", "<u4"),  # index in the arena
        ("payload_bytes", "<u4"),  # without pad
        ("source_port", "<u2"),  # UDP; of a packet to be built, the setup's
        ("partition", "<u2"),
        ("opcode", "u1"),  # Opcode
        ("syndrome", "u1"),  # AETH
        ("flags", "u1"),  # bits of RoceFlag
        ("reason", "u1"),  # RoceReason
    ]
)
"""One RoCEv2 packet, parsed or to be built, 88 bytes, row by row with the frames."""


class RoceSetup(IntEnum):
    """Indices into the setup of `parse` and `build`, uint64 [8]."""

    OWN_HI = 0
    """Address to which our socket is bound, IPv4 as ::ffff:a.b.c.d."""
    OWN_LO = 1
    OWN_PORT = 2
    """UDP port from which our socket sends."""
    LINK = 3
    """`build`: Link.UDP_PAYLOAD, or Link.ETHERNET with IP and UDP headers."""
    ANY_IP_ID = 4
    """`parse`: 1 accepts UDP payloads whose ICRC is right for any IPv4 identification: weaker by 17 bits."""
    ANY_ICRC = 5
    """`parse`: 1 accepts packets with any ICRC."""
