"""Keyed hashing of words of 64 bits, compiled.

Multilinear hashing (Thorup, "High Speed Hashing for Integers and Strings", section 3.5): the sum of each
32 bits times a secret key.  Two inputs, however chosen, collide in at most one of 2^32 sets of keys.
`keys` is an array of uint64 that has them, odd and secret (`hash_keys`); other values may follow them.
"""

from __future__ import annotations

from typing import Any

from .jit import U64, inlined

HALF = U64(0xFFFFFFFF)


@inlined
def weigh(keys: Any, first: Any, word: Any) -> Any:
    """Share of a word in a sum: its halves times the keys `first` and `first + 1`."""
    return (word & HALF) * keys[U64(first)] + (word >> U64(32)) * keys[U64(first + 1)]


@inlined
def spread(total: Any) -> Any:
    """A sum with its bits mixed, so that the low ones depend on all."""
    total ^= total >> U64(32)
    total *= U64(0xFF51AFD7ED558CCD)
    return total ^ (total >> U64(29))
