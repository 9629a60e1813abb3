"""Regions: files (or private memory) with a versioned header and flat arrays, which any process may map.

A region's file, all numbers little-endian:

====== ===== ==================================================================================
offset bytes content
====== ===== ==================================================================================
0      8     magic ``HOPSREGN``
8      4     format of this header, 1
12     4     byte order mark 0x01020304, in the byte order of the arrays
16     4     version of the schema of the arrays
20     4     bytes of the array table
24     8     bytes of the whole file
32     32    kind, ASCII, padded with zeros
64     …     array table, JSON: ``[[name, dtype, length, offset], …]``; every offset is a multiple of 64
====== ===== ==================================================================================

The file is allocated completely before it is mapped, in whole blocks of its file system (in hugetlbfs, huge
pages), and never truncated, because writing to a mapped file on a full disk would cause a SIGBUS. It is
written under a temporary name and renamed, so no process maps an incomplete header. If a region is recreated
under the same name, processes that have mapped the old one keep it; `is_current` detects this.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError

Array = npt.NDArray[Any]
Arrays = Mapping[str, tuple[Any, int]]
"""Dtype and length of each array, by name."""

MAGIC = b"HOPSREGN"
FORMAT = 1
BYTE_ORDER = 0x01020304
ALIGN = 64
PAGE = 4096
HUGE_PAGE = 2 * 1024 * 1024
_MADV_POPULATE_WRITE = 23
_HEADER = struct.Struct("<8sIIIIQ32s")
_LOCK = threading.Lock()
_MAX_KNOWN = 1000
_known: dict[str, np.dtype[Any]] = {}
"""Record dtypes by their JSON description."""


class RegionError(HopscopeError):
    """A region cannot be created, or is not as expected; the message states what was found."""


def barrier() -> None:
    """Order this thread's reads and writes of mapped memory. It acquires a lock, which is a memory fence on
    all processors.
    """
    with _LOCK:
        pass


def _layout(arrays: Arrays) -> tuple[list[list[Any]], int]:
    """The array table with offsets, and the size of the region in bytes."""
    table = [[name, _describe(np.dtype(dtype)), int(length), 0] for name, (dtype, length) in arrays.items()]
    header = _HEADER.size + len(json.dumps(table)) + 24 * len(table)  # room for the offsets' digits
    at = -(-header // ALIGN) * ALIGN
    for entry, (dtype, length) in zip(table, arrays.values(), strict=True):
        entry[3] = at
        at = -(-(at + np.dtype(dtype).itemsize * int(length)) // ALIGN) * ALIGN
    return table, -(-at // PAGE) * PAGE


def _describe(dtype: np.dtype[Any]) -> Any:
    """The JSON form of a dtype. Offsets and padding are preserved, since NumPy
    writes padding as void fields.
    """
    if dtype.names is None:
        return dtype.str
    described = [list(field) for field in dtype.descr]
    _known.setdefault(json.dumps(described), dtype)
    return described


def _dtype(described: Any) -> np.dtype[Any]:
    """The inverse of `_describe`. Nested records are lists of their fields; the third item of a field is its
    shape.

    The same description always gives the same object, if possible the declared one. Numba identifies the type
    of an array by this object; equal but different objects would be compared field by field, which takes 0.6
    us for each array in each call.
    """
    if isinstance(described, str):
        return np.dtype(described)
    text = json.dumps(described)
    if (found := _known.get(text)) is None:
        found = np.dtype([(name, _dtype(of), *map(tuple, shape)) for name, of, *shape in described])
        if len(_known) < _MAX_KNOWN:
            _known[text] = found
    return found


class Region:
    """Named flat arrays over mapped memory: `region["name"]`. Made with `create` or `attach`."""

    def __init__(
        self,
        path: Path | None,
        kind: str,
        version: int,
        memory: Any,
        table: list[list[Any]],
        inode: int = 0,
    ) -> None:
        self.path = path
        self.kind = kind
        self.version = version
        self.nbytes = len(memory)
        self._memory = memory
        self._inode = inode
        self._arrays: dict[str, Array] = {
            name: np.frombuffer(memory, _dtype(described), length, offset)
            for name, described, length, offset in table
        }
        self._places: dict[str, int] = {name: offset for name, *_, offset in table}

    @classmethod
    def create(cls, path: Path | str | None, kind: str, version: int, arrays: Arrays) -> Region:
        """Create a region filled with zeros, and map it for writing; path None: use private memory.

        Raises RegionError if there is no space, or the folder is not writable.
        """
        table, size = _layout(arrays)
        text = json.dumps(table).encode()

        def fill(memory: mmap.mmap | bytearray, size: int) -> None:
            begin = _HEADER.pack(MAGIC, FORMAT, BYTE_ORDER, version, len(text), size, kind.encode("ascii"))
            memory[: len(begin) + len(text)] = begin + text

        if path is None:
            memory = private_memory(size)
            fill(memory, size)
            return cls(None, kind, version, memory, table)
        path = Path(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with open(draft, "xb+", opener=lambda name, flags: os.open(name, flags, 0o640)) as file:
                size = _whole_blocks(file.fileno(), size)
                _allocate(file.fileno(), size)
                memory = mmap.mmap(file.fileno(), size)
                _advise(memory)
                fill(memory, size)
                inode = os.fstat(file.fileno()).st_ino
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise RegionError(
                f"{path}: cannot create a region of {size:,} bytes: {error.strerror}; "
                "`hopscope check` says what the settings need"
            ) from error
        return cls(path, kind, version, memory, table, inode)

    @classmethod
    def attach(cls, path: Path | str, kind: str, version: int, writable: bool = False) -> Region:
        """Map an existing region, by default read-only.

        Raises RegionError if there is no file, or it is not a region, too short, or of another kind or
        version.
        """
        path = Path(path)
        try:
            with path.open("rb+" if writable else "rb") as file:
                found = os.fstat(file.fileno())  # not by the path, at which there may be another file by now
                size = found.st_size
                head = file.read(_HEADER.size)
                table = _check(path, head, file, size, kind, version)
                access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
                memory = mmap.mmap(file.fileno(), size, access=access)
        except OSError as error:
            raise RegionError(f"{path}: cannot open the region: {error.strerror}") from error
        _advise(memory)
        return cls(path, kind, version, memory, table, found.st_ino)

    @classmethod
    def open(cls, path: Path | None, kind: str, version: int, arrays: Arrays) -> Region:
        """Continue the region at `path`, or create it if there is none that fits; path None: use private
        memory.

        Raises RegionError, also for a file that is not a region.
        """
        found = None if path is None else cls.resume(path, kind, version, arrays)
        return found or cls.create(path, kind, version, arrays)

    @classmethod
    def resume(cls, path: Path, kind: str, version: int, arrays: Arrays) -> Region | None:
        """Map the region at `path` to continue it; None if there is none, or its kind, version or shape
        differs.

        Raises RegionError if the file is not a region, since it then belongs to another program.
        """
        if not path.exists():
            return None
        try:
            region = cls.attach(path, kind, version, writable=True)
        except RegionError:
            with path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise
            return None
        return region if region.has_arrays(arrays) else None

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def shape(self) -> dict[str, tuple[np.dtype[Any], int]]:
        """Dtype and length of each array by name, as for `create`."""
        return {name: (array.dtype, len(array)) for name, array in self._arrays.items()}

    def length(self, name: str) -> int:
        """Length of an array; 0 if there is none."""
        return len(self._arrays[name]) if name in self._arrays else 0

    def has_arrays(self, arrays: Arrays) -> bool:
        """Whether its arrays are exactly these."""
        return self.shape() == {name: (np.dtype(dtype), length) for name, (dtype, length) in arrays.items()}

    def require(self, arrays: Arrays) -> Region:
        """This region. Raises RegionError unless its arrays are exactly these."""
        if not self.has_arrays(arrays):
            raise RegionError(f"{self.path}: its arrays are not those of {self.kind}, version {self.version}")
        return self

    def place(self, name: str) -> int:
        """Offset of an array in the file, bytes."""
        return self._places[name]

    def view(self, start: int, stop: int) -> memoryview:
        """The bytes of the file from `start` to before `stop`."""
        return memoryview(self._memory)[start:stop]

    def rename(self, path: Path) -> None:
        """Replace the file at `path` atomically. Raises OSError."""
        if self.path is not None:
            self.path.replace(path)
            self.path = path

    def populate(self) -> None:
        """Make every page resident and writable, so that no later write has to wait for one (Linux 5.14)."""
        with suppress(OSError, ValueError, AttributeError):
            self._memory.madvise(_MADV_POPULATE_WRITE)

    def is_current(self) -> bool:
        """Whether the mapped file is still the one at its path."""
        if self.path is None:
            return True
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def close(self) -> None:
        """Release the arrays; the memory is unmapped when no array is referenced any more."""
        self._arrays = {}
        with suppress(BufferError, AttributeError):  # arrays referenced elsewhere keep the mapping
            self._memory.close()

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def private_memory(size: int) -> Any:
    """Private memory filled with zeros, in huge pages if available."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return bytearray(size)
    size = -(-size // HUGE_PAGE) * HUGE_PAGE if size >= HUGE_PAGE else size
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    _advise(memory)
    return memory


def _whole_blocks(handle: int, size: int) -> int:
    """The size rounded up to blocks of the file system, which are huge pages in hugetlbfs."""
    if not hasattr(os, "fstatvfs"):
        return size
    block = os.fstatvfs(handle).f_bsize
    return -(-size // block) * block


def _allocate(handle: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, 0, size)
        return
    zeros = bytes(1 << 20)
    for at in range(0, size, len(zeros)):
        os.write(handle, zeros[: min(len(zeros), size - at)])


def _advise(memory: mmap.mmap) -> None:
    """Request huge pages, if the system has them."""
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError, ValueError):
            memory.madvise(mmap.MADV_HUGEPAGE)


def _check(path: Path, head: bytes, file: Any, size: int, kind: str, version: int) -> list[list[Any]]:
    """Check the header of a file; returns its array table. Raises RegionError."""
    if len(head) < _HEADER.size or head[:8] != MAGIC:
        raise RegionError(f"{path}: not a Hopscope region (no {MAGIC.decode()} at its start)")
    _, form, order, found_version, table_bytes, total, found_kind = _HEADER.unpack(head)
    if form != FORMAT:
        raise RegionError(
            f"{path}: header format {form}, expected {FORMAT}: written by another version of Hopscope"
        )
    if order != BYTE_ORDER or sys.byteorder != "little":
        raise RegionError(
            f"{path}: byte order mark {order:#010x}, expected {BYTE_ORDER:#010x} (little-endian)"
        )
    name = found_kind.rstrip(b"\0").decode("ascii", "replace")
    if name != kind:
        raise RegionError(f"{path}: a region of kind '{name}', expected '{kind}'")
    if found_version != version:
        raise RegionError(f"{path}: schema version {found_version} of '{kind}', expected {version}")
    if size < total:
        raise RegionError(f"{path}: {size:,} bytes, but its header says {total:,}: the file is truncated")
    try:
        table: list[list[Any]] = json.loads(file.read(table_bytes))
        dtypes = [_dtype(described) for _, described, _, _ in table]
        ends = [
            offset + dtype.itemsize * length
            for dtype, (_, _, length, offset) in zip(dtypes, table, strict=True)
        ]
    except (ValueError, TypeError, SyntaxError) as error:  # SyntaxError: from NumPy, for a wrong dtype
        raise RegionError(f"{path}: its array table is damaged") from error
    if any(dtype.hasobject or dtype.subdtype or not dtype.itemsize for dtype in dtypes):
        raise RegionError(f"{path}: its array table is damaged")
    if any(end > total for end in ends) or any(offset < 0 or length < 0 for *_, length, offset in table):
        raise RegionError(f"{path}: its array table is damaged")
    return table
