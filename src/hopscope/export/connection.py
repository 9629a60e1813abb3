"""Connections to servers that do not answer, over UDP, TCP or TLS, for syslog and IPFIX."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import ssl
import struct
import termios
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..base.errors import described
from ..settings.destinations.tls import TlsSettings
from .credentials import tls_context
from .destination import DeliveryError


class Connection:
    """A connection to `url`, such as `udp://192.0.2.7:514`, `tcp://…` or `tls://…`. Raises DeliveryError.

    Over UDP, connecting shows nothing about the server.
    """

    def __init__(self, url: str, tls: TlsSettings, timeout_seconds: float) -> None:
        parts = urlsplit(url)
        self._timeout = timeout_seconds
        self.is_udp = parts.scheme == "udp"
        """Whether each message is a datagram."""
        host, port = parts.hostname or "", parts.port or 0
        context = tls_context(tls) if parts.scheme == "tls" else None
        try:
            if self.is_udp:
                family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
                self._socket = socket.socket(family, kind)
                self._socket.connect(address)
                return
            self._socket = socket.create_connection((host, port), timeout_seconds)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except (OSError, ValueError) as error:
            if hasattr(self, "_socket"):
                self._socket.close()
            raise DeliveryError(described(error)) from None

    def send(self, messages: Sequence[bytes]) -> None:
        """Send messages; over TCP, return when the server's machine has them. Raises DeliveryError."""
        try:
            if self.is_udp:
                for message in messages:
                    self._socket.send(message)
            else:
                self._write(b"".join(messages))
        except OSError as error:
            self.close()
            raise DeliveryError(described(error)) from None

    def _write(self, frames: bytes) -> None:
        """Write frames. The server does not answer: what TCP has not confirmed is resent over a new
        connection.
        """
        if self._is_closed():
            raise ConnectionError("the server has closed the connection")
        self._socket.sendall(frames)
        until = time.monotonic() + self._timeout
        while self._unconfirmed():
            if time.monotonic() > until:
                raise TimeoutError("no confirmation in time")
            time.sleep(0.005)
        if self._is_closed():
            raise ConnectionError("the server has closed the connection")

    def _is_closed(self) -> bool:
        """Whether the peer has closed the connection. Raises OSError if it was reset."""
        if not select.select([self._socket], [], [], 0)[0]:
            return False
        if isinstance(self._socket, ssl.SSLSocket):
            self._socket.setblocking(False)
            try:
                return not self._socket.recv(4096)
            except ssl.SSLWantReadError:  # a ticket of the session
                return False
            finally:
                self._socket.settimeout(None)
        return not self._socket.recv(4096)

    def _unconfirmed(self) -> int:
        """Bytes written but not confirmed (SIOCOUTQ, tcp(7)). Raises OSError if the connection is lost."""
        if error := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, os.strerror(error))
        return struct.unpack("i", fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0]

    def close(self) -> None:
        """Close it."""
        self._socket.close()
