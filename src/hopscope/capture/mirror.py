"""Frames of an interface, as from a switch's mirror port: a packet socket, read like a UDP socket."""

from __future__ import annotations

import errno
import socket

from ..wire.records import Link
from .errors import CaptureError
from .sockets import url
from .udp import TRAIN_ROOM, UdpListener

HEADROOM = 4
"""Bytes in front of a frame, into which its MAC addresses move where a VLAN tag is put back."""


class MirrorListener(UdpListener):
    """All frames that come in at one interface (Link.ETHERNET), without those that this machine sends.

    VLAN tags that the kernel took off are put back; a frame longer than 64 KiB is counted as oversized.
    The kernel's drops are those of its receive buffer: what the card dropped, it does not tell a socket.
    """

    def _load(self) -> None:
        from .mirror_kernel import unpack_frames

        self._unpack = unpack_frames
        self._allocate(TRAIN_ROOM)
        self._iovecs["base"] += HEADROOM

    def _bound(self, handle: socket.socket) -> None:
        self.port = 0

    def _unpacked(self) -> int:
        return int(
            self._unpack(
                self._bytes,
                self._messages,
                self._names,
                self._controls,
                self._frames,
                self._setup,
                self._state,
                self._time_ns,
                int(Link.ETHERNET),
            )
        )

    def _failed(self, error: int) -> None:
        if error != errno.ENETDOWN:
            super()._failed(error)
        # told once when the interface goes down; it comes back by itself, unless it is gone
        try:
            socket.if_nametoindex(self.settings.interface)
        except OSError:
            raise CaptureError(f"{url(self.settings)}: the interface is gone") from None
