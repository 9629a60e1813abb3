"""Settings of receivers of alerts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Template
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from ..section import Seconds
from .common import SERVER_URL, ExportSettings
from .shown import shown_webhook
from .tls import TlsSettings

SEVERITIES = ("info", "warning", "critical")
"""In rising order."""
VARIABLES = (
    *("severity", "kind", "metric", "summary", "value", "limit", "reason", "lasted", "time", "since", "id"),
    *("node", "node_id", "port", "port_id", "queue", "place", "flow", "src", "dst", "path", "source"),
    *("collector", "count", "more"),
)
"""What templates may name."""
_RULE = re.compile(r"(?:(\w+):)?(\w+)(?:(>=|<=)(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """`[KIND:]METRIC[>=VALUE]`, or a kind; for example `queue_occupancy>=5000`."""

    kind: str
    """Empty: `name` is a kind or a metric."""
    name: str
    sign: str
    """`>=`, `<=`, or empty: any value."""
    value: int


def parse_rule(text: str) -> Rule:
    """Read a rule of a severity. Raises ValueError."""
    match = _RULE.fullmatch("".join(text.split()))
    if match is None:
        raise ValueError(
            f"found {text!r}, expected a kind, a metric, or a condition such as queue_occupancy>=5000"
        )
    kind, name, sign, value = match.groups(default="")
    return Rule(kind, name, sign, int(value or 0))


def _rule(text: str) -> str:
    parse_rule(text)
    return "".join(text.split())


def _template(text: str) -> str:
    template = Template(text)
    if not template.is_valid():
        raise ValueError(f"found {text!r}, expected $name or ${{name}}, and $$ for a dollar sign")
    for name in template.get_identifiers():
        if name not in VARIABLES:
            raise ValueError(f"found ${name}, expected one of {', '.join(VARIABLES)}")
    return text


Rules = tuple[Annotated[str, AfterValidator(_rule)], ...]
TextTemplate = Annotated[str, AfterValidator(_template)]


@dataclass(frozen=True, slots=True)
class Grouping:
    """How alerts become messages."""

    by: tuple[str, ...] | None
    """What all alerts of a message have in common, beside their kind; None: messages have any, in order."""
    seconds: float
    listed: int
    per_minute: int | None


class AlertSettings(ExportSettings):
    """A destination that notifies people, or systems for alerts."""

    endings: ClassVar[tuple[str, ...]] = ("cleared", "returned")
    followed: ClassVar[tuple[str, ...]] = ("raised", "cleared", "silent", "returned")

    kinds: tuple[str, ...] = ("raised", "cleared", "path_change", "loop", "silent", "returned")
    """Kinds of events that are sent; empty: all."""
    batch_seconds: Seconds = Field(default=0.0, le=3600)
    """Longest time that an event waits for a batch to fill; 0: it does not wait."""
    for_seconds: Seconds = 0.0
    """How long an alarm must last before it is sent; an alarm that ends earlier is not sent at all. 0: alarms
    are sent at once.
    """
    expire_seconds: Seconds = 86_400.0
    """An alarm that was not cleared ends after this time; 0: never."""
    silent_seconds: Seconds = 600.0
    """Alarms at a switch that has fallen silent end after this time, unless it returns; 0: they stay."""
    critical: Rules = ()
    """Alerts that are critical: kinds, metrics, or metrics with a limit, such as `loop` or
    `raised:queue_occupancy>=5000`.
    """
    warning: Rules = ()
    """Alerts that are warnings, unless they are critical."""
    info: Rules = ()
    """Alerts that are information. Without a rule, changed paths and routine events are information, and all
    other alerts are warnings.
    """
    least_severity: Literal["info", "warning", "critical"] = "info"
    """Lowest severity that is sent."""
    line: TextTemplate = "$time $severity $kind: $summary"
    """Text of one alert."""
    page: TextTemplate = Field(default="", pattern=r"^(https?://.*)?$")
    """Address of a page about an alert, such as `https://hopscope.example/?node=$node_id`; empty: none."""

    @property
    def read_kinds(self) -> tuple[str, ...]:
        """Alarms are followed from their beginning to their end, whichever of both is sent."""
        return (*self.kinds, *self.followed) if self.kinds else ()

    @property
    def grouping(self) -> Grouping:
        """Every alert is listed, at once and in order."""
        return Grouping(None, 0.0, 500, None)


class MessageSettings(AlertSettings):
    """A destination that gets messages about one or several alerts."""

    group_by: tuple[Literal["node", "port", "flow", "metric"], ...] = ()
    """Alerts of one kind that have the same values of these are one message; empty: all alerts of one kind
    are.
    """
    group_seconds: Seconds = Field(default=5.0, le=86_400)
    """How long a message waits for more alerts; 0: it does not wait."""
    listed: int = Field(default=10, ge=1, le=500)
    """Most alerts that a message lists; it also gives the number of further alerts."""
    per_minute: int = Field(default=30, ge=1)
    """Most messages per minute of each kind; above the limit, a message waits and collects further alerts."""
    title: TextTemplate = "[$severity] $kind: $summary$more"
    """Title of a message; its variables are those of the first alert."""

    @property
    def grouping(self) -> Grouping:
        """As set."""
        return Grouping(self.group_by, self.group_seconds, self.listed, self.per_minute)


URL = r"^(https?://[^\s]+|env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"


class WebhookSettings(TlsSettings, MessageSettings):
    """Alerts as JSON, by POST."""

    url: str = Field(pattern=URL)
    """Where messages are posted; `env:NAME` or `file:PATH` says where to find the address."""
    token: str = ""
    """Bearer token; `env:NAME` or `file:PATH` says where to find it."""
    group_seconds: Seconds = Field(default=0.0, le=86_400)
    """How long a message waits for more alerts; 0: it does not wait."""
    listed: int = Field(default=50, ge=1, le=500)
    """Most alerts that a message lists; it also gives the number of further alerts."""

    @property
    def place(self) -> str:
        """Without the path, which is the key of some services."""
        return shown_webhook(self.url)


class SlackSettings(TlsSettings, MessageSettings):
    """Messages in a channel, by an incoming webhook of Slack, Mattermost, or a compatible service."""

    url: str = Field(pattern=URL)
    """The incoming webhook. Since the address is a secret, `env:NAME` or `file:PATH` can say where to find
    it.
    """

    @property
    def place(self) -> str:
        """Without the path, which is the key."""
        return shown_webhook(self.url)


Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$", max_length=254)]


class EmailSettings(TlsSettings, MessageSettings):
    """E-mail, by a mail server."""

    url: str = Field(
        default="smtp://127.0.0.1:25", pattern=r"^smtps?://(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
    )
    """Address of the mail server, such as `smtp://mail.example:587`; `smtps://…:465` uses TLS from the
    start.
    """
    starttls: bool = True
    """Change to TLS (STARTTLS) before anything is sent; without it, a password is sent in the clear."""
    user: str = ""
    """User; empty: no login."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    sender: Address = "hopscope@localhost"
    """Address of the sender."""
    to: tuple[Address, ...] = Field(min_length=1, max_length=100)
    """Addresses of the recipients."""
    group_seconds: Seconds = Field(default=30.0, le=86_400)
    """How long a message waits for more alerts; 0: it does not wait."""
    listed: int = Field(default=50, ge=1, le=500)
    """Most alerts that a message lists; it also gives the number of further alerts."""
    per_minute: int = Field(default=4, ge=1)
    """Most messages per minute of each kind; above the limit, a message waits and collects further alerts."""


