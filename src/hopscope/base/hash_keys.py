"""Secret keys for hash tables that are filled by strangers, who without them cannot choose entries that
collide."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def hash_keys(secret: bytes, count: int) -> npt.NDArray[np.uint64]:
    """Keys for `keyed_kernel`, uint64 [count], odd; the same secret gives the same keys."""
    return np.frombuffer(hashlib.shake_256(secret).digest(8 * count), "<u8") | np.uint64(1)
