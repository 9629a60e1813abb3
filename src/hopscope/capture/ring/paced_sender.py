"""Sends frames at a given rate through a transmit ring; blocks until the interface has taken them."""

from __future__ import annotations

import time
from pathlib import Path

from ...wire.records import FrameBatch
from ..errors import CaptureError
from ..interface import index_of
from .sender import RingSender

_CHUNK = 1024
_WAIT_SECONDS = 0.0001
_LATE_SECONDS = 0.1
_COMPLETE = 0x2  # ATF_COM: the neighbour's address is known


class PacedSender:
    """Sends frames of one length. `rate`: frames per second; 0: as fast as possible."""

    def __init__(self, interface: str, *, rate: float = 0.0) -> None:
        """Raises CaptureError."""
        self._ring = RingSender(interface, bypass=True)
        self._rate, self._due = rate, 0.0
        self.address = self._ring.address
        """Ethernet address of the interface, 6 bytes."""
        self.unreachable = 0
        """Always 0: a transmit ring gets no ICMP errors."""

    @property
    def sent(self) -> int:
        """Frames that the interface took."""
        return self._ring.sent

    def send(self, batch: FrameBatch) -> None:
        """Send frames of one length that are contiguous in their arena. A delay of more than a tenth of a
        second is not made up for. Raises CaptureError, also if the interface cannot send them.
        """
        count, length = len(batch), int(batch.frames["length"][0])
        start = int(batch.frames["offset"][0])
        rows = batch.arena[start : start + count * length].reshape(count, length)
        at, lost = 0, self._ring.dropped + self._ring.rejected
        while at < count:
            until = min(count, at + (max(1, int(self._rate / 1000)) if self._rate else _CHUNK))
            self._wait()
            begin = at
            while at < until:
                at += self._ring.send_rows(rows[at:until])
                if self._ring.waiting:
                    time.sleep(_WAIT_SECONDS)
                    self._ring.flush()
            if self._rate:
                self._due += (at - begin) / self._rate
        if self._ring.dropped + self._ring.rejected > lost:
            raise CaptureError(
                f"{self._ring.interface}: it is down, or frames of {length} bytes are too long for it"
            )

    def _wait(self) -> None:
        """Sleep until the next frame is due."""
        if self._rate:
            now = time.monotonic()
            self._due = max(self._due, now - _LATE_SECONDS) if self._due else now
            time.sleep(max(0.0, self._due - now))

    def close(self) -> None:
        """Close the socket."""
        self._ring.close()


def mac_of(host: str, interface: str) -> bytes:
    """Ethernet address of an IPv4 neighbour at an interface, 6 bytes. Raises CaptureError."""
    for line in Path("/proc/net/arp").read_text().splitlines()[1:]:
        address, _, flags, mac, _, name = line.split()
        if (address, name) == (host, interface) and int(flags, 16) & _COMPLETE:
            return mac_from(mac)
    index_of(interface)
    raise CaptureError(f"{interface}: the Ethernet address of {host} is not known; ping it once, or name it")


def mac_from(text: str) -> bytes:
    """6 bytes of `02:00:00:00:00:01`. Raises CaptureError."""
    try:
        octets = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        octets = b""
    if len(octets) != 6:
        raise CaptureError(f"found {text!r}, expected an Ethernet address such as 02:00:00:00:00:01")
    return octets
