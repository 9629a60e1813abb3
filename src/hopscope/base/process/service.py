"""Notifications to systemd (sd_notify(3)): the state of this process, and open files for its next start.

Outside a unit with Type=notify, nothing is sent.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .stop import Stop

_SEND_SECONDS = 1.0
_DONE_SECONDS = 5.0
_FIRST_FILE = 3  # SD_LISTEN_FDS_START


class Service:
    """The unit whose main process this is."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        microseconds = environment.get("WATCHDOG_USEC", "")
        own = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watched = bool(self._address) and own and microseconds.isdecimal()
        self._interval = int(microseconds) / 2e6 if watched else float("inf")
        """Interval between watchdog notifications, seconds: half of the unit's limit."""
        self._due = time.monotonic() + self._interval
        self._passed = _passed(environment)

    def kept(self) -> list[tuple[str, int]]:
        """Names and descriptors of the files that were passed to this process (sd_listen_fds(3)): those that
        an earlier process gave to `keep`, and those of socket units. They are returned only once.
        """
        passed, self._passed = self._passed, []
        for _, descriptor in passed:
            os.set_inheritable(descriptor, False)
        return passed

    def keep(self, name: str, descriptor: int) -> None:
        """Ask systemd to keep a file for the next process of this unit, until the unit stops for good.

        Nothing is kept if the unit has no FileDescriptorStoreMax.
        """
        self._send(f"FDSTORE=1\nFDPOLL=0\nFDNAME={name}", [descriptor])

    def forget(self, name: str) -> None:
        """Ask systemd to no longer keep the files with this name."""
        self._send(f"FDSTOREREMOVE=1\nFDNAME={name}")

    def wait(self) -> None:
        """Wait until systemd has handled everything that was sent, at most _DONE_SECONDS
        (sd_notify_barrier(3)).
        """
        read, write = os.pipe()
        self._send("BARRIER=1", [write])
        os.close(write)
        poll = select.poll()
        poll.register(read, 0)  # hung up once the receiver has closed its copy
        poll.poll(_DONE_SECONDS * 1000)
        os.close(read)

    def ready(self) -> None:
        """Tell systemd that the process is ready; also after `reloading`."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Tell systemd that the process is reading its settings again."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Tell systemd that the process is stopping."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Send a watchdog notification when one is due: without any for WatchdogSec, systemd restarts the
        unit.
        """
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval
            self._send("WATCHDOG=1")

    def watched(self, stop: Stop) -> Stop:
        """The same stop, for a loop that counts as alive while it checks whether it should stop."""
        return _Watched(self, stop)

    def _send(self, state: str, files: Sequence[int] = ()) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(_SEND_SECONDS)  # the service must not hang because of systemd
            sender.connect(self._address)
            socket.send_fds(sender, [state.encode()], files)


def _passed(environment: Mapping[str, str]) -> list[tuple[str, int]]:
    count = environment.get("LISTEN_FDS", "")
    if environment.get("LISTEN_PID") != str(os.getpid()) or not count.isdecimal():
        return []
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    names += [""] * (int(count) - len(names))
    return [(names[number], _FIRST_FILE + number) for number in range(int(count))]


class _Watched:
    def __init__(self, service: Service, stop: Stop) -> None:
        self._service, self._stop = service, stop

    def is_set(self) -> bool:
        """Whether to stop."""
        self._service.alive()
        return self._stop.is_set()

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; returns whether to stop."""
        self._service.alive()
        return self._stop.wait(timeout)
