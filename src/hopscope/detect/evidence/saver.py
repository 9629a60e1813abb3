"""Copies evidence to the data folder: regularly, in case of a power failure, and at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ...memory.region import Region, RegionError
from .region import END, ENTRIES, FOLDER, KIND, VERSION

CLOSE_SECONDS = 5.0
"""Longest time that `close` waits for a disk that does not answer."""


class EvidenceSaver:
    """Writes new evidence of a region to `path` every `seconds`, in a thread of its own; 0: only at the end.

    The file is a region like the one in memory. The checksums of the reports show what a power failure left
    incomplete. The writer of the region does not wait for the disk; `close` does.
    """

    def __init__(self, region: Region, path: Path, seconds: float, notify: Callable[[str], object]) -> None:
        self._region, self._path, self._notify = region, path, notify
        self._fd = -1
        self._saved = (0, 0)
        """Number of entries and bytes, counted from the beginning, that are in the file."""
        self._failed = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if seconds:
            self._thread = threading.Thread(target=self._work, args=(seconds,), name="evidence", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the rest, unless the disk hangs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                return
        self._save()
        self._let_go()

    def _work(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            self._save()

    def _save(self) -> None:
        """Write new evidence; report once that the disk fails, and once that it works again."""
        now: tuple[int, int] = tuple(self._region["cursor"][[ENTRIES, END]].tolist())
        if now == self._saved:
            return
        try:
            if self._fd < 0:
                self._create(now)
            else:
                self._write(self._saved, now)
                os.fsync(self._fd)
        except OSError as error:
            self._let_go()
            if not self._failed:
                self._notify(f"history: the reports of notable events are not on disk: {error.strerror}")
            self._failed = True
            return
        self._saved, self._failed = now, False

    def _create(self, now: tuple[int, int]) -> None:
        """Replace the file with a copy of the whole region, fully allocated, since a replay maps it."""
        self._path.parent.mkdir(mode=0o750, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}")
        self._fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        os.posix_fallocate(self._fd, 0, self._region.nbytes)
        self._copy(0, self._region.place("cursor"))
        self._write((0, 0), now)
        os.fsync(self._fd)
        draft.replace(self._path)

    def _write(self, before: tuple[int, int], now: tuple[int, int]) -> None:
        """Copy entries and bytes between two states, and then the cursor."""
        for name, old, new in (("data", before[1], now[1]), ("entries", before[0], now[0])):
            array, place = self._region[name], self._region.place(name)
            for start, stop in _pieces(old, new, len(array)):
                self._copy(place + start * array.itemsize, place + stop * array.itemsize)
        place = self._region.place("cursor")
        self._copy(place, place + self._region["cursor"].nbytes)

    def _copy(self, at: int, end: int) -> None:
        while at < end:
            at += os.pwrite(self._fd, self._region.view(at, end), at)

    def _let_go(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _pieces(old: int, new: int, room: int) -> Iterator[tuple[int, int]]:
    """Parts of an array of `room` items that were written between two counts."""
    if new - old >= room:
        yield 0, room
        return
    start, stop = old % room, new % room
    if start <= stop:
        yield start, stop
    else:
        yield start, room
        yield 0, stop


def store_evidence(regions: Path, data: Path, notify: Callable[[str], object] = lambda line: None) -> None:
    """Copy the evidence of a collector that has ended to its data folder."""
    for path in sorted(regions.glob("worker-*.evidence")):
        try:
            region = Region.attach(path, KIND, VERSION)
        except RegionError:  # of another version
            continue
        EvidenceSaver(region, data / FOLDER / path.name, 0, notify).close()
