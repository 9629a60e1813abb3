"""The state of this process for systemd (sd_notify(3)); outside a unit with Type=notify nothing is sent."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress

from .stop import Stop

_SEND_SECONDS = 1.0


class Service:
    """The unit that this process is the main process of."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watched = bool(self._address) and own and microseconds.isdecimal()
        self._interval = int(microseconds) / 2e6 if watched else float("inf")
        """Seconds between two signs of life: half of the limit."""
        self._due = time.monotonic() + self._interval

    def ready(self) -> None:
        """It works, again after `reloading`."""
        self._send("READY=1")

    def reloading(self) -> None:
        """It reads its settings again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """It ends."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """A sign of life, sent when one is due: systemd restarts a unit that gives none for WatchdogSec."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval
            self._send("WATCHDOG=1")

    def watched(self, stop: Stop) -> Stop:
        """The same stop for a loop that is alive while it asks whether it should stop."""
        return _Watched(self, stop)

    def _send(self, state: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_SECONDS)  # a service does not wait for who looks after it
            sender.connect(self._address)
            sender.sendall(state.encode())


class _Watched:
    def __init__(self, service: Service, stop: Stop) -> None:
        self._service, self._stop = service, stop

    def is_set(self) -> bool:
        """Whether to stop."""
        self._service.alive()
        return self._stop.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether to stop."""
        self._service.alive()
        return self._stop.wait(timeout)
