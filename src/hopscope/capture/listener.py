"""The contract of listeners, which receive frames from a UDP port or an interface."""

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
        """Receive without waiting; None if nothing came. A batch is valid until the next call.

        Raises CaptureError if no more can come.
        """

    def fileno(self) -> int:
        """The socket's, to wait for."""

    def counts(self) -> dict[str, int]:
        """Frames that were not returned, by key of `detect.counters.COUNTERS`: since `open`, and the kernel's
        drops since the socket was made.
        """

    def finish(self) -> None:
        """Return only what it has begun to take: the rest is for the next listener of this socket."""

    @property
    def buffer_bytes(self) -> int:
        """Memory in which frames wait, bytes; once open."""

    def notes(self) -> list[str]:
        """Lines for the log at startup."""

    def close(self) -> None:
        """Close the socket."""
