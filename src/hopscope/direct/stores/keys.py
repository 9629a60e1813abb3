"""Textual keys, and the bytes that switches hash."""

from __future__ import annotations

import ipaddress
import re

import numpy as np
import numpy.typing as npt

from ...wire import protocols
from ...wire.observation import fold
from .store import StoreError

_FLOW = re.compile(r"(?P<src>.+),(?P<dst>[^,]+),(?P<proto>\w+),(?P<sport>\d+),(?P<dport>\d+)")
_NUMBER = re.compile(r"(?P<value>\d+)(:(?P<bytes>[1-8]))?")
MAX_KEY_BYTES = 255
KEY_FORMS = (
    "0x and hexadecimal digits, a number (4 bytes; 7:2 takes 2), an address, "
    "SRC,DST,PROTO,SPORT,DPORT, or several of these joined with +"
)


def parse_key(text: str, *, is_folded: bool = False) -> bytes:
    """The bytes of a key.

    Raises StoreError. A flow is source, destination (4 bytes each, 16 with IPv6), protocol (1), source and
    destination port (2 each), as DTA's published reporter writes it; `7+10.0.0.1,10.0.0.2,tcp,80,443`
    prefixes a switch number. `is_folded`: IPv6 addresses have 4 bytes, too, as in the keys of monitors.
    """
    key = b"".join(_part(part.strip(), text, is_folded) for part in text.split("+"))
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise StoreError(f"key {text!r}: {len(key)} bytes, expected 1 to {MAX_KEY_BYTES}")
    return key


def parse_keys(texts: list[str]) -> npt.NDArray[np.uint8]:
    """Keys of one length, uint8 [keys, bytes]. Raises StoreError if lengths differ."""
    keys = [parse_key(text) for text in texts]
    if len({len(key) for key in keys}) > 1:
        raise StoreError("keys of different lengths: query each length separately")
    return np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), -1)


def show_key(key: bytes) -> str:
    """A flow if the bytes have its length and a known protocol, else hexadecimal digits."""
    half = {13: 4, 37: 16}.get(len(key))
    if half and (name := protocols.NAMES.get(key[2 * half])):
        src, dst = (ipaddress.ip_address(part) for part in (key[:half], key[half : 2 * half]))
        ports = (int.from_bytes(key[at : at + 2]) for at in (2 * half + 1, 2 * half + 3))
        return ",".join(map(str, (src, dst, name, *ports)))
    return f"0x{key.hex()}"


def _part(part: str, text: str, is_folded: bool) -> bytes:
    try:
        if part.startswith("0x"):
            return bytes.fromhex(part[2:])
        if found := _NUMBER.fullmatch(part):
            return int(found["value"]).to_bytes(int(found["bytes"] or 4))
        if found := _FLOW.fullmatch(part):
            src, dst = ipaddress.ip_address(found["src"]), ipaddress.ip_address(found["dst"])
            if src.version != dst.version:
                raise ValueError
            proto = protocols.NUMBERS.get(found["proto"].lower())
            return (
                _packed(src, is_folded)
                + _packed(dst, is_folded)
                + (int(found["proto"]) if proto is None else proto).to_bytes(1)
                + int(found["sport"]).to_bytes(2)
                + int(found["dport"]).to_bytes(2)
            )
        return _packed(ipaddress.ip_address(part), is_folded)
    except (ValueError, OverflowError):
        raise StoreError(f"key {text!r}: found {part!r}, expected {KEY_FORMS}") from None


def _packed(address: ipaddress.IPv4Address | ipaddress.IPv6Address, is_folded: bool) -> bytes:
    if address.version == 4 or not is_folded:
        return address.packed
    return fold(*divmod(int(address), 1 << 64)).to_bytes(4)
