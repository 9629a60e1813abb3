"""Answers to GETs of the API, made inside the server without connection and guard, for viewers whom the guard
has let in.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.types import Message, Scope

MAX_PATH = 2000
"""Maximum length of a path with its query."""
HUB = "live"
"""Client name of the hub, which asks for all viewers, one query at a time for each answer."""
is_watched = ContextVar("is_watched", default=False)
"""Whether the hub asks: its queries wait where a client's would be refused."""
_NOT_WATCHED = ("/api/v0/events/live", "/api/v0/live", "/api/v0/sql", "/metrics")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a GET."""

    status: int
    body: bytes
    """JSON."""


def can_be_watched(app: FastAPI, path: str) -> bool:
    """Whether a path is that of a GET of the API that answers at once with JSON."""
    if len(path) > MAX_PATH or not path.isascii() or not path.isprintable() or "#" in path:
        return False
    plain = unquote(urlsplit(path).path)
    if not plain.startswith("/api/") and plain != "/readyz":
        return False
    return not plain.startswith(_NOT_WATCHED) and any(
        isinstance(route, APIRoute)
        and "GET" in (route.methods or ())
        and route.include_in_schema
        and route.path_regex.match(plain)
        for route in app.routes
    )


async def ask(app: FastAPI, path: str) -> Answer:
    """The answer to a GET of `path`, with its query."""
    is_watched.set(True)
    parts = urlsplit(path)
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(b"host", b"live")],
        "client": (HUB, 0),
        "server": ("live", 0),
        "state": {},
    }
    status, body = 500, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    await app(scope, receive, send)
    return Answer(status, bytes(body))
