"""The journal: fixed-width event records, appended by one worker per shard, read by anyone.

When `append` returns, the events are in Linux's page cache, so a killed process loses none of them. A
separate thread (`syncer`) calls fsync, for the case of a power failure. A file stays locked (flock) until it
is closed and on disk; by the lock, the archive sees which journals are finished, also after a kill.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from ...base.plural import plural
from ...settings.section import FreeSpace
from ...wire.records import Records
from ..errors import DamagedError, HistoryError
from ..files.journal_file import (
    EVENT_BYTES,
    HEADER_BYTES,
    number_events,
    push_header,
    read_journal,
    read_journals,
)
from ..files.names import (
    CUT,
    JournalFile,
    journal_path,
    list_journals,
    list_segments,
    note_sequence,
    noted_path,
    set_aside,
    sync_folder,
)
from .space import free_bytes, kept_bytes
from .syncer import Syncer

__all__ = ["JournalFull", "JournalWriter", "read_journals"]

SPACE_SECONDS = 1.0
"""Interval at which the free space is read; it is read sooner if as much as was free has been written."""


NUMBERS_SKIPPED = 1 << 32
"""How many sequence numbers are skipped if the note of the next one is damaged: more than were used since the
newest file that is left."""


class JournalFull(HistoryError):  # noqa: N818 - a state, named as queue.Full is
    """A write failed. The first `written` events of the batch are in the journal, complete."""

    def __init__(self, message: str, written: int, reason: str) -> None:
        super().__init__(message)
        self.written = written
        self.reason = reason
        """The system's message, such as `No space left on device`."""


