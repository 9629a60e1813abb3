"""fsync of journals, in a separate thread."""

from __future__ import annotations

import os
import threading


class Syncer:
    """Calls fsync on the open file every `seconds`, and on a finished file before it is closed, which
    releases its lock.

    With `seconds` 0, there is no thread and no fsync. fsync runs without the interpreter's lock and on a
    copy of the descriptor, so the writer does not wait for it.
    """

    def __init__(self, seconds: float) -> None:
        self.dirty = False
        """Set by the writer after each write."""
        self.failed = 0
        """Failed fsyncs."""
        self._seconds = seconds
        self._fd = -1
        self._closed: list[int] = []
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def open(self, fd: int) -> None:
        """Sync this file from now on."""
        with self._lock:
            self._fd = fd
        if self._seconds and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="journal-fsync", daemon=True)
            self._thread.start()

    def close(self, fd: int) -> None:
        """Sync and close a file that its writer has finished."""
        with self._lock:
            self._fd = -1
            self._closed.append(fd)
        if self._thread is None:
            self._round()
        else:
            self._wake.set()

    def stop(self) -> None:
        """Sync and close the remaining files, and stop the thread."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._round()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._seconds)
            self._wake.clear()
            self._round()

    def _round(self) -> None:
        with self._lock:
            files, self._closed = self._closed, []
            try:
                if self._fd >= 0 and self.dirty:
                    files.append(os.dup(self._fd))
                    self.dirty = False
            except OSError:
                self.failed += 1
        for fd in files:
            try:
                if self._seconds:
                    os.fsync(fd)
            except OSError:
                self.failed += 1
            finally:
                os.close(fd)
