"""Journal and segments: their sizes, and how long they are kept."""

from __future__ import annotations

from pydantic import Field

from .section import FreeSpace, PowerOfTwo, Seconds, Section


class HistorySettings(Section):
    """Journal and segments."""

    journal_file_bytes: int = Field(default=64 * 1024 * 1024, ge=4096)
    """Size at which a journal file is closed and becomes a segment."""
    journal_file_seconds: Seconds = Field(default=30.0, gt=0)
    """Age at which a journal file is closed and becomes a segment, whatever its size."""
    fsync_seconds: Seconds = 1.0
    """How often the journal, and the reports kept for events, are synced to disk; 0: never. In either case,
    nothing is lost when a process is killed.
    """
    keep_days: float = Field(default=7.0, gt=0, le=10_000)
    """Segments older than this are deleted. A merged segment covers at most an eighth of this time, so an
    event may stay that much longer.
    """
    keep_bytes: int = Field(default=10 * 1024**3, ge=1024**2)
    """Above this total size, the oldest segments are deleted. Distributions, checksums, indexes, and files
    that were set aside as damaged also count. Journals do not count; they hold 30 s of events at most, unless
    the archive stands still.
    """
    keep_free: FreeSpace = "1%"
    """Free space of the disk, in bytes or as a percentage: below it, the oldest segments are deleted; at half
    of it, the journal stops, and events wait in memory."""
    ring_events: PowerOfTwo = Field(default=65_536, ge=1024, le=2**30)
    """Events of one worker that stay in memory, for live readers, and for the journal while the disk is full;
    a power of two."""
    evidence_bytes: int = Field(default=16 * 1024**2, ge=0, le=2**34)
    """Memory for the newest reports that caused notable events; 0: none are kept. With several workers, each
    also holds the datagrams of its last `detect.queue_reports` reports, at 256 bytes each.
    """
    evidence_per_second: int = Field(default=100, ge=1, le=100_000)
    """Most reports that are kept per second of their receive times; further reports are only counted."""
