"""Sends frames as UDP datagrams, in trains if the kernel supports them."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import time

import numpy as np

from ...settings.section import is_loopback
from ...wire.address import with_port
from ...wire.records import FRAME, FrameBatch, Link, Records
from ..errors import CaptureError
from ..layout import CONTROL_BYTES, IOVEC, MMSGHDR, NAME_BYTES
from ..sockets import UDP_SEGMENT, require_linux, resolve

_MESSAGES = 64
_IOVECS = 4096
_TRAIN = 64  # UDP_MAX_SEGMENTS of older kernels
_AGAIN = (errno.EAGAIN, errno.ENOBUFS, errno.EINTR)
_IP_RECVERR = 11  # linux/in.h
_LOOPBACK = ": the loopback interface is down, as in a new network namespace; `ip link set lo up`"


class UdpSender:
    """Sends the payloads of batches (Link.UDP_PAYLOAD) to one address.

    `rate`: datagrams per second; 0: as fast as possible. `trains`: consecutive frames of equal length are
    sent as one (UDP_SEGMENT); the receiver gets single datagrams, or trains with UDP_GRO. `by_source`: each
    datagram is sent from its frame's source address, which must belong to this machine (any in 127.0.0.0/8 on
    loopback); otherwise from `source`, or an address that the kernel chooses.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        rate: float = 0.0,
        trains: bool = True,
        by_source: bool = False,
        source: str | None = None,
    ) -> None:
        require_linux()
        named = f"udp://{with_port(host, port)}"
        family, address = resolve(host, port, named)
        handle = socket.socket(family, socket.SOCK_DGRAM)
        try:
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * 1024 * 1024)
            if source is not None:
                handle.bind((source, 0))
            if by_source and family == socket.AF_INET:
                handle.setsockopt(
                    socket.IPPROTO_IP, _IP_RECVERR, 1
                )  # connected, it misses other sources' errors
            else:
                handle.connect(address)
        except OSError as error:
            handle.close()
            hint = _LOOPBACK if error.errno == errno.ENETUNREACH and is_loopback(host) else ""
            raise CaptureError(f"{named}: {error.strerror or error}{hint}") from error
        self._over(handle, named, trains)
        self._rate = rate
        self._source = (6 if family == socket.AF_INET6 else 4) if by_source else 0
        if self._source == 4:
            name = struct.pack("=H", socket.AF_INET) + struct.pack(">H", int(str(address[1])))
            self._send_to(name + socket.inet_aton(str(address[0])) + bytes(8))

    @classmethod
    def over(cls, handle: socket.socket, named: str, *, trains: bool) -> UdpSender:
        """A sender on an unconnected socket; `send` gets the receiver."""
        sender = cls.__new__(cls)
        sender._over(handle, named, trains)
        return sender

    def _over(self, handle: socket.socket, named: str, trains: bool) -> None:
        from ...base.kernels.jit import readonly

        self._named = named
        self.sent = 0
        """Datagrams sent."""
        self.unreachable = 0
        """ICMP port-unreachable errors from the receiver."""
        self._rate = self._due = 0.0
        self._full = False
        self._source = 0
        self._socket = handle
        try:
            handle.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        except OSError:
            trains = False
        self._most = _TRAIN if trains else 1
        self._name = np.zeros(NAME_BYTES, np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        self._sendmmsg = libc.sendmmsg
        self._sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
        self._sendmmsg.restype = ctypes.c_int
        self._controls = np.zeros(_MESSAGES * CONTROL_BYTES, np.uint8)
        self._iovecs: Records = np.zeros(_IOVECS, IOVEC)
        self._messages: Records = np.zeros(_MESSAGES, MMSGHDR)
        each = np.arange(_MESSAGES, dtype=np.uint64)
        self._messages["control"] = self._controls.ctypes.data + each * CONTROL_BYTES
        self._ends = np.zeros(_MESSAGES, np.int64)
        self._plan(readonly(np.zeros(0, FRAME)), 0, 0)  # loads the kernel: reports must not wait for it

    def _plan(self, frames: Records, base: int, done: int) -> int:
        """Make messages for the next frames in the arena at `base`; returns their number."""
        from .udp_kernel import plan

        count = plan(
            base, frames, done, self._most, self._source,
            self._messages, self._iovecs, self._controls, self._ends,
        )  # fmt: skip
        return int(count)

    def _send_to(self, to: bytes) -> None:
        """Address the next messages to a sockaddr."""
        self._name[: len(to)] = np.frombuffer(to, np.uint8)
        self._messages["name"], self._messages["name_length"] = self._name.ctypes.data, len(to)

    def send(self, batch: FrameBatch, to: bytes | None = None, *, wait: bool = True) -> int:
        """Send all frames, at the rate; returns how many. Raises CaptureError.

        `to`: the receiver, a sockaddr, if the socket is not connected. Without `wait` it never sleeps, and
        stops when the socket's buffer is full.
        """
        from ...base.kernels.jit import readonly

        if to is not None:
            self._send_to(to)
        if (batch.frames["link"] != Link.UDP_PAYLOAD).any():
            raise CaptureError(f"{self._named}: only payloads of UDP can be sent (Link.UDP_PAYLOAD)")
        frames, base = readonly(batch.frames), batch.arena.ctypes.data
        done, total = 0, len(frames)
        self._full = False
        while done < total and not self._full:
            until = total if not self._rate else min(total, done + max(1, int(self._rate / 1000)))
            if self._rate:
                self._wait()
            start = done
            try:
                while done < until and not self._full:
                    done = self._put(self._plan(frames[:until], base, done), done, wait)
            finally:
                self.sent += done - start
            if self._rate:
                self._due += (done - start) / self._rate
        return done

    def _wait(self) -> None:
        """Sleep until the next datagram is due; a delay above a tenth of a second is not made up for."""
        now = time.monotonic()
        self._due = max(self._due, now - 0.1) if self._due else now
        if self._due > now:
            time.sleep(self._due - now)

    def _put(self, count: int, done: int, wait: bool) -> int:
        """Hand messages to the kernel; returns the first frame that was not sent."""
        flags = 0 if wait else socket.MSG_DONTWAIT
        sent = self._sendmmsg(self._socket.fileno(), self._messages.ctypes.data, count, flags)
        if sent > 0:
            return int(self._ends[sent - 1])
        error = ctypes.get_errno()
        if error == errno.ECONNREFUSED:
            self.unreachable += 1
        elif error in (errno.EINVAL, errno.EMSGSIZE, errno.EIO) and self._most > 1:
            self._most = 1  # trains do not fit this path
        elif error in _AGAIN and not wait:
            self._full = error != errno.EINTR
        elif error in _AGAIN:
            select.select([], [self._socket], [], 0.01)
        else:
            raise CaptureError(f"{self._named}: sending failed ({os.strerror(error)})")
        return done

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
