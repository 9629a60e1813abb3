"""Programs at tc: links of tcx, which outlive the process that made them if they are pinned."""

from __future__ import annotations

import ctypes
import errno
import os
from enum import IntEnum
from pathlib import Path

from ..capture.errors import CaptureError
from .libbpf import library

_BEFORE = 1 << 3  # BPF_F_BEFORE; relative to nothing: before all
_RAW_TRACEPOINT = 23  # BPF_TRACE_RAW_TP, of enum bpf_attach_type
_GONE = (errno.ENOLINK, errno.ENODEV, errno.ENOENT)


class Direction(IntEnum):
    """Where a program runs (of enum bpf_attach_type)."""

    INGRESS = 46
    EGRESS = 47

    @property
    def label(self) -> str:
        """Lower-case name, as pinned."""
        return self.name.lower()


class _LinkOptions(ctypes.Structure):
    """struct bpf_link_create_opts, its first fields."""

    _fields_ = (("size", ctypes.c_size_t), ("flags", ctypes.c_uint32), ("relative", ctypes.c_uint32 * 7))


def run_at(program: int, index: int, direction: Direction, pin: Path, *, first: bool = False) -> None:
    """Run a program (its descriptor) at the interface `index`, in place of the one that this pin has run; no
    packet passes between both. A new one runs after all others there, or before them (`first`). Raises
    CaptureError.
    """
    held = _opened(pin)
    if held >= 0:
        failed = -library().bpf_link_update(held, program, None)
        os.close(held)
        if not failed:
            return
        if failed not in _GONE:
            raise CaptureError(f"the kernel does not replace the program ({os.strerror(failed)})")
        pin.unlink()  # of an interface that is gone
    options = _LinkOptions(ctypes.sizeof(_LinkOptions), _BEFORE if first else 0)
    link = library().bpf_link_create(program, index, direction, ctypes.byref(options))
    if link == -errno.EINVAL:
        raise CaptureError("the kernel has no tcx, which came with Linux 6.6")
    if link < 0:
        raise CaptureError(f"the interface takes no program at tc ({os.strerror(-link)})")
    _pin(link, pin)


def attach_tracing(program: int, pin: Path) -> None:
    """Run a program (its descriptor) at its tracepoint until `pin` is removed. Raises CaptureError."""
    link = library().bpf_link_create(program, 0, _RAW_TRACEPOINT, None)
    if link < 0:
        raise CaptureError(f"the kernel takes no program at its tracepoint ({os.strerror(-link)})")
    _pin(link, pin)


def _pin(link: int, pin: Path) -> None:
    failed = -library().bpf_obj_pin(link, os.fsencode(pin))
    os.close(link)
    if failed:
        raise CaptureError(f"{pin}: the program cannot be pinned ({os.strerror(failed)})")


def pinned(path: Path) -> int:
    """Descriptor of a pinned map, which the caller closes. Raises CaptureError."""
    found = _opened(path)
    if found < 0:
        raise CaptureError(f"{path}: {os.strerror(-found)}")
    return found


def _opened(path: Path) -> int:
    """Descriptor of a pinned object, or minus the number of an error."""
    found = library().bpf_obj_get(os.fsencode(path))
    return int(found) if found >= 0 else -ctypes.get_errno()
