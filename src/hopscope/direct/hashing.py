"""Hash functions from a key to its slots, checksum and collector, chosen per store and written in its header.

Copies need independent functions. A CRC is affine: CRC32(key, n) for n = 0, 1, … are one function XOR
constants, so keys that collide in one copy collide in all, and redundancy makes answers worse.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt


class Hashing(IntEnum):
    """How the slots of a key are found."""

    MIX = 0
    """A 64-bit mixer (MurmurHash3's finaliser): independent for every copy."""
    CRC = 1
    """CRC-32 with another polynomial for every copy, as hardware switches can compute it."""
    PUBLISHED = 2
    """CRC32(key, n), as the published DTA does: to read its memory and to see what is wrong with it."""


POLYNOMIALS = (
    0xEDB88320, 0x82F63B78, 0xEB31D82E, 0xD5828281, 0x992C1A4C, 0xBA0DC66B, 0x9960034C, 0xFA567D89,
    0x1E12A700, 0x65B96595, 0x49CF878B, 0x36518F0D, 0x7A40A908, 0xA833982B, 0xC8DF352F, 0xD419CC15,
    0x8F6E37A0, 0xFB3EE248, 0x9D7E8B2F,
)  # fmt: skip
"""One reflected polynomial per row of the tables; the first is that of Ethernet."""


def tables(hashing: Hashing) -> npt.NDArray[np.uint32]:
    """Tables of the CRCs, uint32 [rows * 256]; one row of zeros where none is needed."""
    if hashing is Hashing.MIX:
        return np.zeros(256, np.uint32)
    polynomials = POLYNOMIALS[:1] if hashing is Hashing.PUBLISHED else POLYNOMIALS
    rows = np.empty((len(polynomials), 256), np.uint32)
    for row, polynomial in zip(rows, polynomials, strict=True):
        value = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            value = np.where(value & 1, (value >> 1) ^ np.uint32(polynomial), value >> 1)
        row[:] = value
    return rows.reshape(-1)