class AlertmanagerSettings(TlsSettings, AlertSettings):
    """Prometheus Alertmanager, or a compatible server, by API v2."""

    url: str = Field(default="http://127.0.0.1:9093", pattern=r"^https?://[^\s?#]+$")
    """Address of the server, without `/api/v2`."""
    user: str = ""
    """User."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    token: str = ""
    """Bearer token, instead of user and password; `env:NAME` or `file:PATH` says where to find it."""
    resend_seconds: Seconds = Field(default=60.0, ge=1, le=3600)
    """How often alerts are sent again while they last. Alertmanager resolves alerts that it has not received
    for four times as long.
    """
    event_seconds: Seconds = Field(default=300.0, ge=1)
    """How long an alert without an end of its own lasts, such as a changed path."""
    line: TextTemplate = "$summary"
    """Text of one alert: its annotation `summary`."""


FACILITIES = {"user": 1, "daemon": 3, **{f"local{number}": 16 + number for number in range(8)}}


class SyslogSettings(TlsSettings, AlertSettings):
    """Syslog (RFC 5424): a message for each alert, over UDP, TCP (RFC 6587) or TLS (RFC 5425)."""

    url: str = Field(default="udp://127.0.0.1:514", pattern=SERVER_URL)
    """Address of the server, such as `udp://192.0.2.7:514`, `tcp://…:601` or `tls://…:6514`."""
    facility: Literal[
        "user", "daemon", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"
    ] = "local0"
    """Facility of the messages."""
    enterprise: int = Field(default=32473, ge=1, le=2**32 - 1)
    """Private enterprise number in the name of the structured data, `hopscope@32473`."""
    line: TextTemplate = "$kind: $summary"
    """Text of one alert."""
