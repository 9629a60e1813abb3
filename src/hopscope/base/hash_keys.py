"""Secret keys of hash tables that strangers fill: without them, nobody can choose keys that collide."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

KEYS = 10
"""Keys of the longest hash: one for each 32 bits of a 5-tuple."""


def hash_keys(secret: bytes) -> npt.NDArray[np.uint64]:
    """Keys for `keyed_kernel`, uint64 [KEYS], odd; the same for the same secret."""
    return np.frombuffer(hashlib.shake_256(secret).digest(8 * KEYS), "<u8") | np.uint64(1)
