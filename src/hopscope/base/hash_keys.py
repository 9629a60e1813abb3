"""Secret keys of hash tables that strangers fill: who does not know them cannot choose keys that collide."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def hash_keys(secret: bytes, count: int) -> npt.NDArray[np.uint64]:
    """Keys for `keyed_kernel`, uint64 [count], odd; the same for the same secret."""
    return np.frombuffer(hashlib.shake_256(secret).digest(8 * count), "<u8") | np.uint64(1)
