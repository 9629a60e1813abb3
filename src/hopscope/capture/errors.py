"""Errors of sources of frames, one line each."""

from __future__ import annotations

import os
from enum import Enum

from ..base.errors import HopscopeError


class CaptureError(HopscopeError):
    """A source or destination of frames cannot be used; the message says what to do."""


class InterfaceGoneError(CaptureError):
    """The interface was deleted; if it is recreated, it needs a new socket."""


def name_of(file: object) -> str:
    """The name of a file for messages."""
    if isinstance(file, str | os.PathLike):
        return os.fspath(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "capture"


class Damage(Enum):
    """Why a capture file could not be read, or not to its end; the value is the message."""

    UNREADABLE = "cannot be read"
    EMPTY = "is empty"
    NOT_A_CAPTURE = "is neither pcap nor pcapng"
    CUT_HEADER = "is cut in the middle of the file's header"
    TRUNCATED = "is cut in the middle of a record"
    BAD_LENGTH = "has a record with an impossible length"
    TOO_LONG = "has a block of more than 16 MiB that describes packets"
    BAD_INTERFACE = "has a packet of an interface that it does not describe"
    BAD_COMPRESSION = "has damaged gzip compression"

    @property
    def label(self) -> str:
        """Lower-case name, as counted."""
        return self.name.lower()


class PcapError(CaptureError):
    """A file is damaged or not a capture file; frames before the damage have been delivered."""

    def __init__(
        self, name: str, damage: Damage, *, packets: int = 0, offset: int = 0, detail: str = ""
    ) -> None:
        after = f" after packet {packets - 1}, byte {offset}" if packets else ""
        super().__init__(f"{name}: {damage.value}{after}{f' ({detail})' if detail else ''}")
        self.damage = damage
        self.packets = packets
        """Frames delivered before the damage."""
        self.offset = offset
        """Where the damaged record begins, in bytes of the (uncompressed) file."""
