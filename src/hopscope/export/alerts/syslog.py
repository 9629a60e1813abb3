"""Syslog (RFC 5424): a message for each alert, over UDP (RFC 5426), TCP (RFC 6587) or TLS (RFC 5425)."""

from __future__ import annotations

import os

from ...settings.destinations.alerts import FACILITIES, SyslogSettings
from ..connection import Connection
from .alarms import Alert
from .destination import AlertDestination
from .outbox import Message
from .texts import plain, values

SEVERITIES = {"info": 6, "warning": 4, "critical": 2}
"""Informational, warning, critical (RFC 5424 §6.2.1)."""
DATAGRAM = 2048
"""Size of datagrams that every receiver should accept (RFC 5426 §3.2)."""
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
    settings: SyslogSettings
    _client: Connection

    def connect(self) -> None:
        """Connect to the server; over UDP this shows nothing about it."""
        self.close()
        settings = self.settings
        self._client = Connection(settings.url, settings, settings.timeout_seconds)

    def deliver(self, message: Message) -> None:
        """Write the alerts of a message; over TCP, wait until the server's machine has confirmed them."""
        most = DATAGRAM if self._client.is_udp else 0
        frames = [self._frame(alert, most) for alert in message.alerts]
        self._client.send(frames)
        self.context.count("bytes_total", sum(map(len, frames)))

    def _frame(self, alert: Alert, most: int) -> bytes:
        """A datagram of at most `most` bytes, or, if `most` is 0, a message after its length (RFC 6587
        §3.4.1).
        """
        settings = self.settings
        line = self.texts.line(alert)
        found = syslog_message(alert, line, self.context.member, settings.facility, settings.enterprise, most)
        return found if most else b"%d %b" % (len(found), found)
