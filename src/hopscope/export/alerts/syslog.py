"""Syslog (RFC 5424): a message for each alert, over UDP (RFC 5426), TCP (RFC 6587) or TLS (RFC 5425)."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import ssl
import struct
import termios
import time
from urllib.parse import urlsplit

from ...settings.destinations.syslog import FACILITIES, SyslogSettings
from ..destination import Context, DeliveryError
from .alarms import Alert
from .destination import AlertDestination
from .outbox import Message
from .texts import plain, values

SEVERITIES = {"info": 6, "warning": 4, "critical": 2}
"""Informational, warning, critical (RFC 5424 §6.2.1)."""
DATAGRAM = 2048
"""Bytes that every receiver of datagrams should take (RFC 5426 §3.2)."""
_PARAMETERS = (
    *("kind", "metric", "severity", "value", "limit", "node", "node_id", "port", "port_id", "queue", "flow"),
    *("path", "source", "reason", "since", "lasted", "id", "collector"),
)


def syslog_message(
    alert: Alert, line: str, member: str, facility: str, enterprise: int, most: int = 0
) -> bytes:
    """An alert as SYSLOG-MSG (RFC 5424 §6), of at most `most` bytes if that is not 0."""
    priority = FACILITIES[facility] * 8 + SEVERITIES[alert["severity"]]
    found = values(alert, member)
    given = {"alarm": alert["alarm"], **{name: found[name] for name in _PARAMETERS}}
    parameters = [f'{name}="{_quoted(plain(text))}"' for name, text in given.items() if text]
    when = f"{alert['time'][:26]}Z" if alert["time"].endswith("Z") else "-"  # microseconds at most
    head = f"<{priority}>1 {when} {_word(member, 255)} hopscope {os.getpid()} {_word(alert['kind'], 32)} "
    text = b" \xef\xbb\xbf" + plain(line, 1024).encode("utf-8", "replace")

    def data() -> bytes:
        return f"{head}[hopscope@{enterprise} {' '.join(parameters)}]".encode("utf-8", "replace")

    while most and len(parameters) > 1 and len(data()) + len(text) > most:
        parameters.remove(max(parameters, key=len))
    whole = data() + text
    return whole if not most else whole[:most].decode("utf-8", "ignore").encode()


def _quoted(text: str) -> str:
    """A PARAM-VALUE (RFC 5424 §6.3.3)."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def _word(text: str, most: int) -> str:
    """PRINTUSASCII; `-`: none."""
    return "".join(letter if "!" <= letter <= "~" else "_" for letter in text[:most]) or "-"


class Syslog(AlertDestination):
    """One server."""

    Settings = SyslogSettings

    def __init__(self, settings: SyslogSettings, context: Context) -> None:
        super().__init__(settings, context)
        parts = urlsplit(settings.url)
        self._scheme, self._address = parts.scheme, (parts.hostname or "", parts.port or 514)
        self._socket: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the server; over UDP this shows nothing about it."""
        self.close()
        timeout = self.settings.timeout_seconds
        try:
            if self._scheme == "udp":
                family, kind, *_, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
                self._socket = socket.socket(family, kind)
                self._socket.connect(address)
                return
            plain_socket = socket.create_connection(self._address, timeout)
            self._socket = plain_socket
            if self._scheme == "tls":
                self._socket = self._context().wrap_socket(plain_socket, server_hostname=self._address[0])
        except (OSError, ValueError) as error:
            self.close()
            raise DeliveryError(_text(error)) from None

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.settings.ca_file)
        if self.settings.certificate is not None:
            context.load_cert_chain(self.settings.certificate, self.settings.key)
        return context

    def deliver(self, message: Message) -> None:
        """Write the alerts of a message; over TCP, until the server's machine has confirmed them."""
        assert self._socket is not None
        frames = [self._frame(alert) for alert in message.alerts]
        try:
            if self._scheme == "udp":
                for frame in frames:
                    self._socket.send(frame)
            else:
                self._write(self._socket, b"".join(frames))
        except OSError as error:
            self.close()
            raise DeliveryError(_text(error)) from None
        self.context.count("bytes_total", sum(map(len, frames)))

    def _frame(self, alert: Alert) -> bytes:
        """A datagram, or a message after its length (RFC 6587 §3.4.1)."""
        one: SyslogSettings = self.settings
        most = DATAGRAM if self._scheme == "udp" else 0
        line = self.texts.line(alert)
        found = syslog_message(alert, line, self.context.member, one.facility, one.enterprise, most)
        return found if most else b"%d %b" % (len(found), found)

    def _write(self, stream: socket.socket, frames: bytes) -> None:
        """Syslog has no answers: what TCP has not confirmed is written again, over another connection."""
        if _is_closed(stream):
            raise ConnectionError("the server has closed the connection")
        stream.sendall(frames)
        until = time.monotonic() + self.settings.timeout_seconds
        while _unconfirmed(stream):
            if time.monotonic() > until:
                raise TimeoutError("no confirmation in time")
            time.sleep(0.005)
        if _is_closed(stream):
            raise ConnectionError("the server has closed the connection")

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _is_closed(stream: socket.socket) -> bool:
    """Whether the other end has closed it. Raises OSError if it was reset."""
    if not select.select([stream], [], [], 0)[0]:
        return False
    if isinstance(stream, ssl.SSLSocket):
        stream.setblocking(False)
        try:
            return not stream.recv(4096)
        except ssl.SSLWantReadError:  # a ticket of the session
            return False
        finally:
            stream.settimeout(None)
    return not stream.recv(4096)


def _unconfirmed(stream: socket.socket) -> int:
    """Bytes written and not confirmed (SIOCOUTQ, tcp(7)). Raises OSError if the connection is lost."""
    if error := stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(error, os.strerror(error))
    found: int = struct.unpack("i", fcntl.ioctl(stream.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    return found


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
