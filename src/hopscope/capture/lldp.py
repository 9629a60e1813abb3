"""Receives LLDP frames at interfaces, and keeps each neighbour's announcement until it expires."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable

from ..wire.lldp import ETHERTYPE, GROUPS, LldpError, Neighbour, read_lldp
from .errors import CaptureError

_SOL_PACKET, _ADD_MEMBERSHIP, _MULTICAST = 263, 1, 0  # packet(7)
_OUTGOING = 4  # PACKET_OUTGOING
_FRAMES = 256
"""Maximum number of frames that are read at a time."""


class LldpListener:
    """One socket for several interfaces. Needs CAP_NET_RAW."""

    def __init__(self) -> None:
        """Raises CaptureError."""
        self._heard: dict[int, tuple[Neighbour, float]] = {}
        self._members: set[int] = set()
        try:
            self._socket = socket.socket(
                socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETHERTYPE)
            )
        except OSError as error:
            raise CaptureError(f"LLDP: {error.strerror}") from error

    def follow(self, interfaces: Iterable[int]) -> None:
        """Listen only at these interfaces, given by number; missing ones are skipped."""
        wanted = set(interfaces)
        for number in wanted - self._members:
            try:
                for group in GROUPS:
                    request = struct.pack("@IHH8s", number, _MULTICAST, len(group), group)
                    self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, request)
            except OSError:
                continue
            self._members.add(number)
        self._members &= wanted
        self._heard = {number: heard for number, heard in self._heard.items() if number in wanted}

    def neighbours(self) -> dict[int, Neighbour]:
        """Newest neighbour by interface, after reading the frames that have arrived; without expired ones."""
        for _ in range(_FRAMES):
            try:
                frame, (name, _, kind, _, _) = self._socket.recvfrom(2048)
            except BlockingIOError:
                break
            except OSError:  # an interface went down: reported once
                continue
            if kind == _OUTGOING:
                continue
            self._take(name, frame)
        now = time.monotonic()
        self._heard = {number: heard for number, heard in self._heard.items() if heard[1] > now}
        return {number: neighbour for number, (neighbour, _) in self._heard.items()}

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _take(self, name: str, frame: bytes) -> None:
        try:
            number, found = socket.if_nametoindex(name), read_lldp(frame)
        except (OSError, LldpError):
            return  # discarded, as the standard requires
        if number in self._members:
            self._heard[number] = found, time.monotonic() + found.seconds
