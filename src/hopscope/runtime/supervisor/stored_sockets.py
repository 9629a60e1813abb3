"""UDP sockets that outlive the collector: systemd stores them, and returns them at the unit's next start.

    collector                                   systemd (file descriptor store of the unit)
    binds sockets ───── FDSTORE, name ────────► keeps a duplicate of each
    stops, or is killed                         the kernel queues datagrams, and counts those that do not fit
    starts ◄─────────── LISTEN_FDS, names ───── passes all of them on
    uses those that fit its settings
    closes the others ─ FDSTOREREMOVE ────────► closes them, too: no process reads them

All sockets of a listener are used, or none: the BPF program of their group depends on each socket's place in
it. A shared memory of the drops counted so far comes with them, so that the drops during the gap are counted,
and none twice.
"""

from __future__ import annotations

import os
import re
import socket
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing

import numpy as np
import numpy.typing as npt

from ...base import log
from ...base.process.service import Service
from ...capture.errors import CaptureError
from ...capture.sockets import bind_shares, close_all, fits, kernel_drops, resume_shares, waiting_bytes
from ...capture.udp.counted_drops import CountedDrops
from ...settings.listen import ListenSettings
from ...settings.source import url
from ...wire.address import with_port

PLACES = 64
"""Maximum number of sockets of a listener, one for each of its workers."""
_DROPS = "udp-drops"
_NAME = re.compile(r"udp-(\d+)-(\d+)-of-(\d+)")


def _names(number: int, count: int) -> list[str]:
    """Names under which systemd stores the sockets of a listener."""
    return [f"udp-{number}-{place}-of-{count}" for place in range(count)]


def _address(handle: socket.socket) -> str:
    """Address of a socket as HOST:PORT."""
    name = handle.getsockname()
    return with_port(*name[:2]) if isinstance(name, tuple) else str(name)


class StoredSockets:
    """The sockets of UDP listeners: those of an earlier process if they fit, otherwise new ones."""

    def __init__(self, service: Service, listeners: Sequence[ListenSettings]) -> None:
        """`listeners`: all listeners of the collector; those of interfaces, or over TCP, have no such
        sockets.
        """
        self._service, self._listeners = service, listeners
        self._log = log.logger("supervisor")
        self._found: dict[int, list[socket.socket]] = {}
        """Sockets that are not opened yet, by number of the listener."""
        self.drops = CountedDrops.of(PLACES * len(listeners))
        """Counted drops; a socket's index is the number of its listener times PLACES, plus its place."""
        self.before = np.zeros(PLACES * len(listeners), np.uint32)
        """Values of `drops` when this process began."""

    def find(self) -> None:
        """Take the sockets of an earlier process, once it has ended; close those that fit no listener."""
        groups, counted = self._passed()
        free = [number for number, listen in enumerate(self._listeners) if listen.over_udp]
        moved: list[int] = []
        for old, shares in groups.items():
            number = next((one for one in free if self._fit(shares, one)), None)
            if number is None:
                self._discard(old, shares, "no listener of the settings has this address")
                continue
            free.remove(number)
            known = old < len(counted)
            drops = counted[old] if known else [kernel_drops(share) or 0 for share in shares]
            self.before[PLACES * number :][: len(shares)] = drops[: len(shares)]
            self._found[number] = shares
            if number != old:
                self._forget(old, len(shares))
                moved.append(number)
        self.drops.words[:] = self.before
        for number in moved:  # after all old names have been released
            self._keep(number, self._found[number])
        if free or self._found:
            self._service.keep(_DROPS, self.drops.descriptor)

    def has(self, number: int) -> bool:
        """Whether an earlier process left sockets for a listener."""
        return number in self._found

    def open(self, number: int) -> list[socket.socket]:
        """Sockets of a listener, one for each worker. There are more if an earlier process had more workers,
        whose sockets may hold datagrams. Raises CaptureError.
        """
        listen, shares = self._listeners[number], self._found.pop(number, [])
        earlier = len(shares)
        if shares:
            try:
                resume_shares(listen, shares)
            except CaptureError as error:
                self._discard(number, shares, str(error), earlier)
                shares, earlier = [], 0
                self.before[PLACES * number :][:PLACES] = 0
        if not shares:
            shares = bind_shares(listen)
        if earlier:
            self._report(number, shares[:earlier])
        if earlier != listen.workers:
            self._forget(number, earlier)
            if listen.port:  # port 0 is a different port after every restart
                self._keep(number, shares[: listen.workers])
        return shares

    def described(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Description of sockets, given by listener and place, for the process that receives on them:
        listener, index in `drops`, and drops that were counted before.
        """
        words = [PLACES * number + place for number, place in places]
        return [(word // PLACES, word, int(self.before[word])) for word in words]

    def close(self) -> None:
        """Close sockets that were not opened; systemd keeps its duplicates."""
        for shares in self._found.values():
            close_all(shares)
        self._found.clear()
        self.drops.close()

    def _passed(self) -> tuple[dict[int, list[socket.socket]], npt.NDArray[np.uint32]]:
        """Complete groups of sockets by their former number, and their counted drops by number and place."""
        found: dict[tuple[int, int], dict[int, socket.socket]] = defaultdict(dict)
        counted = np.zeros((0, PLACES), np.uint32)
        for name, descriptor in self._service.kept():
            try:
                if name == _DROPS:
                    self._service.forget(name)
                    with closing(CountedDrops(descriptor)) as drops:
                        whole = len(drops.words) // PLACES
                        counted = drops.words[: whole * PLACES].reshape(-1, PLACES).copy()
                elif match := _NAME.fullmatch(name):
                    number, place, count = map(int, match.groups())
                    found[number, count][place] = socket.socket(fileno=descriptor)
                else:
                    raise ValueError("it is not from this program")
            except (OSError, ValueError) as error:
                self._log.warning("a file that systemd passed is not used", name=name, reason=str(error))
                self._service.forget(name)
                os.close(descriptor)
        groups: dict[int, list[socket.socket]] = {}
        for (number, count), shares in found.items():
            if number in groups or sorted(shares) != list(range(count)):
                self._discard(number, list(shares.values()), "some sockets of its port are missing", count)
            else:
                groups[number] = [shares[place] for place in range(count)]
        return groups, counted

    def _fit(self, shares: list[socket.socket], number: int) -> bool:
        return all(fits(share, self._listeners[number]) for share in shares)

    def _keep(self, number: int, shares: Sequence[socket.socket]) -> None:
        for name, share in zip(_names(number, len(shares)), shares, strict=True):
            self._service.keep(name, share.fileno())

    def _forget(self, number: int, count: int) -> None:
        for name in _names(number, count):
            self._service.forget(name)

    def _report(self, number: int, shares: Sequence[socket.socket]) -> None:
        """Log how much arrived while no process read."""
        before = self.before[PLACES * number :][: len(shares)]
        drops = np.array([kernel_drops(share) or 0 for share in shares], np.uint32)
        self._log.info(
            "datagrams that arrived during the restart are read now",
            listen=url(self._listeners[number]),
            waiting_bytes=sum(map(waiting_bytes, shares)),
            dropped=int((drops - before).sum()),
        )

    def _discard(self, number: int, shares: list[socket.socket], reason: str, count: int = 0) -> None:
        """Close sockets, and have systemd close its duplicates."""
        self._log.warning(
            "sockets of an earlier start are closed",
            address=_address(shares[0]),
            waiting_bytes=sum(map(waiting_bytes, shares)),
            reason=reason,
        )
        self._forget(number, count or len(shares))
        close_all(shares)
        self._service.wait()  # after which the port is free
