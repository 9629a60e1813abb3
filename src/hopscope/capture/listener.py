"""The protocol of listeners, which receive frames from a UDP port or an interface."""

from __future__ import annotations

from typing import Protocol

from ..settings.listen import ListenSettings
from ..wire.records import FrameBatch


class Listener(Protocol):
    """Frames of one worker's socket."""

    settings: ListenSettings

    def open(self) -> None:
        """Compile, allocate, and bind unless a socket was given. Raises CaptureError."""

    def receive(self) -> FrameBatch | None:
        """Receive without blocking; None if nothing has arrived. A batch is valid until the next call.

        Raises CaptureError if nothing more can arrive.
        """

    def fileno(self) -> int:
        """Descriptor of the socket, to wait for."""

    def counts(self) -> dict[str, int]:
        """Frames that were not returned since `open`, by key of `detect.counters.COUNTERS`; kernel drops are
        counted since the socket was made.
        """

    def finish(self) -> None:
        """Return only frames already begun; the rest is for the next listener of this socket."""

    @property
    def buffer_bytes(self) -> int:
        """Size of the memory in which frames wait, bytes, once open."""

    def notes(self) -> list[str]:
        """Lines for the log at startup."""

    def close(self) -> None:
        """Close the socket."""
