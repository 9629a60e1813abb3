"""Netlink messages (netlink(7))."""

from __future__ import annotations

import struct


def attributes(octets: bytes) -> dict[int, bytes]:
    """Attributes of a netlink message, by type."""
    found: dict[int, bytes] = {}
    while len(octets) >= 4:
        length, kind = struct.unpack_from("<HH", octets)
        if not 4 <= length <= len(octets):
            break
        found[kind & 0x3FFF] = octets[4:length]
        octets = octets[(length + 3) & ~3 :]
    return found
