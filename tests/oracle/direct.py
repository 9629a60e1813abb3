"""Plain twins of what kernels compute about keys, in Python's numbers."""

from __future__ import annotations

import zlib

from hopscope.direct.hashing import POLYNOMIALS

ALL = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    """MurmurHash3's 64-bit finaliser."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & ALL
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & ALL
    return x ^ x >> 33


def mix32(x: int) -> int:
    """MurmurHash3's 32-bit finaliser."""
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    x ^= x >> 13
    x = x * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def key_hash(key: bytes, seed: int) -> int:
    """64 bits of a key: its words of 8 bytes one after the other, the last one (maybe empty) too."""
    h = seed ^ len(key) * 0xD6E8FEB86659FD93 & ALL
    whole = len(key) // 8 * 8
    for at in range(0, whole, 8):
        h = mix64(h ^ int.from_bytes(key[at : at + 8], "little")) + GOLDEN & ALL
    return mix64(h ^ int.from_bytes(key[whole:], "little"))


def hashed(h: int, which: int) -> int:
    """Function `which` of a key."""
    return mix64(h + (which + 1) * GOLDEN & ALL)


def crc(key: bytes, row: int) -> int:
    """CRC-32 with one of our polynomials, bit by bit."""
    if row == 0:
        return zlib.crc32(key)
    value = 0xFFFFFFFF
    for octet in key:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIALS[row] if value & 1 else 0)
    return value ^ 0xFFFFFFFF
