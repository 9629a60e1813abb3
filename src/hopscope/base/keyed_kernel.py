"""Keyed hashing of 64-bit words, compiled.

Multilinear hashing (Thorup, "High Speed Hashing for Integers and Strings", section 3.5): each 32 bits are
multiplied by a secret key, and the products are added. Two inputs, however chosen, collide for at most one
of 2^32 sets of keys.

`keys` is a uint64 array that begins with the keys, which are odd and secret (`hash_keys`).
"""

from .kernels.jit import U64, inlined

HALF = U64(0xFFFFFFFF)


@inlined
def weigh(keys, first, word):
    """The part of a sum that a word contributes: its halves times the keys `first` and `first + 1`."""
    return (word & HALF) * keys[U64(first)] + (word >> U64(32)) * keys[U64(first + 1)]


@inlined
def spread(total):
    """Mix the bits of a sum, so that the low bits depend on all bits."""
    total ^= total >> U64(32)
    total *= U64(0xFF51AFD7ED558CCD)
    return total ^ (total >> U64(29))
