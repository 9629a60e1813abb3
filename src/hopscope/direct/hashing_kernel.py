"""Hash functions from a key to its slots, checksum and collector.

Parameters: `mode`: `Hashing`; `tables`: CRC tables, uint32 [rows * 256]; `arena`, `at`, `count`: uint8 bytes,
and the key's offset and length; `h`: result of `begin`; `params`: a store's header (`stores.params`)."""

from ..base.kernels.jit import U32, U64, few, inlined, kernel, load64, mix64
from .stores import params as place

MIX, CRC, PUBLISHED = U64(0), U64(1), U64(2)
GOLDEN = U64(0x9E3779B97F4A7C15)
LENGTH = U64(0xD6E8FEB86659FD93)
CHECKSUM = U64(62)
"""The function that gives a key's checksum; 0 to 15 give its slots."""
COLLECTOR = U64(63)
"""The function that chooses a key's collector."""
ROW_CHECKSUM, ROW_COLLECTOR = U64(16), U64(18)
"""Rows of the CRC tables: 0 to 15 for slots, 16 and 17 for the checksum's halves, 18 for the collector."""


@inlined
def key_hash(arena, at, count, seed):
    """64 bits of a key of `count` bytes: MurmurHash3's finaliser over its words, little-endian."""
    h = U64(seed) ^ (U64(count) * LENGTH)
    i = U64(0)
    while i + U64(8) <= count:
        h = mix64(h ^ load64(arena, at + i)) + GOLDEN
        i += U64(8)
    return mix64(h ^ few(arena, at + i, count - i))


@kernel
def crc32(table, row, arena, at, count):
    """Reflected CRC-32, start and end inverted, by the table in row `row` of a flat table [rows * 256]."""
    crc = U32(0xFFFFFFFF)
    for i in range(U64(count)):
        low = (U64(crc) ^ U64(arena[at + i])) & U64(255)
        crc = U32(table[U64(row) * U64(256) + low] ^ (crc >> U32(8)))
    return U64(crc ^ U32(0xFFFFFFFF))


@inlined
def hashed(h, which):
    """The function `which` of a key whose `key_hash` is `h`: 64 bits, independent of all others."""
    return mix64(U64(h) + (U64(which) + U64(1)) * GOLDEN)


@inlined
def reduce(h, slots):
    """A number below `slots` (at most 2^32) from the upper half of 64 random bits, without a division."""
    return ((U64(h) >> U64(32)) * U64(slots)) >> U64(32)


@inlined
def begin(mode, arena, at, count, seed):
    """The part of the hash that the functions below share for one key; 0 if the mode is a CRC.

    The mixer is inlined, the CRC is called: a Key-Write report takes 8.9 ns instead of 16.6.
    """
    if U64(mode) == MIX:
        return key_hash(arena, at, count, seed)
    return U64(0)


@inlined
def slot(mode, tables, h, arena, at, count, copy, slots):
    """Slot of copy `copy` (from 0) of a key, below `slots`."""
    if U64(mode) == MIX:
        return reduce(hashed(h, copy), slots)
    return _crc_slot(mode, tables, arena, at, count, copy, slots)


@inlined
def checksum(mode, tables, h, arena, at, count, bits):
    """Checksum of a key, `bits` (8 to 64) wide: never 0, so a slot of zeros matches no key."""
    mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - U64(bits))
    value = (
        hashed(h, CHECKSUM) if U64(mode) == MIX else _crc_checksum(mode, tables, arena, at, count)
    )  # fmt: skip
    low = value & mask
    if low == U64(0) and U64(mode) != PUBLISHED:  # keys that would have 0 are spread over all other values
        return U64(1) + reduce(value, min(mask, U64(0xFFFFFFFF)))
    return low


@inlined
def collector(mode, tables, h, arena, at, count, collectors):
    """Collector of a key, below `collectors`."""
    if U64(mode) == MIX:
        return reduce(hashed(h, COLLECTOR), collectors)
    return reduce(crc32(tables, ROW_COLLECTOR, arena, at, count) << U64(32), collectors)


@kernel
def _crc_slot(mode, tables, arena, at, count, copy, slots):
    if U64(mode) == CRC:
        return reduce(crc32(tables, copy, arena, at, count) << U64(32), slots)
    return published(tables, arena, at, count, copy) % U64(slots)


@kernel
def _crc_checksum(mode, tables, arena, at, count):
    if U64(mode) == PUBLISHED:
        return published(tables, arena, at, count, U64(256))
    return (crc32(tables, ROW_CHECKSUM + U64(1), arena, at, count) << U64(32)) | crc32(
        tables, ROW_CHECKSUM, arena, at, count
    )


@kernel
def published(tables, arena, at, count, suffix):
    """CRC32 of the key's bytes in reverse order (it is hashed as a little-endian number), then of the byte
    `suffix`.

    Suffix 256: no byte, which is the published checksum.
    """
    crc = U32(0xFFFFFFFF)
    for i in range(U64(count)):
        low = (U64(crc) ^ U64(arena[at + U64(count) - U64(1) - i])) & U64(255)
        crc = U32(tables[low] ^ (crc >> U32(8)))
    if U64(suffix) < U64(256):
        crc = U32(tables[(U64(crc) ^ U64(suffix)) & U64(255)] ^ (crc >> U32(8)))
    return U64(crc ^ U32(0xFFFFFFFF))


@kernel
def slots_of(keys, key_bytes, params, tables, slots):
    """Slots of consecutive keys, uint64 [keys, copies]."""
    mode = params[place.HASHING]
    for i in range(slots.shape[0]):
        at = U64(i) * key_bytes
        h = begin(mode, keys, at, key_bytes, params[place.SEED])
        for copy in range(slots.shape[1]):
            slots[i, copy] = slot(mode, tables, h, keys, at, key_bytes, U64(copy), params[place.SLOTS])


@kernel
def checksums_of(keys, key_bytes, params, tables, bits, checksums):
    """Checksums of consecutive keys, uint64 [keys]."""
    mode = params[place.HASHING]
    for i in range(checksums.shape[0]):
        at = U64(i) * key_bytes
        h = begin(mode, keys, at, key_bytes, params[place.SEED])
        checksums[i] = checksum(mode, tables, h, keys, at, key_bytes, bits)


@kernel
def collectors_of(keys, key_bytes, params, tables, collectors):
    """Collectors of consecutive keys, uint64 [keys]."""
    mode = params[place.HASHING]
    for i in range(collectors.shape[0]):
        at = U64(i) * key_bytes
        h = begin(mode, keys, at, key_bytes, params[place.SEED])
        collectors[i] = collector(mode, tables, h, keys, at, key_bytes, params[place.COLLECTORS])
