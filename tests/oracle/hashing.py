"""The hash functions again, in plain Python."""

from __future__ import annotations

import zlib

from hopscope.direct.hashing import POLYNOMIALS, Hashing

WORD = (1 << 64) - 1
GOLDEN, LENGTH = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
CHECKSUM, COLLECTOR = 62, 63


def mix64(x: int) -> int:
    """Finaliser of MurmurHash3, 64 bits."""
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & WORD
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & WORD
    return x ^ (x >> 33)


def key_hash(key: bytes, seed: int) -> int:
    """The words of a key, little-endian, the last one filled up with zeros (and there even if empty)."""
    h = seed ^ (len(key) * LENGTH & WORD)
    whole = len(key) // 8 * 8
    for at in range(0, whole, 8):
        h = (mix64(h ^ int.from_bytes(key[at : at + 8], "little")) + GOLDEN) & WORD
    return mix64(h ^ int.from_bytes(key[whole:], "little"))


def crc32(key: bytes, polynomial: int) -> int:
    """Bit by bit, reflected, start and end inverted."""
    crc = 0xFFFFFFFF
    for octet in key:
        crc ^= octet
        for _ in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def function(hashing: Hashing, key: bytes, seed: int, which: int) -> int:
    """64 bits of the function `which` of a key, where the hashing is not PUBLISHED."""
    if hashing is Hashing.MIX:
        return mix64((key_hash(key, seed) + (which + 1) * GOLDEN) & WORD)
    if which == CHECKSUM:
        return crc32(key, POLYNOMIALS[17]) << 32 | crc32(key, POLYNOMIALS[16])
    return crc32(key, POLYNOMIALS[18 if which == COLLECTOR else which]) << 32


def slot(hashing: Hashing, key: bytes, seed: int, copy: int, slots: int) -> int:
    """Slot of a copy."""
    if hashing is Hashing.PUBLISHED:
        return zlib.crc32(key[::-1] + bytes([copy])) % slots
    return (function(hashing, key, seed, copy) >> 32) * slots >> 32


def checksum(hashing: Hashing, key: bytes, seed: int, bits: int) -> int:
    """Checksum of `bits`, not 0."""
    most = (1 << bits) - 1
    if hashing is Hashing.PUBLISHED:
        return zlib.crc32(key[::-1]) & most
    value = function(hashing, key, seed, CHECKSUM)
    return value & most or 1 + ((value >> 32) * min(most, 0xFFFFFFFF) >> 32)


def collector(hashing: Hashing, key: bytes, seed: int, collectors: int) -> int:
    """Collector of a key."""
    shown = Hashing.CRC if hashing is Hashing.PUBLISHED else hashing
    return (function(shown, key, seed, COLLECTOR) >> 32) * collectors >> 32
