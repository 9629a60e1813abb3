"""Attaches programs at tc, as tcx links, which outlive the process that created them if they are pinned.

On kernels without tcx, programs are clsact filters, which stay by themselves; then the program is pinned.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from ..capture.errors import CaptureError
from ..wire.records import Records
from .hash_map import HashMap
from .libbpf import library
from .map_shape import mapped

_BEFORE = 1 << 3  # BPF_F_BEFORE; without a reference: before all others
_RAW_TRACEPOINT = 23  # BPF_TRACE_RAW_TP, of enum bpf_attach_type
_REPLACE = 1  # BPF_TC_F_REPLACE
_HANDLE = 0x485  # of a filter: differs from numbers that the kernel assigns
_GONE = (errno.ENOLINK, errno.ENODEV, errno.ENOENT)
_STATFS_BYTES, _BPF_FS = 256, 0xCAFE4A11  # struct statfs, and BPF_FS_MAGIC, its first field


class Direction(IntEnum):
    """Where a program runs (enum bpf_attach_type)."""

    INGRESS = 46
    EGRESS = 47

    @property
    def label(self) -> str:
        """Lower-case name, as in names of pins."""
        return self.name.lower()


class _LinkOptions(ctypes.Structure):
    """The first fields of struct bpf_link_create_opts."""

    _fields_ = (("size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("relative", ctypes.c_uint32 * 7))


class _Hook(ctypes.Structure):
    """struct bpf_tc_hook."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("index", ctypes.c_int),
        ("point", ctypes.c_int),
        ("parent", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class _FilterOptions(ctypes.Structure):
    """struct bpf_tc_opts."""

    _fields_ = (
        ("size", ctypes.c_size_t),
        ("program", ctypes.c_int),
        ("flags", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("handle", ctypes.c_uint32),
        ("priority", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


def run_at(program: int, index: int, direction: Direction, pin: Path, *, first: bool = False) -> None:
    """Attach a program (a descriptor) to the interface `index`. A program that this pin has run is replaced;
    no packet passes between the old and the new one. A new program runs after all others at this interface,
    or before them (`first`). Raises CaptureError.
    """
    held = _opened(pin)
    if held >= 0 and _is_program(held):
        os.close(held)
        _filter_at(program, index, direction, pin, first=first)
        return
    if held >= 0:
        failed = -library().bpf_link_update(held, program, None)
        os.close(held)
        if not failed:
            return
        if failed not in _GONE:
            raise CaptureError(f"the kernel refused to replace the program ({os.strerror(failed)})")
        pin.unlink()  # left by an interface that no longer exists
    options = _LinkOptions(ctypes.sizeof(_LinkOptions), _BEFORE if first else 0)
    link = _link(program, index, direction, options)
    if link == -errno.EINVAL:
        _filter_at(program, index, direction, pin, first=first)
        return
    if link < 0:
        raise CaptureError(f"the interface does not accept a program at tc ({os.strerror(-link)})")
    _pin(link, pin)
    os.close(link)


def _link(program: int, index: int, direction: Direction, options: _LinkOptions) -> int:
    """A tcx link; -EINVAL: the kernel does not have tcx (before Linux 6.6)."""
    return int(library().bpf_link_create(program, index, direction, ctypes.byref(options)))


def _filter_at(program: int, index: int, direction: Direction, pin: Path, *, first: bool) -> None:
    """Attach a program as a clsact filter, replacing the one at the same place."""
    hook, options = _filter(index, direction, first=first)
    made = -library().bpf_tc_hook_create(ctypes.byref(hook))
    if made not in (0, errno.EEXIST):
        raise CaptureError(f"the interface does not accept a program at tc ({os.strerror(made)})")
    options.program, options.flags = program, _REPLACE
    failed = -library().bpf_tc_attach(ctypes.byref(hook), ctypes.byref(options))
    if failed:
        raise CaptureError(f"the interface does not accept a program at tc ({os.strerror(failed)})")
    pin.unlink(missing_ok=True)
    _pin(program, pin)


def _filter(index: int, direction: Direction, *, first: bool) -> tuple[_Hook, _FilterOptions]:
    hook = _Hook(ctypes.sizeof(_Hook), index, 1 + (direction is Direction.EGRESS), 0, 0)
    options = _FilterOptions(
        ctypes.sizeof(_FilterOptions), handle=_HANDLE + (not first), priority=1 + (not first)
    )
    return hook, options


def remove(pin: Path) -> None:
    """Detach the program that `run_at` has pinned at `pin`, named `…DIRECTION-INDEX`."""
    held = _opened(pin)
    if held >= 0:
        is_filter = _is_program(held)
        os.close(held)
        if is_filter:
            name, _, index = pin.name.rpartition("-")
            label = name.rpartition("-")[2]
            # only the name of a program that runs before others has more than the direction before its index
            hook, options = _filter(int(index), Direction[label.upper()], first=name != label)
            library().bpf_tc_detach(ctypes.byref(hook), ctypes.byref(options))  # it may be gone
    pin.unlink(missing_ok=True)


def attach_tracing(program: int, pin: Path) -> None:
    """Attach a program (a descriptor) to its tracepoint, until `pin` is removed. Raises CaptureError."""
    link = library().bpf_link_create(program, 0, _RAW_TRACEPOINT, None)
    if link < 0:
        raise CaptureError(f"the kernel does not accept the program at its tracepoint ({os.strerror(-link)})")
    _pin(link, pin)
    os.close(link)


def _pin(descriptor: int, pin: Path) -> None:
    failed = -library().bpf_obj_pin(descriptor, os.fsencode(pin))
    if failed:
        raise CaptureError(f"{pin}: the program cannot be pinned ({os.strerror(failed)})")


def file_system_problem(path: Path) -> str:
    """Why nothing can be pinned at a path, and the remedy; empty: the path is in a BPF file system."""
    place = next(each for each in path.parents if each.exists())
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if (
        ctypes.CDLL(None).statfs(os.fsencode(place), found)
        or int.from_bytes(found[:4], sys.byteorder) == _BPF_FS
    ):
        return ""
    return (
        f"there is no BPF file system: `mount -t bpf bpf {place}` makes one. `ip netns exec NAME` hides this "
        "machine's, `nsenter --net=/run/netns/NAME` does not"
    )


def pinned(path: Path) -> int:
    """Descriptor of a pinned map, which the caller closes. Raises CaptureError."""
    found = _opened(path)
    if found < 0:
        raise CaptureError(f"{path}: {file_system_problem(path) or os.strerror(-found)}")
    return found


def pinned_memory(path: Path, dtype: np.dtype[Any], rows: int = 1) -> Records:
    """Memory of a pinned map with BPF_F_MMAPABLE, [rows]. Raises CaptureError."""
    descriptor = pinned(path)
    try:
        return mapped(descriptor, dtype, rows, path)
    finally:
        os.close(descriptor)


def pinned_entries(path: Path, key_bytes: int, value_bytes: int) -> dict[bytes, bytes]:
    """Entries of a pinned map of the kind `hash`. Raises CaptureError."""
    descriptor = pinned(path)
    try:
        return dict(HashMap(descriptor, key_bytes, value_bytes).items())
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Descriptor of a pinned object, or a negative error number."""
    found = library().bpf_obj_get(os.fsencode(path))
    return int(found) if found >= 0 else -ctypes.get_errno()


def _is_program(descriptor: int) -> bool:
    """Whether a descriptor belongs to a program, rather than to a link."""
    return "prog_jited" in Path(f"/proc/self/fdinfo/{descriptor}").read_text()
