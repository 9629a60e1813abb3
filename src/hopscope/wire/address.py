"""Addresses and networks as text. Records hold two words, IPv4 as ::ffff:a.b.c.d (RFC 4291 §2.5.5.2)."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

MAPPED = 0xFFFF << 32
"""Prefix to which an IPv4 address is added."""
_BRACKETED = re.compile(r"\[([^\[\]]*:[^\[\]]*)\](/\d+)?")


@lru_cache(maxsize=65_536)
def address(high: int, low: int) -> str:
    """Text of an address held as two words; ::ffff:a.b.c.d is written as IPv4."""
    if high == 0 and low >> 32 == MAPPED >> 32:
        return str(ipaddress.IPv4Address(low & 0xFFFFFFFF))
    return str(ipaddress.IPv6Address(high << 64 | low))


def number_of(text: str) -> int:
    """An address as 128 bits, IPv4 as ::ffff:a.b.c.d. Raises ValueError."""
    found = ipaddress.ip_address(text)
    return int(found) | (MAPPED if found.version == 4 else 0)


def is_address(text: str) -> bool:
    """Whether this is an IPv4 or IPv6 address, without brackets or a port."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def network(text: str) -> tuple[int, int]:
    """First and last address, 128 bits, of a network or an address. IPv6 may have brackets.

    Raises ValueError.
    """
    plain = text.strip()
    if bracketed := _BRACKETED.fullmatch(plain):
        plain = bracketed[1] + (bracketed[2] or "")
    try:
        found = ipaddress.ip_network(plain, strict=False)
    except ValueError as error:
        raise ValueError(
            f"found {text!r}, expected a network, such as 192.0.2.0/24 or 2001:db8::/32"
        ) from error
    base = MAPPED if found.version == 4 else 0
    return base | int(found.network_address), base | int(found.broadcast_address)


def with_port(host: str, port: int) -> str:
    """`HOST:PORT`, with brackets around an IPv6 address (RFC 3986)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
