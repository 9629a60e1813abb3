"""DTA records from arrays, for tests of primitives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hopscope.wire.dta.records import DTA
from hopscope.wire.records import Records


def dta(
    opcode: int, keys: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8], **fields: object
) -> tuple[Records, npt.NDArray[np.uint8]]:
    """DTA records of keys uint8 [n, k] and values uint8 [n, d], and their arena."""
    count, key_bytes = keys.shape
    arena = np.concatenate([keys, values], axis=1).astype(np.uint8).reshape(-1)
    reports = np.zeros(count, DTA)
    width = key_bytes + values.shape[1]
    reports["opcode"] = opcode
    reports["key_at"] = np.arange(count) * width
    reports["data_at"] = np.arange(count) * width + key_bytes
    reports["key_bytes"] = key_bytes
    reports["data_bytes"] = values.shape[1]
    for name, value in fields.items():
        reports[name] = value
    return reports, arena


def as_bytes(numbers: npt.NDArray[np.integer], width: int = 4) -> npt.NDArray[np.uint8]:
    """Numbers as big-endian bytes, uint8 [n, width]."""
    octets = np.asarray(numbers, np.uint64).astype(">u8").view(np.uint8).reshape(-1, 8)
    return np.pad(octets, ((0, 0), (max(width - 8, 0), 0)))[:, -width:].copy()
