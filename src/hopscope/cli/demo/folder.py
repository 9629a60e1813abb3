"""Temporary folders of demos; the next demo removes those of killed demos."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "hopscope-demo-"
YOUNG_SECONDS = 60.0
"""Younger folders are kept, since their demo may not have locked them yet."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is deleted at the end, as are this user's folders of killed demos.

    A demo holds a lock on its folder, which Linux releases however the process ends.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        _delete_unused(left)
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        lock = _locked(Path(name))
        try:
            yield Path(name)
        finally:
            os.close(lock)


def _delete_unused(folder: Path) -> None:
    with suppress(OSError):
        state = folder.lstat()
        if state.st_uid != os.geteuid() or time.time() - state.st_mtime < YOUNG_SECONDS:
            return
        lock = _locked(folder)
        try:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _locked(folder: Path) -> int:
    """A descriptor that holds the lock of a folder. Raises OSError if another process holds it."""
    import fcntl  # not available on Windows, where there is no demo

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
