"""IPFIX over TCP: each message of a connection becomes a frame, as a datagram does.

Every connection has a fixed part of one arena, into which its bytes are received. A message stays there until
it is whole. What one connection sends, or does not send, changes nothing for the others: each gets one
receive call per turn.
"""

from __future__ import annotations

import errno
import mmap
import os
import resource
import select
import socket
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from ...settings.listen import ListenSettings
from ...settings.source import url
from ...wire.address import network, number_of
from ...wire.records import FRAME, FrameBatch, Link, Records
from ..errors import CaptureError
from ..sockets import bind_share

ROOM = 2 * 65_536
"""Bytes of a connection's part of the arena: an incomplete message, and the rest of it with more."""
FRAMES = 4096
"""Maximum number of frames in one batch."""
READY = 64
"""Connections that are read in one turn."""
ACCEPTS = 16
"""Connections that are accepted in one turn."""
SLOW_SECONDS, SILENT_SECONDS = 60.0, 600.0
"""Longest time for a message to become whole, and until a connection sends anything."""
SHARE = 8
"""One source has at most one of this many of a worker's connections, but at least one."""
OTHER_FILES = 256
"""Files of a worker that are not connections, at most."""
_LOW = (1 << 64) - 1
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 20), (socket.TCP_KEEPCNT, 6))


class Closed(Enum):
    """Why a connection ended."""

    END = "end"
    """The exporter closed it after a whole message."""
    CUT = "cut"
    """It ended within a message, or failed, as a connection to a machine that is gone."""
    BAD_HEADER = "bad_header"
    """Bytes where a message should begin are not the header of one: wrong version or length."""
    SLOW = "slow"
    """A message was not whole within SLOW_SECONDS, or nothing came within SILENT_SECONDS."""


class Refused(Enum):
    """Why a connection was not accepted."""

    FULL = "full"
    """`connections` of them are open, or the process has no descriptor left."""
    SOURCE = "source"
    """Its source has its share of them."""
    DENIED = "denied"
    """Its source is not allowed."""


@dataclass(slots=True)
class Connection:
    """An exporter's connection."""

    handle: socket.socket
    place: int
    """Number of its part of the arena."""
    high: int
    low: int
    """Address of the exporter, as in FRAME."""
    port: int
    since: float
    """Time at which the incomplete message began, or before the first one, the connection; s, monotonic."""
    begin: int = 0
    """Bytes of its part before this one have been returned as frames."""
    end: int = 0
    """Bytes of its part that are received."""
    sent: bool = False
    """Whether it has sent a whole message."""
    more: bool = False
    """Whether its part has whole messages that found no room in a batch."""

    @property
    def session(self) -> tuple[int, int, int]:
        """What distinguishes it: address (high, low half) and port of the exporter."""
        return self.high, self.low, self.port


