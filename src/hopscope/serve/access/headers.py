"""Security headers of every answer."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)  # connect-src 'self' covers WebSockets to the same host and port
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with the login form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
HSTS = "max-age=31536000"


def of_api(path: str) -> bool:
    """Whether a path is for programs, not a page for browsers."""
    return path.startswith(("/api/", "/metrics", "/healthz", "/readyz"))


def with_headers(send: Send, path: str, *, secure: bool) -> Send:
    """Send with the headers of this path; `secure`: over TLS, to a host name for which HSTS is safe."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("content-security-policy", _API_POLICY if of_api(path) else _PAGE_POLICY)
            if secure:
                headers.setdefault("strict-transport-security", HSTS)
            if of_api(path):
                headers.setdefault("cache-control", "no-store")
        await send(message)

    return sender
