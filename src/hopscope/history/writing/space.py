"""Free space of the file system with the data folder.

Retention deletes the oldest files until `history.keep_free` is free. The journal stops when half of it is
left: in this half, the archive can still turn journals into segments, which take less space.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...settings.section import FreeSpace


def free_bytes(at: Path | int) -> int:
    """Bytes that this user may still use on the file system of a folder, or of an open file."""
    found = os.statvfs(at)
    return found.f_bavail * found.f_frsize


def kept_bytes(at: Path | int, keep_free: FreeSpace) -> int:
    """`keep_free` in bytes, on the file system of a folder or of an open file."""
    if isinstance(keep_free, int):
        return keep_free
    found = os.statvfs(at)
    return int(found.f_blocks * found.f_frsize * float(keep_free.removesuffix("%")) / 100)


def low_bytes(at: Path | int, keep_free: FreeSpace) -> int:
    """Free bytes below which the disk will soon be full: three quarters of `keep_free`, up to which retention
    frees space; or 1 % of the disk if `keep_free` is 0, since then nothing is deleted.
    """
    return kept_bytes(at, keep_free) * 3 // 4 or kept_bytes(at, "1%")
