"""An unconnected UDP socket that receives frames, and sends each frame to its own receiver (RoCEv2)."""

from __future__ import annotations

import ipaddress
import socket
import struct

import numpy as np

from ...settings.listen import ListenSettings
from ...wire.address import address, with_port
from ...wire.records import FrameBatch
from ..errors import CaptureError
from ..sockets import bind_share, do_not_fragment
from .listener import UdpListener
from .sender import UdpSender


class DatagramSocket(UdpListener):
    """A UdpListener that also sends, from the address and port to which it is bound.

    `host` must be a single address, since the invariant CRC covers both addresses. Packets have DF set and
    are never fragmented. Packets to loopback addresses are sent in trains (UDP_SEGMENT), which the receiver
    gets unchanged; on a wire, the packets of a train would have identifications other than 0, which the CRC
    covers.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        allow: tuple[str, ...] = (),
        wildcard: bool = False,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        """`allow`: networks whose datagrams are accepted; empty: all. `wildcard`: the host may stand for all
        addresses of the machine, for protocols other than RoCEv2. Several `workers` can share the port; each
        has a socket, and the sockets are opened in order. `open` binds.
        """
        super().__init__(ListenSettings(host=host, port=port, allow=allow, workers=workers), worker, workers)
        self._wildcard = wildcard
        self.unsendable = 0
        """Frames that the system did not accept: no route, or not permitted."""
        self._senders: dict[bool, UdpSender] = {}

    def open(self) -> None:
        """Compile, allocate, bind. Raises CaptureError."""
        if not self._wildcard and ipaddress.ip_address(self.settings.host).is_unspecified:
            raise CaptureError(f"{self.settings.host} is not a single address, which a queue pair needs")
        self.prepare()
        handle = self._socket = bind_share(self.settings, self.worker)
        do_not_fragment(handle)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
        self._file = handle.fileno()
        self._bound(handle)
        named = f"udp://{with_port(self.settings.host, self.port)}"
        self._senders = {trains: UdpSender.over(handle, named, trains=trains) for trains in (False, True)}

    def send(self, batch: FrameBatch) -> int:
        """Send every frame (Link.UDP_PAYLOAD) to its `source_*`, `port`; returns how many the system took."""
        frames = batch.frames
        if not len(frames):
            return 0
        changes = np.flatnonzero(
            (frames["source_hi"][1:] != frames["source_hi"][:-1])
            | (frames["source_lo"][1:] != frames["source_lo"][:-1])
            | (frames["port"][1:] != frames["port"][:-1])
        )
        taken = 0
        begins = [0, *(changes + 1).tolist()]
        for first, last in zip(begins, [*begins[1:], len(frames)], strict=True):
            run = frames[first:last]
            try:
                name, loopback = self._name_of(run[0])
                taken += self._senders[loopback].send(FrameBatch(batch.arena, run), name)
            except CaptureError:
                self.unsendable += last - first
        return taken

    def _name_of(self, frame: np.void) -> tuple[bytes, bool]:
        """The sockaddr of a frame's receiver, and whether it is this machine's loopback."""
        assert self._socket is not None
        receiver = ipaddress.ip_address(address(int(frame["source_hi"]), int(frame["source_lo"])))
        port = int(frame["port"])
        if (receiver.version == 4) != (self._socket.family == socket.AF_INET):
            raise CaptureError(f"{receiver} cannot be reached from {self.settings.host}")
        if receiver.version == 4:
            name = struct.pack("<H", socket.AF_INET) + struct.pack(">H", port) + receiver.packed + bytes(8)
        else:
            name = (
                struct.pack("<H", socket.AF_INET6) + struct.pack(">HI", port, 0) + receiver.packed + bytes(4)
            )
        return name, receiver.is_loopback
