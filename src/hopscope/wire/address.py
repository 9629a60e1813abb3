"""Addresses as text. Records hold them as two words, IPv4 as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2)."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

_MAPPED = 0xFFFF


@lru_cache(maxsize=65_536)
def address(high: int, low: int) -> str:
    """Text of an address held as two words; ::ffff:a.b.c.d is written as IPv4."""
    if high == 0 and low >> 32 == _MAPPED:
        return str(ipaddress.IPv4Address(low & 0xFFFFFFFF))
    return str(ipaddress.IPv6Address(high << 64 | low))
