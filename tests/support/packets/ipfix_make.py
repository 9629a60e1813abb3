"""IPFIX and NetFlow 9 by hand: messages packed from the numbers of RFC 7011 and RFC 3954."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import ip_address

Fields = Sequence[tuple[int, ...]]
"""(element, length), or (element, length, enterprise)."""


EXPORTED = 1_700_000_000
"""Export time of messages, s."""


def message(*sets: bytes, sequence: int = 0, domain: int = 1, exported: int = EXPORTED) -> bytes:
    """An IPFIX message (RFC 7011 3.1)."""
    body = b"".join(sets)
    return struct.pack(">HHIII", 10, 16 + len(body), exported, sequence, domain) + body


def packet_9(
    *sets: bytes, sequence: int = 0, source: int = 1, count: int = 1, exported: int = EXPORTED
) -> bytes:
    """A packet of NetFlow 9 (RFC 3954 5.1)."""
    return struct.pack(">HHIIII", 9, count, 5000, exported, sequence, source) + b"".join(sets)


def set_of(id_: int, body: bytes) -> bytes:
    """A set with its header."""
    return struct.pack(">HH", id_, 4 + len(body)) + body


def fields_of(fields: Fields) -> bytes:
    """Field specifiers (RFC 7011 3.2)."""
    out = b""
    for element, length, *enterprise in fields:
        out += struct.pack(">HH", element | (0x8000 if enterprise else 0), length)
        out += b"".join(struct.pack(">I", number) for number in enterprise)
    return out


def template(id_: int, fields: Fields) -> bytes:
    """A template record."""
    return struct.pack(">HH", id_, len(fields)) + fields_of(fields)


def options_template(id_: int, scopes: Fields, fields: Fields) -> bytes:
    """An options template record (RFC 7011 3.4.2.2)."""
    total = len(scopes) + len(fields)
    return struct.pack(">HHH", id_, total, len(scopes)) + fields_of(scopes) + fields_of(fields)


def options_template_9(id_: int, scopes: Fields, fields: Fields) -> bytes:
    """An options template of NetFlow 9 (RFC 3954 6.1)."""
    head = struct.pack(">HHH", id_, 4 * len(scopes), 4 * len(fields))
    return head + fields_of(scopes) + fields_of(fields)


FLOW: Fields = [(8, 4), (12, 4), (4, 1), (7, 2), (11, 2), (10, 4), (14, 4), (2, 8), (1, 8), (530, 4)]
"""Addresses, protocol, ports, interfaces, packets, octets, mean path delay."""


def record(
    source: str = "198.51.100.1", destination: str = "203.0.113.9", protocol: int = 17, sport: int = 4000,
    dport: int = 53, ingress: int = 3, egress: int = 4, packets: int = 10, octets: int = 1000,
    delay: int = 25,
) -> bytes:  # fmt: skip
    """A record of the template FLOW."""
    addresses = ip_address(source).packed + ip_address(destination).packed
    return addresses + struct.pack(
        ">BHHIIQQI", protocol, sport, dport, ingress, egress, packets, octets, delay
    )
