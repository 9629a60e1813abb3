"""Hashes of numbers, and of rows of several columns, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64(x: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Finaliser of MurmurHash3 (64 bit), as `jit.mix64`: every input bit affects every output bit."""
    mixed: npt.NDArray[np.uint64] = np.atleast_1d(np.asarray(x)).astype(np.uint64)
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(multiplier)
    return mixed ^ (mixed >> np.uint64(33))


def hash_rows(*columns: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Hashes of rows of integers, uint64 [n]. Equal rows have the same hash, different rows hardly ever; but
    strangers who choose the values can make two rows collide.
    """
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = (mixed ^ (mixed >> np.uint64(29)) ^ column.astype(np.uint64)) * _GOLDEN
    return mixed
