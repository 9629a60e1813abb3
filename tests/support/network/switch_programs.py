"""The programs of a switch, loaded for BPF_PROG_TEST_RUN, and packets for them."""

from __future__ import annotations

from itertools import product

import numpy as np

from hopscope.switch.settings import SwitchSettings
from support.packets.packet_cases import Packet

NEXT = 0xFFFFFFFF
"""Verdict: the packet goes on (TC_ACT_UNSPEC)."""
PORT = 5007
LO = 1
SIZES = (0, 1, 7, 99, 512, 1300)
ITEMS = ("node_id", "interfaces", "hop_latency", "ingress_timestamp", "wide_interfaces")


def settings(**more: object) -> SwitchSettings:
    """A source of all packets."""
    return SwitchSettings.model_validate(
        {"node_id": 7, "interfaces": ["lo"], "instructions": ITEMS, "watch": [{}], **more}
    )


def plain(*, tcp: bool = True) -> list[Packet]:
    """UDP over IPv4 and IPv6, with and without a checksum, and TCP."""
    random = np.random.default_rng(1)
    made = [
        Packet(version, 17, random.bytes(size), 10, check=check)
        for version, size, check in product((4, 6), SIZES, (True, False))
    ]
    return made + [
        Packet(version, 6, random.bytes(size), 10) for version, size in product((4, 6), SIZES) if tcp
    ]


def total(raw: bytes) -> int:
    """The sum of 16-bit numbers (RFC 1071)."""
    raw += bytes(len(raw) % 2)
    return sum(int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))


def udp_error(frame: bytes) -> int:
    """By how much the checksum of UDP is wrong, modulo 0xffff; 0 if there is none."""
    ip, l4 = (26, 34) if frame[12:14] == b"\x08\x00" else (22, 54)
    if frame[l4 + 6 : l4 + 8] == b"\0\0":
        return 0
    return (total(frame[ip:]) + 17 + len(frame) - l4) % 0xFFFF
