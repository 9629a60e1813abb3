"""Answers that the guard itself sends, and security headers of every answer."""

from __future__ import annotations

import json

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

Fields = list[tuple[bytes, bytes]]
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


async def reject(send: Send, status: int, line: str, extra: Fields | None = None) -> None:
    """Send an error as one line of JSON."""
    more = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await answer(send, status, json.dumps({"error": line}), "application/json", [*more, *(extra or [])])


async def answer(send: Send, status: int, text: str, media: str, extra: Fields | None = None) -> None:
    """Send a complete answer."""
    body = text.encode()
    length = (b"content-length", str(len(body)).encode())
    headers = [(b"content-type", media.encode()), length, *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def without_body(send: Send) -> Send:
    """Send only the headers: the answer to HEAD is the answer to GET without its body."""
    started = False

    async def sender(message: Message) -> None:
        nonlocal started
        if message["type"] == "http.response.start" and not started:
            started = True
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sender


def status_alone(send: Send) -> Send:
    """Send only whether the collector is ready, and no other part of the answer."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            await answer(send, status, json.dumps({"ready": status == 200}), "application/json")

    return sender


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
