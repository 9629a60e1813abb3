"""Forwarding in a sink: strip INT, IFA and IOAM from the frames, and send them on.

A bump in the wire: frames keep their order; packets without telemetry (ARP, LLDP, neighbour discovery …), and
packets that cannot be restored, are forwarded unchanged. Forwarding never blocks: dropped frames are counted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from ...settings.sink import SinkSettings
from ...wire.dialect import Dialect
from ...wire.reasons import DropReason
from ...wire.records import FRAME, HOP, REPORT, FrameBatch, ReportBatch
from ...wire.rewrite.strip_batch import Stripper, totals

if TYPE_CHECKING:
    from ...capture.bypass import Heartbeat

Count = Callable[[str, int], object]
"""Adds to a counter of `detect.counters.COUNTERS`, by its key."""
_HEADER_BYTES = 14
RELEASE_SECONDS = 0.2
"""How long a full output may delay a take-over."""


class Forward(Protocol):
    """A destination of forwarded frames."""

    def __call__(self, frames: FrameBatch, reports: ReportBatch, dialect: Dialect) -> None:
        """Forward a batch; `reports`: the raw reports that the decoder of this dialect returned for it."""


class Sender(Protocol):
    """An interface that sends frames: `capture.ring.sender.RingSender`."""

    arena: npt.NDArray[np.uint8]
    """Memory of all slots."""
    room: int
    """Bytes of the longest frame."""
    sent: int
    """Frames that the interface took, since it was opened."""
    rejected: int
    """Frames that it cannot send: shorter than their header, or longer than its MTU."""
    dropped: int
    """Frames dropped because it was down, removed, or had no carrier."""
    marked: npt.NDArray[np.int64]
    """Frames that the interface took, by mark."""

    @property
    def waiting(self) -> int:
        """Frames that the interface has not taken yet."""

    def slots(self, n: int) -> npt.NDArray[np.uint64]:
        """Offsets in the arena for at most `n` frames; none if the ring is full."""

    def send(self, lengths: npt.NDArray[np.uint32], marks: npt.NDArray[np.uint8]) -> int:
        """Send the frames in the first slots of `slots`, given their lengths (0: skip the slot) and marks."""

    def flush(self) -> int:
        """Retry the frames that the interface did not take at once."""

    def close(self) -> None:
        """Close it; waiting frames are not sent."""


class Forwarder(ABC):
    """A `Forward` that counts what it does."""

    def __init__(self, settings: SinkSettings, count: Count) -> None:
        self._strip = settings.strip
        self._count = count
        self._strippers: dict[Dialect, Stripper] = {}

    @abstractmethod
    def __call__(self, frames: FrameBatch, reports: ReportBatch, dialect: Dialect) -> None:
        """Forward a batch; `reports`: the raw reports that the decoder of this dialect returned for it."""

    @abstractmethod
    def flush(self) -> None:
        """Send waiting frames; called when nothing has arrived, and from time to time."""

    @property
    def waits(self) -> bool:
        """Whether frames wait that `flush` would send."""
        return False

    def beat(self) -> None:
        """Send a heartbeat; called every turn."""
        return

    def stop(self) -> None:
        """Forward only what has arrived so far; later frames use the bypass, if there is one."""
        return

    def release(self) -> None:
        """Send waiting frames; the next are for another process, whose heartbeats the bypass expects."""
        return

    @abstractmethod
    def close(self) -> None:
        """Send no more. Raises CaptureError."""

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stripper(self, dialect: Dialect) -> Stripper:
        found = self._strippers.get(dialect)
        if found is None:
            found = self._strippers[dialect] = Stripper(dialect)
        return found

    def _count_forwarded(self, frames: int, stripped: int, unverified: int, damaged: int) -> None:
        self._count("forwarded_frames_total", frames)
        self._count("stripped_packets_total", stripped)
        self._count("unverified_packets_total", unverified)
        self._count("unstripped_packets_total", damaged)


class ToInterface(Forwarder):
    """Sends frames out of an interface; `close` closes `sender`. `heartbeat`: the heartbeat of the bypass."""

    def __init__(
        self, sender: Sender, settings: SinkSettings, count: Count, heartbeat: Heartbeat | None = None
    ) -> None:
        super().__init__(settings, count)
        self._heartbeat = heartbeat
        self._sender = sender
        self._counted = (0, 0, 0)
        self._marked = sender.marked.copy()

    def beat(self) -> None:
        """Tell the bypass that this worker forwards."""
        if self._heartbeat is not None:
            self._heartbeat.beat()

    def stop(self) -> None:
        """Have the bypass take over."""
        if self._heartbeat is not None:
            self._heartbeat.stop()

    def __call__(self, frames: FrameBatch, reports: ReportBatch, dialect: Dialect) -> None:
        """Put frames into the free slots of the transmit ring; if none is free, drop them."""
        if not self._strip:
            reports = ReportBatch(reports.reports[:0], reports.hops[:0])
        stripper = self._stripper(dialect)
        done, total = 0, len(frames)
        passed = np.zeros(total, np.bool_)
        if self._heartbeat is not None:
            passed = self._heartbeat.passed(frames.frames["time_ns"])
            self._count("bypassed_frames_total", int(np.count_nonzero(passed)))
        while done < total:
            offsets = self._sender.slots(total - done)
            if not len(offsets):
                self._dropped(DropReason.NO_SLOT, int(np.count_nonzero(~passed[done:])))
                return
            self._send(frames, reports, done, offsets, stripper, passed[done : done + len(offsets)])
            done += len(offsets)

    def _send(
        self,
        frames: FrameBatch,
        reports: ReportBatch,
        first: int,
        offsets: npt.NDArray[np.uint64],
        stripper: Stripper,
        passed: npt.NDArray[np.bool_],
    ) -> None:
        """Send the frames from number `first` on; `passed`: those that have bypassed this sink."""
        sender = self._sender
        lengths = stripper.strip_into(frames, reports, sender.arena, offsets, sender.room, first)
        part = frames.frames[first : first + len(offsets)]
        cut = (part["length"] < part["wire_length"]) & ~passed
        long = (lengths == 0) & ~cut & ~passed
        short = (lengths < _HEADER_BYTES) & ~cut & ~long & ~passed
        for reason, which in (
            (DropReason.CUT, cut),
            (DropReason.TOO_LONG, long),
            (DropReason.TOO_SHORT, short),
        ):
            self._dropped(reason, int(np.count_nonzero(which)))
        sender.send(np.where(cut | short | passed, np.uint32(0), lengths), stripper.results)
        self._count_sent()

    def _count_sent(self) -> None:
        """Count frames that the interface has sent or rejected since the last call."""
        sender = self._sender
        now = (sender.sent, sender.rejected, sender.dropped)
        if now == self._counted:
            return
        sent, rejected, dropped = (new - old for new, old in zip(now, self._counted, strict=True))
        self._counted = now
        self._count_forwarded(sent, *totals(sender.marked - self._marked))
        self._marked = sender.marked.copy()
        self._dropped(DropReason.TOO_LONG, rejected)  # short frames were dropped before
        self._dropped(DropReason.DOWN, dropped)

    def _dropped(self, reason: DropReason, frames: int) -> None:
        if frames:
            self._count(f"forward_drops_total.{reason.label}", frames)

    def flush(self) -> None:
        """Retry the frames that the interface did not take at once."""
        self._sender.flush()
        self._count_sent()

    @property
    def waits(self) -> bool:
        """Whether frames wait that the interface did not take at once."""
        return bool(self._sender.waiting)

    def release(self) -> None:
        """Send waiting frames, for RELEASE_SECONDS at most; the bypass expects another process."""
        until = time.monotonic() + RELEASE_SECONDS
        while self._sender.waiting and time.monotonic() < until:
            time.sleep(0.001)
            self.flush()
        if self._heartbeat is not None:
            self._heartbeat.hold()

    def close(self) -> None:
        """Close the ring."""
        self._sender.close()
        self._count_sent()


class ToFile(Forwarder):
    """Writes frames to a capture file (`-`: standard output) with the link type of the first frame."""

    def __init__(self, path: Path | str, settings: SinkSettings, count: Count) -> None:
        from ...capture.pcap.writer import PcapWriter

        super().__init__(settings, count)
        self._writer = PcapWriter(path, link=None)

    def __call__(self, frames: FrameBatch, reports: ReportBatch, dialect: Dialect) -> None:
        """Append the frames. Raises CaptureError."""
        if not len(frames):
            return
        results = 0, 0, 0
        if self._strip:
            stripper = self._stripper(dialect)
            frames = stripper.strip(frames, reports)
            results = stripper.stripped, stripper.unverified, stripper.damaged
        self._writer.write(frames)
        self._count_forwarded(len(frames), *results)

    def flush(self) -> None:
        """Do nothing: no frames wait."""

    def close(self) -> None:
        """Write buffered data, and close."""
        self._writer.close()


def to_interface(
    interface: str, settings: SinkSettings, count: Count, heartbeat: Heartbeat | None = None
) -> Forwarder:
    """Forwards frames to an interface, through a transmit ring. Raises CaptureError."""
    from ...capture.ring.sender import RingSender

    made = ToInterface(RingSender(interface), settings, count, heartbeat)
    warm()
    return made


def warm() -> None:
    """Compile or load the stripper's kernels, so that frames do not wait for them."""
    nothing = ReportBatch(np.zeros(0, REPORT), np.zeros(0, HOP))
    Stripper().strip(FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME)), nothing)


def to_file(path: Path | str, settings: SinkSettings, count: Count) -> Forwarder:
    """Forwards frames to a capture file: pcapng if the path ends so, else pcap. Raises CaptureError."""
    return ToFile(path, settings, count)
