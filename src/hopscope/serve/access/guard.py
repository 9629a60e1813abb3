"""Checks every HTTP and WebSocket request first: its host, its origin, its client and their rights."""

from __future__ import annotations

import hmac
from functools import partial
from typing import Protocol
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import answers, bodies
from .answers import of_api, with_headers
from .host_and_origin import Sites
from .identity import Identity, remember, still_authorized

CSRF_HEADER = "x-hopscope-csrf"
SAFE = {"GET", "HEAD", "OPTIONS"}
READING = {("POST", "/api/v0/sql"), ("POST", "/api/v0/limits/preview")}
"""Requests that change nothing, whatever their method says."""
LOGGING_IN = {("POST", "/api/v0/login"), ("POST", "/login")}
"""Requests by which clients log in, and so without an identity."""
OWN = ("/api/v0/logout", "/api/v0/sessions")
"""Paths, including those below them, on which every logged-in user may change their own data."""
_OPEN = ("/login", "/healthz", "/api/v0/session", "/console", "/favicon.ico")
"""Paths that anyone may read; the console's files contain no data."""
_STATUS_OPEN = {"/readyz"}
"""Paths for load balancers and probes, which get the status without the components unless they log in."""


class Authenticator(Protocol):
    """Identifies clients. `sites`: the names of the server."""

    sites: Sites
    has_login_page: bool

    @property
    def login_hint(self) -> str:
        """How a program authenticates, as a hint in answers with status 401."""

    async def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        """The identity of the client; None: a login is needed."""

    def is_secure(self, scope: Scope) -> bool:
        """Whether the client came by TLS."""

    def is_named(self, headers: Headers) -> bool:
        """Whether the client used a host name for which HSTS is safe."""

    def count(self, key: str) -> None:
        """Count a refused request."""


class Guard:
    """ASGI middleware: rejects a request with one line, or passes it on with the identity in its scope."""

    def __init__(self, app: ASGIApp, access: Authenticator) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject, or pass on; answers get security headers."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if scope["type"] == "websocket":
            await self._websocket(scope, headers, receive, send)
            return
        path, secure = str(scope["path"]), self.access.is_secure(scope) and self.access.is_named(headers)
        send = with_headers(send, path, secure=secure)
        if scope["method"] == "HEAD" and of_api(path):
            scope, send = {**scope, "method": "GET"}, answers.without_body(send)
        if bodies.has_two_lengths(headers):
            line = "found Content-Length and Transfer-Encoding, expected one of them"
            await answers.reject(send, 400, line, [(b"connection", b"close")])
            return
        rejection = self._foreign(scope, headers)
        identity = None
        if rejection is None:
            identity = await self.access.identify(scope, headers)
            rejection = self._rejection(scope, headers, identity)
        if rejection is None:
            await self._pass(scope, headers, identity, receive, send)
        elif rejection[0] == 401 and scope["method"] == "GET" and path in _STATUS_OPEN:
            await self.app(scope, receive, answers.status_alone(send))
        elif rejection[0] == 401 and scope["method"] == "GET" and self._wants_page(headers, path):
            raw = scope.get("query_string", b"").decode("ascii", "replace")
            target = quote(path + (f"?{raw}" if raw else ""), safe="")
            await answers.answer(
                send, 303, "", "text/plain", [(b"location", f"/login?next={target}".encode())]
            )
        else:
            await answers.reject(send, *rejection)

    async def _pass(
        self, scope: Scope, headers: Headers, identity: Identity | None, receive: Receive, send: Send
    ) -> None:
        if identity is not None:
            remember(scope, identity, partial(self.access.identify, scope, headers))
        if scope["method"] in SAFE:
            await self.app(scope, receive, send)
        elif bodies.too_long(headers):
            await bodies.reject(send)
        else:
            await self.app(scope, *bodies.limited(receive, send))

    def _foreign(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Why a request is not meant for this server, or not from its own pages."""
        if self.access.sites.foreign_host(headers):
            self.access.count("access_refused_total.host")
            return (
                421,
                "the Host header is not this machine's: use the address that the server prints at its start",
            )
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if changes and self.access.sites.foreign_origin(headers):
            self.access.count("access_refused_total.origin")
            return 403, "the Origin header is another site's"
        return None

    def _rejection(self, scope: Scope, headers: Headers, identity: Identity | None) -> tuple[int, str] | None:
        """Why the client may not make this request."""
        method, path = scope["method"], str(scope["path"])
        if (method, path) in LOGGING_IN or (method in SAFE and below(path, _OPEN)):
            return None
        reads = method in SAFE or (method, path) in READING
        own = below(path, OWN) and identity is not None and identity.how != ""
        if identity is None or not (reads or own or identity.may_change or identity.how):
            self.access.count("access_refused_total.login")
            what = "a login is needed" if reads else "a change needs an operator"
            return 401, f"{what}: {self.access.login_hint}"
        if not (reads or own or identity.may_change):
            self.access.count("access_refused_total.role")
            return 403, f"a change needs the role operator, and {identity.name} is a {identity.role}"
        if not reads and identity.csrf_token is not None:
            given = headers.get(CSRF_HEADER, "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, identity.csrf_token.encode()):
                self.access.count("access_refused_total.csrf")
                return 403, "expected the header X-Hopscope-CSRF with the csrf of /api/v0/session"
        return None

    def _wants_page(self, headers: Headers, path: str) -> bool:
        return self.access.has_login_page and not of_api(path) and "text/html" in headers.get("accept", "")

    async def _websocket(self, scope: Scope, headers: Headers, receive: Receive, send: Send) -> None:
        rejection = self._foreign(scope, headers)
        identity = None if rejection else await self.access.identify(scope, headers)
        if rejection is None and identity is None:
            self.access.count("access_refused_total.login")
            rejection = 401, "a login is needed"
        if rejection is not None or identity is None:
            assert rejection is not None
            await send({"type": "websocket.close", "code": 1008, "reason": rejection[1][:120]})
            return
        remember(scope, identity, partial(self.access.identify, scope, headers))
        await self.app(scope, receive, _while_it_lasts(scope, send))


def below(path: str, paths: tuple[str, ...]) -> bool:
    """Whether a path is one of `paths`, or below one."""
    return any(path == each or path.startswith(f"{each}/") for each in paths)


def _while_it_lasts(scope: Scope, send: Send) -> Send:
    """Send to a WebSocket while its session lasts, then close it."""
    closed = False

    async def sender(message: Message) -> None:
        nonlocal closed
        if closed:
            return
        if not await still_authorized(scope):
            message = {"type": "websocket.close", "code": 1008, "reason": "the session has ended"}
        closed = message["type"] == "websocket.close"
        await send(message)

    return sender
