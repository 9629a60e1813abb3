"""Settings of the destinations: databases and buses by name, webhooks, Redis."""

from __future__ import annotations

import os
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from .section import Seconds, Section, plain_type


class AlertSettings(Section):
    """One webhook."""

    url: str = Field(pattern=r"^https?://")
    """Where events are posted, as JSON."""
    kinds: tuple[str, ...] = Field(
        default=("raised", "cleared", "path_change", "loop", "silent", "returned"), min_length=1
    )
    """Kinds of events that are posted."""
    per_minute: int = Field(default=30, ge=1)
    """Most posts per minute for each kind; events above the limit are counted, and the next post has their
    number."""
    retries: int = Field(default=5, ge=0)
    """Retries after a failure, with doubling pauses."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0)
    """Timeout of one post."""


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password and query."""
    try:
        parts = urlsplit(url)
        place = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "(no URL)"
    if "@" in parts.path + parts.query + parts.fragment:
        return f"{parts.scheme}://***"  # a password with a slash, perhaps
    return f"{parts.scheme}://{'***@' if '@' in parts.netloc else ''}{place}{parts.path}"


def shown_webhook(url: str) -> str:
    """A webhook's URL as it may be shown: services like Slack have their key in its path."""
    place = shown(url)
    scheme, _, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}{slash}{'***' if path else ''}"


def redis_url(url: str) -> str:
    """The URL of a Redis server; ValueError says what is wrong with it."""
    expected = "expected redis://HOST:PORT/DB, rediss://… (TLS) or unix:///PATH"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"found an invalid URL, {expected}") from None
    local = parts.scheme == "unix"
    if (
        parts.scheme not in ("redis", "rediss", "unix")
        or port == 0
        or not (parts.path if local else parts.hostname)
    ):
        raise ValueError(f"found {shown(url)!r}, {expected}")
    if parts.query or parts.fragment:
        raise ValueError(f"found {shown(url)!r} with a query, expected none: settings have their own keys")
    if not local and parts.path.strip("/") and not parts.path.strip("/").isdecimal():
        raise ValueError(f"found {shown(url)!r}, expected a database number after the port, as /0")
    return url


