"""What receives frames: the contract of listeners, be they a UDP port or an interface."""

from __future__ import annotations

from typing import Protocol

from ..settings.collector import ListenSettings
from ..wire.records import FrameBatch


class Listener(Protocol):
    """Frames of one worker's socket."""

    settings: ListenSettings

    def open(self) -> None:
        """Compile, allocate, bind where no socket was given. Raises CaptureError."""

    def receive(self) -> FrameBatch | None:
        """What has come; None where nothing has. It does not wait; a batch is valid until the next call.

        Raises CaptureError where there will be no more.
        """

    def counts(self) -> dict[str, int]:
        """What was not handed over, by key of `metrics.COUNTERS`: since `open`, or the kernel's drops since
        the socket was made.
        """

    @property
    def buffer_bytes(self) -> int:
        """Memory in which frames wait, bytes; once open."""

    def notes(self) -> list[str]:
        """What the user should know at the start."""

    def close(self) -> None:
        """Close the socket."""
