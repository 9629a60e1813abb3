"""A BPF map of the kind `hash`, by its descriptor."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator

from ..capture.errors import CaptureError
from .libbpf import library
from .map_shape import require_shape, shape_of


class HashMap:
    """Keys and values of fixed sizes, as bytes."""

    def __init__(self, descriptor: int, key_bytes: int, value_bytes: int) -> None:
        """Raises CaptureError if its entries have other sizes."""
        shape = shape_of(descriptor)
        require_shape("a map", shape, shape._replace(key_bytes=key_bytes, value_bytes=value_bytes))
        self._descriptor, self._key_bytes, self._value_bytes = descriptor, key_bytes, value_bytes

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry, or replace it. Raises CaptureError, also if the map is full."""
        self._check(library().bpf_map_update_elem(self._descriptor, key, value, 0))

    def delete(self, key: bytes) -> None:
        """Remove an entry if it exists. Raises CaptureError."""
        found = library().bpf_map_delete_elem(self._descriptor, key)
        if found != -errno.ENOENT:
            self._check(found)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """All entries; entries that change during the iteration may be missing. Raises CaptureError."""
        following = ctypes.create_string_buffer(self._key_bytes)
        value = ctypes.create_string_buffer(self._value_bytes)
        found = library().bpf_map_get_next_key(self._descriptor, None, following)
        while not found:
            key = following.raw
            if not library().bpf_map_lookup_elem(self._descriptor, key, value):
                yield key, value.raw
            found = library().bpf_map_get_next_key(self._descriptor, key, following)
        if found != -errno.ENOENT:
            self._check(found)

    def _check(self, result: int) -> None:
        if result:
            raise CaptureError(f"the map of the program cannot be used ({os.strerror(-result)})")
