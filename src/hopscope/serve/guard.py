"""Authentication and limits: bearer token, Host, Origin, request size, and the headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import html
import json
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..settings.section import is_loopback

COOKIE = "hopscope_session"
BODY_BYTES = 256 * 1024
"""Largest body of a request to the API or the login form."""
_OPEN = {"/healthz"}
_STATUS_OPEN = {"/readyz"}
"""Without a token, load balancers and probes get the status alone, and not the components."""
_READING = {"/api/v0/sql", "/api/v0/limits/preview"}
"""Paths that take a POST and change nothing."""
_SAFE = {"GET", "HEAD", "OPTIONS"}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_API_POLICY = "default-src 'none'; frame-ancestors 'none'"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send `Origin: null` with the login form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def session_of(token: str) -> str:
    """Value of the page's cookie: proves the token without holding it."""
    return hmac.new(token.encode(), b"hopscope live page", hashlib.sha256).hexdigest()


class Guard:
    """ASGI middleware in front of everything, HTTP and WebSocket."""

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        token: str | None,
        change_token: str | None = None,
        public_url: str = "",
    ) -> None:
        self.app = app
        self.public_url = public_url.lower()
        """Origin of the proxy in front, if there is one."""
        self.token = token
        self.change_token = token or change_token
        """What a change needs, also from this machine, which others use too; None: nothing can be changed."""
        self.loopback_only = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject in one line, or pass on with security headers added to the response."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers, path = Headers(scope=scope), str(scope["path"])
        rejection = self._rejection(scope, headers, path)
        if scope["type"] == "websocket":
            if rejection:
                await send({"type": "websocket.close", "code": 1008, "reason": rejection[1][:120]})
            else:
                await self.app(scope, receive, send)
            return
        send = _with_headers(send, path)
        if scope["method"] == "HEAD" and _of_api(path):
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        if rejection and rejection[0] == 401 and path in _STATUS_OPEN and scope["method"] == "GET":
            await self.app(scope, receive, _status_alone(send))
        elif rejection and rejection[0] == 401 and path == "/login" and scope["method"] == "POST":
            await self._login(headers, receive, send)
        elif rejection and rejection[0] == 401 and self.token and "text/html" in headers.get("accept", ""):
            await _answer(send, 401, _login_page(""), "text/html; charset=utf-8")
        elif rejection:
            await _reject(send, *rejection)
        elif path.startswith("/api/"):
            if _too_long(headers):
                await _reject(send, 413, f"the request's body is longer than {BODY_BYTES:,} bytes")
            else:
                await self.app(scope, _limited(receive), send)
        else:
            await self.app(scope, receive, send)

    def _rejection(self, scope: Scope, headers: Headers, path: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = _host_name(host)
        public = _netloc(self.public_url) if self.public_url else None
        if self.loopback_only and host.lower() != public and not is_loopback(name.strip("[]").lower()):
            return (
                421,
                "the Host header is not this machine's: use the address that the server prints at its start",
            )
        origin = headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE
        same = origin is None or _netloc(origin) == host or (public and origin.lower() == self.public_url)
        if changes and not same:
            return 403, "the Origin header is another site's"
        asks = scope["type"] == "websocket" or path in _READING
        if changes and path.startswith("/api/") and not asks and not self._may_change(headers):
            return 401, f"a change needs a token: {self._expected_token()}"
        if self.token is None or path in _OPEN or self._knows(headers):
            return None
        return 401, "a token is needed: send `Authorization: Bearer TOKEN`"

    def _expected_token(self) -> str:
        if self.token is None and self.change_token is None:
            return "set serve.token, since the data folder's token file cannot be used"
        place = "" if self.token else " with what the file `token` in the data folder holds"
        return f"send `Authorization: Bearer TOKEN`{place}"

    def _may_change(self, headers: Headers) -> bool:
        if self.token is not None:
            return self._knows(headers)
        return self.change_token is not None and _bears(headers, self.change_token)

    def _knows(self, headers: Headers) -> bool:
        if self.token is None:
            return True
        if headers.get("authorization", "").lower().startswith("bearer "):
            return _bears(headers, self.token)
        proof = session_of(self.token).encode()
        return any(
            hmac.compare_digest(value.strip('"').encode("utf-8", "replace"), proof)
            for name, _, value in (
                part.strip().partition("=") for part in headers.get("cookie", "").split(";")
            )
            if name == COOKIE
        )

    async def _login(self, headers: Headers, receive: Receive, send: Send) -> None:
        """Take the token from the form, and give a cookie that proves it."""
        body, more = b"", not _too_long(headers)
        while more and len(body) <= BODY_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        assert self.token is not None
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            page = _login_page("This is not the token that the collector was started with.")
            await _answer(send, 401, page, "text/html; charset=utf-8")
            return
        cookie = f"{COOKIE}={session_of(self.token)}; Path=/; HttpOnly; SameSite=Strict"
        if self.public_url.startswith("https:"):
            cookie += "; Secure"
        await _answer(send, 303, "", "text/plain", [(b"location", b"/"), (b"set-cookie", cookie.encode())])


def _bears(headers: Headers, token: str) -> bool:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), token.encode())
    return same and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """Host header without its port."""
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _too_long(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return not length.isdigit() or len(length) > 12 or int(length) > BODY_BYTES


def _limited(receive: Receive) -> Receive:
    """A `receive` that ends an overlong body without a length as if the client had disconnected."""
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        if message["type"] == "http.request":
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES:
                return {"type": "http.disconnect"}
        return message

    return limited


def _of_api(path: str) -> bool:
    """Whether a program asks, and not a browser for the page."""
    return path.startswith(("/api/", "/metrics", "/healthz", "/readyz"))


def _without_body(send: Send) -> Send:
    """Send the headers alone: the answer to HEAD is that to GET without its body."""
    started = False

    async def sender(message: Message) -> None:
        nonlocal started
        if message["type"] == "http.response.start" and not started:
            started = True
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return sender


def _status_alone(send: Send) -> Send:
    """Send whether it is ready, and nothing else that is in the answer."""

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            status = message["status"]
            await _answer(send, status, json.dumps({"ready": status == 200}), "application/json")

    return sender


def _with_headers(send: Send, path: str) -> Send:
    page = not _of_api(path)

    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("content-security-policy", _PAGE_POLICY if page else _API_POLICY)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sender


async def _reject(send: Send, status: int, line: str) -> None:
    extra = [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await _answer(send, status, json.dumps({"error": line}), "application/json", extra)


async def _answer(
    send: Send, status: int, text: str, media: str, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    body = text.encode()
    headers = [
        (b"content-type", media.encode()),
        (b"content-length", str(len(body)).encode()),
        *(extra or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _login_page(message: str) -> str:
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Hopscope</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }}
body {{ display: grid; place-items: center; min-height: 90vh; margin: 0 }}
form {{ display: grid; gap: .75rem; width: 20rem }} h1 {{ font-size: 1.25rem; margin: 0 }}
input, button {{ font: inherit; padding: .5rem .65rem; border-radius: 6px; border: 1px solid #8888 }}
p {{ margin: 0 }}
</style><form method="post" action="/login"><h1>Hopscope</h1>
<p>{html.escape(message) or "This server asks for its token."}</p>
<input type="password" name="token" aria-label="Token" autocomplete="current-password" autofocus required>
<button>Open</button></form></html>"""