class RedisSettings(Section):
    """One Redis server."""

    url: Annotated[str, AfterValidator(redis_url)] = "redis://127.0.0.1:6379/0"
    """`redis://HOST:PORT/DB`, `rediss://…` (TLS) or `unix:///PATH`; `USER:PASSWORD@` may precede the host."""
    password: str | None = Field(default=None, min_length=1)
    """Password, instead of one in the URL."""
    password_env: str = Field(default="", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    """Name of an environment variable that holds the password; empty: none."""
    ca_file: Path | None = None
    """CA certificates (PEM) to verify a TLS server with; default: those of the system."""
    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """Prefix of every key, followed by a colon."""
    contents: tuple[Literal["flows", "events", "distributions"], ...] = Field(
        default=("flows", "events", "distributions"), min_length=1
    )
    """What to export."""
    flush_seconds: Seconds = Field(default=10.0, ge=0.1)
    """How often changed flows and all distributions are written."""
    stream_max: int = Field(default=100_000, ge=1)
    """Approximate length of an event stream; Redis removes entries in whole blocks."""
    ttl_seconds: int = Field(default=3600, ge=1, le=10**9)
    """How long a flow stays in Redis after it has left the flow table."""
    timeout_seconds: Seconds = Field(default=5.0, gt=0)
    """Timeout of a connection attempt, and of one reply."""
    queue_bytes: int = Field(default=64 * 1024**2, ge=1024**2)
    """Memory limit of the events that wait for a slow or unreachable server."""


def secret(text: str) -> str:
    """A password or token: `env:NAME` is that variable, `file:PATH` the first line of that file, else itself.

    Raises ValueError if there is no such variable, OSError if the file cannot be read.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "env":
        if rest not in os.environ:
            raise ValueError(f"there is no environment variable {rest}")
        return os.environ[rest]
    if colon and scheme == "file":
        return Path(rest).read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    return text


def _prefix(text: str) -> str:
    """A network prefix, or an address."""
    try:
        return str(ip_network(text, strict=False))
    except ValueError:
        raise ValueError(f"found {text!r}, expected a prefix, as 10.1.0.0/16 or 2001:db8::/32") from None


class ExportSettings(Section):
    """One destination of events; every kind has more settings."""

    kind: str
    """What it is: `influxdb`, or the kind of an installed package."""
    kinds: tuple[str, ...] = ()
    """Kinds of events that it gets; empty: all."""
    metrics: tuple[str, ...] = ()
    """Metrics of events that it gets; empty: all."""
    nodes: tuple[Annotated[int, Field(ge=0, le=2**32 - 1)], ...] = ()
    """Node ids: only events at these, or with one of them in their path; empty: all."""
    prefixes: tuple[Annotated[str, AfterValidator(_prefix)], ...] = ()
    """Prefixes: only events of flows from or to one of them; empty: all."""
    sample: int = Field(default=1, ge=1)
    """Events of one in this many flows, always the same ones; events without a flow are not sampled."""
    begin: Literal["now", "oldest"] = "now"
    """Where a new destination begins: with events from now on, or with the oldest in history."""
    batch_events: int = Field(default=5000, ge=1, le=65_536)
    """Most events per batch; events with the same time stay together."""
    batch_seconds: Seconds = Field(default=1.0, le=3600)
    """Longest time that an event waits for a batch to fill."""
    timeout_seconds: Seconds = Field(default=10.0, gt=0)
    """Timeout of one request."""

    @property
    def place(self) -> str:
        """Where it is, as it may be shown: without passwords."""
        return shown(getattr(self, "url", "")) or self.kind


class InfluxSettings(ExportSettings):
    """InfluxDB 1, 2 or 3, or VictoriaMetrics, by line protocol."""

    url: str = Field(default="http://127.0.0.1:8086", pattern=r"^https?://[^\s?#]+$")
    """Address of the server."""
    api: int = Field(default=2, ge=1, le=3)
    """Version of its API; VictoriaMetrics takes 1 and 2."""
    database: str = Field(default="hopscope", min_length=1)
    """Database (1, 3) or bucket (2)."""
    organization: str = ""
    """Organization (2)."""
    user: str = ""
    """User (1)."""
    password: str = ""
    """Password (1); `env:NAME` or `file:PATH` names where it is."""
    token: str = ""
    """Token (2, 3); `env:NAME` or `file:PATH` names where it is."""
    create: bool = True
    """Create the database or bucket if it is missing; nothing is ever dropped."""
    naming: Literal["hopscope", "intcollector"] = "hopscope"
    """Measurements: `int_event`, or those that INTCollector writes, for who moves over from it."""
    gzip: bool = True
    """Compress requests."""


EXPORT_KINDS: dict[str, type[ExportSettings]] = {"influxdb": InfluxSettings}
"""Settings of the kinds that Hopscope has."""
ENTRY_POINTS = "hopscope.destinations"
"""Group of the entry points by which packages add kinds."""
SECRETS = ("password", "token")
"""Settings whose values are never shown."""


def export_settings(kind: str) -> type[ExportSettings]:
    """The settings of a kind. Raises ValueError for an unknown one."""
    if kind in EXPORT_KINDS:
        return EXPORT_KINDS[kind]
    from importlib.metadata import entry_points

    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if kind not in found:
        raise ValueError(f"found kind {kind!r}, expected one of {', '.join([*EXPORT_KINDS, *found])}")
    settings: type[ExportSettings] = found[kind].load().Settings
    return settings


def _of_kind(values: Any) -> Any:
    """The settings of the kind that they name."""
    if not isinstance(values, dict) or "kind" not in values:
        return values
    model = export_settings(str(values["kind"]))
    return model.model_validate({key: _words(model, key, value) for key, value in values.items()})


def _words(model: type[ExportSettings], key: str, value: Any) -> Any:
    """A list of words in a variable or a flag, as `raised,cleared`."""
    listed = key in model.model_fields and get_origin(plain_type(model.model_fields[key].annotation)) is tuple
    return value.replace(",", " ").split() if listed and isinstance(value, str) else value


NamedExports = dict[
    Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")],
    Annotated[SerializeAsAny[ExportSettings], BeforeValidator(_of_kind)],
]
"""Destinations by name."""