class TcpListener:
    """IPFIX messages of the connections of one listening socket, as frames (Link.UDP_PAYLOAD).

    Memory: ROOM bytes for each connection; pages that are never written are not resident. `ended` gets the
    sessions of connections that have ended, after all their messages: the decoder forgets their templates.
    """

    def __init__(
        self,
        settings: ListenSettings,
        worker: int = 0,
        workers: int = 1,
        sock: socket.socket | None = None,
    ) -> None:
        """`sock`: this worker's socket, from `bind_share`; without it, `open` binds one of `workers`."""
        self.settings, self.worker, self.workers = settings, worker, workers
        self.port = settings.port
        """TCP port; after `open` even if the kernel chose it."""
        self.ended: list[tuple[int, int, int]] = []
        self._socket = sock
        self._allowed = [network(text) for text in settings.allow]
        self._share = max(1, settings.connections // SHARE)
        self._connections: dict[int, Connection] = {}
        self._of_source = Counter[tuple[int, int]]()
        self._leaving: list[tuple[int, int, int]] = []
        """Ended sessions whose last messages are in the newest batch."""
        self._counts = Counter[str]()
        self._received = 0
        self._looked = 0.0
        self._finished = False

    def open(self) -> None:
        """Compile, allocate, then bind. Raises CaptureError."""
        from ...base.kernels.jit import readonly
        from .messages_kernel import DAMAGED, FULL, split_messages

        self._readonly, self._split = readonly, split_messages
        self._full, self._damaged = int(FULL), int(DAMAGED)
        room = self.settings.connections * ROOM
        self._bytes = mmap.mmap(-1, room)
        self._arena = np.frombuffer(self._bytes, np.uint8)
        self._arena.flags.writeable = False
        self._view = memoryview(self._bytes)
        self._free = list(range(self.settings.connections))[::-1]
        self._frames: Records = np.zeros(FRAMES, FRAME)
        zero = np.uint64(0)
        self._split(readonly(self._arena[:0]), zero, zero, zero, self._frames, zero)
        _allow_files(self.settings.connections)
        if self._socket is None:
            self._socket = bind_share(self.settings.model_copy(update={"workers": self.workers}), self.worker)
        self.port = int(self._socket.getsockname()[1])
        self._spare = Path(os.devnull).open("rb")  # noqa: SIM115
        self._poll = select.epoll()
        self._poll.register(self._socket.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Descriptor that is readable if anything has arrived."""
        return self._poll.fileno()

    def receive(self) -> FrameBatch | None:
        """The messages that have arrived; None if none are whole. Valid until the next call.

        Raises CaptureError if no more connections can arrive.
        """
        self.ended += self._leaving
        self._leaving = []
        now = time.monotonic()
        count = 0
        for each in [one for one in self._connections.values() if one.more]:
            count = self._take(each, count, now)
        if not self._finished and count < FRAMES:
            for file, _ in self._poll.poll(0, READY):
                if (found := self._connections.get(file)) is not None:
                    count = self._read(found, count, now)
                else:
                    self._accept(now)
        if now - self._looked > 1:
            self._looked = now
            self._close_slow(now)
        if not count:
            return None
        frames = self._frames[:count]
        frames["time_ns"] = time.time_ns()
        first, self._received = self._received, self._received + count
        return FrameBatch(self._arena, frames, first)

    def finish(self) -> None:
        """Return whole messages that were received, and receive no more."""
        self._finished = True

    def counts(self) -> dict[str, int]:
        """Connections, by key of `detect.counters`."""
        return {**self._counts, "ipfix_connections": len(self._connections)}

    @property
    def buffer_bytes(self) -> int:
        """Size of the arena."""
        return len(self._arena)

    def notes(self) -> list[str]:
        """None."""
        return []

    def close(self) -> None:
        """Close the socket and all connections."""
        for each in list(self._connections.values()):
            each.handle.close()
        self._connections.clear()
        if self._socket is not None:
            self._poll.close()
            self._spare.close()
            self._socket.close()
            self._socket = None

    # ------------------------------------------------------------------------------------------ connections

    def _accept(self, now: float) -> None:
        assert self._socket is not None
        for _ in range(ACCEPTS):
            try:
                handle, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                    self._refuse_one()
                    return
                if error.errno in (errno.EBADF, errno.EINVAL, errno.ENOTSOCK):
                    raise CaptureError(
                        f"{url(self.settings)}: accepting failed ({error.strerror})"
                    ) from error
                continue  # the connection failed before it was accepted
            self._admit(handle, address, now)

    def _refuse_one(self) -> None:
        """Close a connection that the process has no descriptor for, with the spare one."""
        assert self._socket is not None
        self._spare.close()
        with suppress(OSError):
            self._socket.accept()[0].close()
            self._refuse(Refused.FULL)
        with suppress(OSError):
            self._spare = Path(os.devnull).open("rb")  # noqa: SIM115

    def _admit(self, handle: socket.socket, address: tuple[object, ...], now: float) -> None:
        """Take a connection, or close it."""
        source = number_of(str(address[0]).partition("%")[0])
        high, low = source >> 64, source & _LOW
        refusal = None
        if self._allowed and not any(first <= source <= last for first, last in self._allowed):
            refusal = Refused.DENIED
        elif not self._free:
            refusal = Refused.FULL
        elif self._of_source[high, low] >= self._share:
            refusal = Refused.SOURCE
        if refusal is not None:
            handle.close()
            self._refuse(refusal)
            return
        handle.setblocking(False)
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            handle.setsockopt(socket.IPPROTO_TCP, option, value)
        file = handle.fileno()
        self._connections[file] = Connection(handle, self._free.pop(), high, low, int(str(address[1])), now)
        self._of_source[high, low] += 1
        self._counts["ipfix_connections_opened"] += 1
        self._poll.register(file, select.EPOLLIN)

    def _refuse(self, why: Refused) -> None:
        self._counts[f"ipfix_connections_refused_{why.value}"] += 1

    def _read(self, one: Connection, count: int, now: float) -> int:
        """Receive once, and describe whole messages; returns the number of frames."""
        if one.more:
            return count  # its part has to be emptied first
        start = one.place * ROOM
        if one.begin:
            left = one.end - one.begin  # less than a message
            self._view[start : start + left] = bytes(self._view[start + one.begin : start + one.end])
            one.begin, one.end = 0, left
        try:
            got = one.handle.recv_into(self._view[start + one.end : start + ROOM])
        except BlockingIOError:
            return count
        except OSError:
            self._close(one, Closed.CUT)
            return count
        if not got:
            self._close(one, Closed.CUT if one.end else Closed.END)
            return count
        if not one.end:
            one.since = now  # a message begins
        one.end += got
        return self._take(one, count, now)

    def _take(self, one: Connection, count: int, now: float) -> int:
        """Describe the whole messages of a connection; returns the number of frames."""
        start = one.place * ROOM
        part = self._readonly(self._arena[start : start + ROOM])
        at, end, offset, first = map(np.uint64, (one.begin, one.end, start, count))
        begin, found, why = self._split(part, at, end, offset, self._frames, first)
        one.begin, until = int(begin), int(found)
        if until > count:
            rows = self._frames[count:until]
            rows["source_hi"], rows["source_lo"], rows["source_port"] = one.high, one.low, one.port
            rows["port"], rows["link"] = self.port, Link.UDP_PAYLOAD
            one.since, one.sent = now, True
        one.more = why == self._full
        if why == self._damaged:
            self._close(one, Closed.BAD_HEADER)
        return until

    def _close_slow(self, now: float) -> None:
        """Close connections that began a message, or that were made and are silent, too long ago."""
        for one in list(self._connections.values()):
            begun = one.end > one.begin and not one.more
            patience = SLOW_SECONDS if begun else SILENT_SECONDS
            if (begun or not one.sent) and now - one.since > patience:
                self._close(one, Closed.SLOW)

    def _close(self, one: Connection, why: Closed) -> None:
        self._counts[f"ipfix_connections_closed_{why.value}"] += 1
        del self._connections[one.handle.fileno()]
        self._of_source[one.high, one.low] -= 1
        if not self._of_source[one.high, one.low]:
            del self._of_source[one.high, one.low]
        one.handle.close()  # epoll forgets it, too
        self._free.insert(0, one.place)  # its messages stay until the next call
        if one.sent:
            self._leaving.append(one.session)


def _allow_files(connections: int) -> None:
    """Raise the limit of open files of this process, which is often 1,024, if it is too low for the
    connections. Above what the system allows, connections are refused.
    """
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + OTHER_FILES
    if limit != resource.RLIM_INFINITY and limit < needed:
        limit = needed if most == resource.RLIM_INFINITY else min(needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
