"""Hash functions from a key to its slots, checksum and collector; a store's header names the one it uses.

Copies need independent functions. A CRC is affine: CRC32(key, n) for n = 0, 1, … are one function XOR
constants, so keys that collide in one copy collide in all, and redundancy makes answers worse.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from .stores import params as at


class Hashing(IntEnum):
    """Hash function of a store."""

    MIX = 0
    """A 64-bit mixer (MurmurHash3's finaliser): independent for every copy."""
    CRC = 1
    """CRC-32 with another polynomial for every copy, which hardware switches can compute."""
    PUBLISHED = 2
    """CRC32(key, n), as in the published DTA code: to read its memory and to measure its weakness.

    Its checksum has 32 bits, and may be 0.
    """


POLYNOMIALS = (
    0xEDB88320, 0xFA8947E3, 0xD0D91C58, 0x841D9C53, 0xD90BA9E4, 0x9693BD96, 0x86F502C9, 0x93931D2D,
    0xCA528A9A, 0x94513732, 0xAED11AB1, 0xF8AE160D, 0xF290FBA3, 0xF00DCFE5, 0xA5EE570E, 0x9590E375,
    0xB0C131DF, 0xE39233D7, 0xB521A5E6,
)  # fmt: skip
"""One reflected polynomial per row of the tables: that of Ethernet, then others drawn at random.

All are primitive, so none loses bits of its remainder and no two have a factor in common: by the Chinese
remainder theorem no difference of two keys of up to 64 bits is zero in two of them.
"""


def tables(hashing: Hashing) -> npt.NDArray[np.uint32]:
    """CRC tables, uint32 [rows * 256]; one row of zeros if the hashing needs none."""
    if hashing is Hashing.MIX:
        return np.zeros(256, np.uint32)
    rows = np.empty((len(POLYNOMIALS), 256), np.uint32)
    for row, polynomial in zip(rows, POLYNOMIALS, strict=True):
        value = np.arange(256, dtype=np.uint32)
        for _ in range(8):
            value = np.where(value & 1, (value >> 1) ^ np.uint32(polynomial), value >> 1)
        row[:] = value
    return rows.reshape(-1)


def slots_of(
    params: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint8], copies: int | None = None
) -> npt.NDArray[np.uint64]:
    """Slots of keys, uint64 [keys, copies], in a store with this header; keys are uint8 [keys, bytes].

    `copies`: at most 16; None: as many as the store has.
    """
    from ..base.kernels.jit import readonly
    from .hashing_kernel import slots_of as run

    copies = int(params[at.COPIES]) if copies is None else copies
    slots = np.empty((len(keys), copies), np.uint64)
    run(*_keys(keys), readonly(params), readonly(tables_of(params)), slots)
    return slots


def checksums_of(
    params: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint8], bits: int | None = None
) -> npt.NDArray[np.uint64]:
    """Checksums of keys, uint64 [keys]; `bits`: width; None: the store's."""
    from ..base.kernels.jit import readonly
    from .hashing_kernel import checksums_of as run

    checksums = np.empty(len(keys), np.uint64)
    width = params[at.CHECKSUM_BITS] if bits is None else np.uint64(bits)
    run(*_keys(keys), readonly(params), readonly(tables_of(params)), width, checksums)
    return checksums


def collectors_of(params: npt.NDArray[np.uint64], keys: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Collectors of keys, uint64 [keys], below the header's number of collectors."""
    from ..base.kernels.jit import readonly
    from .hashing_kernel import collectors_of as run

    collectors = np.zeros(len(keys), np.uint64)
    if params[at.COLLECTORS] > 1:
        run(*_keys(keys), readonly(params), readonly(tables_of(params)), collectors)
    return collectors


def tables_of(params: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
    """`tables` of the hashing that a header names."""
    return tables(Hashing(int(params[at.HASHING])))


def _keys(keys: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], np.uint64]:
    from ..base.kernels.jit import readonly

    return readonly(np.ascontiguousarray(keys, np.uint8).reshape(-1)), np.uint64(keys.shape[1])
