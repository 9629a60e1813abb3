"""Stands in for systemd: takes what a service says about itself (sd_notify(3))."""

from __future__ import annotations

import socket
from pathlib import Path

from .waiting import HANG_SECONDS


class ServiceManager:
    """A socket that services send their state to; `environment` tells them where it is."""

    def __init__(self, folder: Path, watchdog_seconds: float = 600) -> None:
        path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.settimeout(HANG_SECONDS)
        self.environment = {
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6)),
        }

    def next(self) -> str:
        """The name of the next state that is sent, as READY."""
        return self._socket.recv(4096).decode().partition("=")[0]

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
