"""Checks the Host header, which names the server, and the Origin header, which names the sending page."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from ...settings.section import is_loopback

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^][:@/]+)(?::[0-9]*)?", re.IGNORECASE)
PORTS = {"http": "80", "https": "443"}


class Sites:
    """The names of this server. `host`: the address it listens on; `public_url`: that of a proxy in front."""

    def __init__(self, host: str, public_url: str = "") -> None:
        self.public_url = public_url.lower().rstrip("/")
        self._public = netloc(self.public_url) if public_url else None
        self._loopback_only = is_loopback(host)

    def foreign_host(self, headers: Headers) -> bool:
        """Whether a request on loopback has a foreign host name: that of a page whose name now resolves to
        this machine (DNS rebinding).
        """
        host = headers.get("host", "").lower()
        return self._loopback_only and host != self._public and not is_loopback(host_name(host).strip("[]"))

    def foreign_origin(self, headers: Headers) -> bool:
        """Whether the page of another site sent a request; programs send no Origin."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return True
        origin = headers.get("origin")
        if origin is None:
            return False
        sender = netloc(origin)  # of `Origin: null`, as of a sandboxed frame, empty
        return not sender or (sender != headers.get("host", "").lower() and origin.lower() != self.public_url)

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the proxy in front over TLS."""
        return self.public_url.startswith("https:")


def host_name(host: str) -> str:
    """Host header without its port; empty: it is not valid."""
    found = _HOST.fullmatch(host)
    return found[1] if found else ""


def port_of(headers: Headers, scheme: str) -> str:
    """Port in the Host header, or the default port of the scheme."""
    port = headers.get("host", "").rpartition(":")[2]
    return port if port.isdigit() and len(port) < 6 else PORTS.get(scheme, "80")


def netloc(origin: str) -> str | None:
    """Host and port of an origin, in lower case; None: it is not an origin."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None
