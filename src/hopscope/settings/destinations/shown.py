"""URLs and passwords of destinations: where a password comes from, and what may be shown."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

_DATABASES = ("postgres", "postgresql")
"""Schemes of URLs whose user is a name; of others, as of NATS, it may be a token."""


def shown(url: str) -> str:
    """A URL as it may be shown: without password and query, and without user unless it is a database."""
    try:
        parts = urlsplit(url)
        user, at, place = parts.netloc.rpartition("@")
    except ValueError:
        return "(no URL)"
    if "@" in parts.path + parts.query + parts.fragment:
        return f"{parts.scheme}://***"  # a password with a slash, perhaps
    name, colon, _ = user.partition(":")
    hidden = f"{name}{colon}{'***' if colon else ''}" if parts.scheme in _DATABASES else "***"
    return f"{parts.scheme}://{hidden if at else ''}{at}{place}{parts.path}"


WEBHOOKS = ("webhook", "slack")
"""Kinds of destinations whose URL is a key."""


def shown_webhook(url: str) -> str:
    """A webhook's URL as it may be shown: services like Slack have their key in its path."""
    if url.startswith(("env:", "file:")):
        return url
    place = shown(url)
    scheme, _, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}{slash}{'***' if path else ''}"


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
