"""The last hop's process: sends labels that the programs removed to the collector, as UDP datagrams."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import numpy as np

from ...bpf.ring import FRAMES, BpfRing
from ...capture.errors import CaptureError
from ...wire.address import with_port
from ...wire.records import FRAME, FrameBatch
from .layout import RING_BYTES
from .maps import LabelMaps

DATAGRAM_BYTES = 1472
"""Longest datagram: it ends before the block that would exceed this."""
STALE_NS = 10**10
"""Labels that waited longer in the ring, because no process ran, are counted but not sent."""


class LabelSender:
    """Sends the labels that the programs put into their ring, until `close`."""

    def __init__(self, pins: Path, host: str, port: int) -> None:
        """`host` and `port`: `label.listen` of a collector. Raises CaptureError if INT-label is not attached,
        or if the name of the collector is unknown.
        """
        from ...base.kernels.jit import readonly
        from .pack_kernel import pack

        self._readonly, self._pack = readonly, pack
        self._maps = LabelMaps.pinned(pins)
        self.ring = self._maps.ring
        """Descriptor of the ring."""
        self._ring = BpfRing()
        self._ring.map(self.ring, RING_BYTES)
        self._ends = np.zeros(FRAMES, np.uint64)
        self._out = np.zeros(RING_BYTES, np.uint8)
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
            self._socket.connect(address)
        except OSError as error:
            self._maps.close()
            raise CaptureError(f"label.collector: {with_port(host, port)}: {error.strerror}") from error
        self._send(FrameBatch(np.zeros(0, np.uint8), np.zeros(0, FRAME), 0))  # loads the kernel

    def turn(self) -> int:
        """Send the labels in the ring; returns from how many packets they are."""
        batch = self._ring.receive()
        if batch is None:
            return 0
        fresh = batch.frames["time_ns"] > time.time_ns() - STALE_NS
        stale = len(batch) - int(np.count_nonzero(fresh))
        self._send(FrameBatch(batch.arena, batch.frames[fresh], 0) if stale else batch, stale)
        return len(batch)

    def drain(self) -> None:
        """Send the rest."""
        while self.turn():
            pass

    def close(self) -> None:
        """Release the ring and the socket."""
        self._socket.close()
        self._maps.close()

    def _send(self, batch: FrameBatch, stale: int = 0) -> None:
        most = np.uint64(DATAGRAM_BYTES)
        frames = self._readonly(batch.arena), self._readonly(batch.frames)
        count = int(self._pack(*frames, most, self._out, self._ends))
        begin = sent = 0
        for end in self._ends[:count].tolist():
            try:
                self._socket.send(self._out[begin:end].data)
                sent += 1
            except OSError:  # no process listens there, or the buffer is full
                pass
            begin = end
        self._maps.add_sent(sent, count - sent, stale)