class JournalWriter:
    """Appends the events of one shard to journals in the data folder `folder`. A shard has one writer.

    It owns the numbers of events: `append` sets `sequence` and `shard`. `file_bytes` and `file_seconds`
    limit a file; `fsync_seconds` 0: no fsync. A write that would leave less than half of `keep_free` free
    fails, so that the archive still has room. `notify` gets log lines, for example when a torn record was
    cut. HistoryError: the folder cannot be written, another process writes the shard, or a file is not ours.
    """

    def __init__(
        self,
        folder: Path,
        shard: int,
        *,
        file_bytes: int = 64 * 1024 * 1024,
        file_seconds: float = 30.0,
        fsync_seconds: float = 1.0,
        keep_free: FreeSpace = 0,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.shard = shard
        self.next_sequence = 0
        """Sequence of the next event."""
        self.written_bytes = 0
        """Bytes written so far, headers included."""
        self._file_bytes, self._file_seconds = file_bytes, file_seconds
        self._keep_free = keep_free
        self._spare_bytes, self._spare_until = 0, -SPACE_SECONDS
        self._fd = -1
        self._offset = 0
        self._opened_at = 0.0
        try:
            (self.folder / "journal").mkdir(parents=True, exist_ok=True)
            self._lock = _lock_shard(self.folder, shard)
        except OSError as error:
            raise HistoryError(f"{self.folder} cannot be written: {error.strerror}") from error
        try:
            self.next_sequence = _recover(self.folder, shard, notify or (lambda line: None))
        except BaseException:
            os.close(self._lock)
            raise
        self._syncer = Syncer(fsync_seconds)

    @property
    def failed_syncs(self) -> int:
        """Number of failed fsyncs."""
        return self._syncer.failed

    def append(self, events: Records) -> int:
        """Write EVENT records [n] after setting `sequence` and `shard` in them; returns their first sequence.

        When it returns, all events are in Linux's page cache. After a failed write, complete records are
        kept and a torn one is cut. JournalFull states the number of events written, by which `next_sequence`
        has advanced, so a caller may continue with `events[full.written:]`. The file is closed, so that it
        can be archived, which takes less space.
        """
        n = len(events)
        first = self.next_sequence
        number_events(events, self.shard, first)
        rest = np.ascontiguousarray(events).view(np.uint8).data
        try:
            while rest:
                part = rest[: self._allowed(len(rest))]
                self._make_room(len(part))
                rest = rest[self._write(part) :]
        except OSError as error:
            if self._offset > HEADER_BYTES:
                self.rotate()
            written = self.next_sequence - first
            message = f"journal in {self.folder}: {error.strerror} ({written} of {n} events written)"
            raise JournalFull(message, written, error.strerror or str(error)) from error
        return first

    def skip_to(self, sequence: int) -> None:
        """Skip the numbers below `sequence`, whose events are lost. The next event begins a new file."""
        if sequence > self.next_sequence:
            self.rotate()
            self.next_sequence = sequence

    def tick(self) -> None:
        """Close the file if it is old enough, so that it can be archived. Call it regularly."""
        if self._fd >= 0 and self._is_old():
            self.rotate()

    def rotate(self) -> None:
        """Close the file, if one is open; the next append opens another."""
        if self._fd >= 0:
            self._syncer.close(self._fd)
            self._fd = -1

    def close(self) -> None:
        """Write everything to disk and release the shard. It may be called twice."""
        self.rotate()
        self._syncer.stop()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_old(self) -> bool:
        return time.monotonic() - self._opened_at >= self._file_seconds

    def _allowed(self, more: int) -> int:
        """How many of `more` bytes may be written without using the archive's half of `keep_free`. OSError:
        not even one record.
        """
        if not self._keep_free:
            return more
        now = time.monotonic()
        if now >= self._spare_until or more > self._spare_bytes:
            self._spare_bytes = free_bytes(self._lock) - kept_bytes(self._lock, self._keep_free) // 2
            self._spare_until = now + SPACE_SECONDS
        allowed = min(more, self._spare_bytes - self._spare_bytes % EVENT_BYTES)
        if allowed <= 0:
            raise OSError(errno.ENOSPC, f"less than half of history.keep_free ({self._keep_free}) is free")
        self._spare_bytes -= allowed
        return allowed

    def _make_room(self, more: int) -> None:
        """Open a new file if the current one has no room for `more` bytes. OSError: nothing has changed."""
        if self._fd >= 0:
            fits = self._offset + more <= self._file_bytes or self._offset == HEADER_BYTES
            if fits and not self._is_old():
                return
        fd = _create(self.folder, self.shard, self.next_sequence)
        self.rotate()
        self._fd, self._offset, self._opened_at = fd, HEADER_BYTES, time.monotonic()
        self.written_bytes += HEADER_BYTES
        self._syncer.open(fd)

    def _write(self, rest: memoryview) -> int:
        """Call write once, and cut a torn record; returns the number of bytes in complete records."""
        done = os.pwrite(self._fd, rest, self._offset)
        whole = done - done % EVENT_BYTES
        self._offset += whole
        self.written_bytes += whole
        self.next_sequence += whole // EVENT_BYTES
        self._syncer.dirty = True
        if whole != done:
            os.ftruncate(self._fd, self._offset)
        if not whole:
            raise OSError(errno.ENOSPC, "no room for one more record")
        return whole


def _recover(folder: Path, shard: int, notify: Callable[[str], None]) -> int:
    """Cut torn records, remove journals without events, set damaged files aside; returns the next sequence of
    the shard.
    """
    following = [s.last + 1 for s in list_segments(folder) if s.shard == shard]
    for part in (folder / "journal").glob(f"{shard:05d}-*.part"):
        with suppress(OSError):
            part.unlink()
    for journal in list_journals(folder):
        if journal.shard != shard:
            continue
        try:
            events, past = cut_damage(folder, journal, notify)
            if not len(events):
                empty = not journal.path.read_bytes().strip(b"\0")
                journal.path.unlink()
                if empty:
                    notify(f"{journal.path} is empty, as after a power failure: removed")
        except FileNotFoundError:  # it has become a segment
            following += [s.last + 1 for s in list_segments(folder) if s.shard == shard]
            continue
        except DamagedError as error:
            past = _past(journal)
            try:
                notify(f"{error}; set aside as {set_journal_aside(folder, journal)}")
            except OSError as problem:  # such as a full disk; the archive does it later
                notify(f"{error}; it cannot be set aside: {problem.strerror}")
        except OSError as error:
            past = max(_past(journal), journal.first + 1)
            notify(f"{journal.path} cannot be mended: {error.strerror}")
        following.append(past)
    noted = noted_path(folder, shard)
    try:
        following.append(int(noted.read_text()))
    except FileNotFoundError:
        pass
    except ValueError:
        following.append(max(following, default=0) + NUMBERS_SKIPPED)
        notify(
            f"{noted} is damaged; set aside as {set_aside(noted)}, and {NUMBERS_SKIPPED:,} numbers skipped"
        )
    return max(following, default=0)


def cut_damage(folder: Path, journal: JournalFile, notify: Callable[[str], None]) -> tuple[Records, int]:
    """Cut a closed journal after its last undamaged event. Bytes that may be events after a damaged one are
    kept in a file *.cut; their numbers are noted, and not used again.

    Returns the undamaged events, and a number above those of all events that the journal had. OSError: it
    cannot be cut, for example on a full disk. DamagedError: its header is damaged.
    """
    events, record_bytes = read_journal(journal.path)
    end, past = HEADER_BYTES + len(events) * record_bytes, journal.first + len(events)
    torn = journal.path.stat().st_size - end
    if torn <= 0:
        return events, past
    kept = ""
    with journal.path.open("rb+") as file:
        file.seek(end)
        rest = file.read()
        if len(rest) >= record_bytes and rest.strip(b"\0"):
            past += len(rest) // record_bytes
            note_sequence(folder, journal.shard, past)
            kept = _keep(journal.path.with_suffix(CUT), rest)
        file.truncate(end)
    notify(
        f"{journal.path}: {plural(torn, 'byte')} of a torn write cut{kept}, "
        f"{plural(len(events), 'event')} kept"
    )
    return events, past


def set_journal_aside(folder: Path, journal: JournalFile) -> str:
    """Rename a damaged journal, and note that its numbers must not be used again; returns its new name.
    OSError: it failed.
    """
    note_sequence(folder, journal.shard, _past(journal))
    return set_aside(journal.path)


def _past(journal: JournalFile) -> int:
    """A number above those of all events that a journal with a damaged header may have."""
    return journal.first + journal.path.stat().st_size // EVENT_BYTES


def _keep(cut: Path, rest: bytes) -> str:
    """Write the bytes that are cut into a file; returns the part of the log message about it."""
    try:
        cut.touch(mode=0o640)
        cut.write_bytes(rest)
    except OSError as error:
        cut.unlink(missing_ok=True)
        return f", and not kept ({error.strerror})"
    return f" into {cut.name}"


def _create(folder: Path, shard: int, first: int) -> int:
    """Create a locked journal, which gets its name after lock and header are in place. OSError: it failed,
    and left nothing.
    """
    path = journal_path(folder, shard, first)
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        _flock(fd)
        head = push_header(shard, first)
        if os.pwrite(fd, head, 0) != len(head):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        part.rename(path)
        sync_folder(path.parent)
    except BaseException:
        os.close(fd)
        part.unlink(missing_ok=True)
        raise
    return fd


def _lock_shard(folder: Path, shard: int) -> int:
    fd = os.open(folder / "journal" / f"{shard:05d}.lock", os.O_RDWR | os.O_CREAT, 0o640)
    try:
        _flock(fd)
    except BlockingIOError as error:
        os.close(fd)
        raise HistoryError(f"another process writes shard {shard} of {folder}: stop it first") from error
    return fd


def _flock(fd: int) -> None:
    import fcntl  # not on Windows, where history can be read but not written

    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
