"""Kind and sizes of maps: a pinned map of another version cannot be shared."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..capture.errors import CaptureError


class MapShape(NamedTuple):
    """Properties that must be equal for a map to be shared."""

    kind: int
    """enum bpf_map_type."""
    key_bytes: int
    value_bytes: int
    entries: int
    flags: int


def shape_of(descriptor: int) -> MapShape:
    """Shape of a map, given by its descriptor."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    names = ("map_type", "key_size", "value_size", "max_entries", "map_flags")
    return MapShape(*(int(found[name], 0) for name in names))


def require_shape(name: object, found: MapShape, expected: MapShape) -> None:
    """Raises CaptureError if a pinned map does not have the shape that this version uses."""
    for what, one, other in zip(MapShape._fields, found, expected, strict=True):
        if one != other:
            raise CaptureError(
                f"{name} is of another version of Hopscope (found {what.replace('_', ' ')} {one}, expected "
                f"{other}): run `hopscope switch detach` first, then attach again"
            )


def mapped(descriptor: int, dtype: np.dtype[Any], rows: int, name: object) -> npt.NDArray[Any]:
    """Memory of a map with BPF_F_MMAPABLE, shared with the programs, [rows]. Raises CaptureError if its
    values have another version's size.
    """
    shape = shape_of(descriptor)
    require_shape(name, shape, shape._replace(value_bytes=dtype.itemsize, entries=rows))
    return np.frombuffer(mmap.mmap(descriptor, rows * dtype.itemsize), dtype)
