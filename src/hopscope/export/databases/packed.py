"""Binary rows of databases, made from NumPy records without a loop over rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[Any]


def packed(rows: Records, lengths: Mapping[str, npt.NDArray[np.integer[Any]]]) -> bytes:
    """The bytes of packed records [n], with some fields truncated.

    `lengths` has, by field, how many bytes [n] of it each row has; 0: the field is left out of that row.
    """
    raw: Records = rows.view(np.uint8).reshape(len(rows), rows.dtype.itemsize)
    keep = np.ones(raw.shape, bool)
    for name, length in lengths.items():
        layout, offset = rows.dtype.fields[name][:2]  # type: ignore[index]
        keep[:, offset : offset + layout.itemsize] = np.arange(layout.itemsize) < length[:, None]
    return raw[keep].tobytes()
