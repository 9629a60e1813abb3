"""Identifies clients by bearer token, browser session or trusted proxy; turns logins into sessions."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from starlette.datastructures import Headers

from ...base.log import logger
from ...memory.counter_region import CounterRegion
from ...memory.region import RegionError
from ...operators.audit import Audit
from ...operators.codes import Codes
from ...operators.counters import ACCESS_COUNTERS
from ...operators.database import Database, OperatorsError
from ...operators.known_addresses import KnownAddresses
from ...operators.sessions import Session, Sessions
from ...operators.users import Users
from ...settings.section import is_loopback
from ...settings.serve import ServeSettings
from . import cookies
from .host_and_origin import Sites, host_name, port_of
from .identity import Identity
from .lock_out import LockOut, network_of
from .login import Login, LoginError
from .oidc import Provider
from .proxy import Proxy
from .tls import Certificate
from .tokens import Tokens, bearer_token

log = logger("serve")
T = TypeVar("T")
KEPT_SECONDS = 2.0
"""How long a session stays cached: if another process ends it, that takes effect after this time."""
_MAX_KEPT = 1024
PASSWORDS_WAIT = 16
"""How many password logins may wait while one is checked; any further one is refused."""


class Access:
    """The access control of one server, over a data folder."""

    has_login_page = True

    def __init__(self, settings: ServeSettings, folder: Path, database: Database) -> None:
        self.settings = settings
        self.database = database
        self.audit = Audit(database)
        self.users = Users(database)
        self.sessions = Sessions(database, settings.session_idle_seconds, settings.session_seconds)
        self.codes = Codes(database)
        self.tokens = Tokens.of(settings, folder)
        self.sites = Sites(settings.host, settings.public_url)
        self.lock_out = LockOut()
        self.certificate: Certificate | None = None
        """The server's certificate, if it uses TLS."""
        self.oidc = Provider.of(settings)
        self.login_needed = login_needed(settings)
        """Whether reading needs a login, too."""
        self.logins = ("password", "token", *(("oidc",) if self.oidc else ()))
        """The methods that the login page offers."""
        self._proxy = Proxy(settings)
        self._known = KnownAddresses(database)
        self._csrf_key = secrets.token_bytes(32)
        self._kept: dict[str, tuple[float, Session | None]] = {}
        self._counts = _counters(folder)
        self._files = ThreadPoolExecutor(2, "access")
        self._hashing = ThreadPoolExecutor(1, "password")
        self._waiting = 0

    @property
    def login_hint(self) -> str:
        """How a program authenticates, as a hint in answers with status 401."""
        if self.settings.token:
            return "send `Authorization: Bearer TOKEN`, or log in at /login"
        if self.tokens.has_file:
            return (
                "send `Authorization: Bearer TOKEN` with what the file `token` in the data folder holds, or "
                "log in by `hopscope open`"
            )
        return "set serve.token, since the data folder's token file cannot be used"

    def count(self, key: str) -> None:
        """Add to a counter of `operators.counters`."""
        self._counts.add(key, 1)

    def close(self) -> None:
        """Release the threads."""
        self._files.shutdown(wait=False, cancel_futures=True)
        self._hashing.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[..., T], *args: Any, **more: Any) -> T:
        """Run database work, which may wait for the disk, in a thread. Raises OperatorsError."""
        return await asyncio.get_running_loop().run_in_executor(self._files, partial(work, *args, **more))

    def client(self, scope: Any, headers: Headers) -> str:
        """Address of the client, even behind trusted proxies."""
        return self._proxy.client(_peer(scope), headers)

    def is_secure(self, scope: Any) -> bool:
        """Whether the browser used TLS, to this server or to the proxy in front of it."""
        return scope.get("scheme") in ("https", "wss") or self.sites.is_https

    def is_named(self, headers: Headers) -> bool:
        """Whether the browser used a host name other than this machine's own, for which HSTS is safe."""
        return not is_loopback(host_name(headers.get("host", "localhost").lower()).strip("[]"))

    def cookie_name(self, scope: Any, headers: Headers, base: str = cookies.SESSION) -> str:
        """Name of a cookie for this browser."""
        port = port_of(headers, "https" if self.is_secure(scope) else "http")
        return cookies.name_of(base, port, secure=self.is_secure(scope))

    async def identify(self, scope: Any, headers: Headers) -> Identity | None:
        """The identity of the client; None: a login is needed."""
        address = self.client(scope, headers)
        if (given := bearer_token(headers)) is not None:
            token = self.tokens.find(given)
            if token is not None:
                return Identity(token.name, token.role, "token", address)
        elif secret := cookies.read(headers, self.cookie_name(scope, headers)):
            session = await self._session(secret)
            if session is not None:
                csrf = self._csrf(f"session {secret}")
                return Identity(session.name, session.role, session.how, address, csrf, session.number)
        if user := self._proxy.user(_peer(scope), headers):
            return Identity(*user, "proxy", address, self._csrf(f"proxy {user[0]}"))
        return None if self.login_needed else Identity("", "viewer", "", address)

    async def _session(self, secret: str) -> Session | None:
        now = time.monotonic()
        kept = self._kept.get(secret)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept[1]
        try:
            found = await self.run(self.sessions.find, secret)
        except OperatorsError as error:
            log.error("sessions cannot be read", error=str(error))
            return None
        if len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
        self._kept[secret] = now, found
        return found

    def forget_sessions(self) -> None:
        """Empty the cache of sessions, because one has ended."""
        self._kept.clear()

    def _csrf(self, whose: str) -> str:
        return hmac.new(self._csrf_key, whose.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    async def start(self, login: Login, scope: Any, headers: Headers) -> tuple[str, Identity]:
        """Begin a session; returns its Set-Cookie header and identity. A previous session of the browser
        ends, so that an attacker cannot have prepared it. Raises OperatorsError.
        """
        name, address = self.cookie_name(scope, headers), self.client(scope, headers)
        old = cookies.read(headers, name)
        session = None if old is None else await self._session(old)
        if session is not None:
            await self.run(self.sessions.end, session.number)
        self.forget_sessions()
        secret = await self.run(
            self.sessions.start, login.name, login.role, login.how, address, headers.get("user-agent", ""),
            login.user,
        )  # fmt: skip
        log.info("logged in", user=login.name, role=login.role, how=login.how, address=address)
        seconds = int(self.settings.session_seconds)
        cookie = cookies.written(name, secret, secure=self.is_secure(scope), seconds=seconds)
        csrf = self._csrf(f"session {secret}")
        return cookie, Identity(login.name, login.role, login.how, address, csrf)

    async def end(self, identity: Identity, scope: Any, headers: Headers) -> str:
        """End the session of a request; returns the Set-Cookie header that removes its cookie. Raises
        OperatorsError.
        """
        if identity.session is not None:
            await self.run(self.sessions.end, identity.session)
        self.forget_sessions()
        name = self.cookie_name(scope, headers)
        return cookies.written(name, "", secure=self.is_secure(scope), seconds=0)

    async def log_in_by_token(self, address: str, token: str) -> Login:
        """Log in with a token. Raises LoginError."""
        self._begin(address, None, known=False)
        found = self.tokens.find(token)
        if found is None:
            raise self._wrong("this token is not known", address)
        self._right(address, None)
        return Login(found.name, found.role, "token")

    async def log_in_by_code(self, address: str, code: str) -> Login:
        """Log in with the code of `hopscope open`. Raises LoginError, OperatorsError."""
        self._begin(address, None, known=False)
        name = await self.run(self.codes.take, code)
        if name is None:
            raise self._wrong("this code is unknown, used or too old: `hopscope open` makes another", address)
        self._right(address, None)
        return Login(name, "operator", "code")

    async def log_in_by_password(self, address: str, name: str, password: str) -> Login:
        """Log in with a user's name and password. Raises LoginError, OperatorsError."""
        name = name.lower()
        if self._waiting >= PASSWORDS_WAIT:
            self.count("access_logins_total.busy")
            raise LoginError(503, "too many logins at once: try again in a moment", 1)
        self._waiting += 1
        try:
            place = network_of(address)
            self._begin(address, name, known=await self.run(self._known.has, name, place))
            loop = asyncio.get_running_loop()
            user = await loop.run_in_executor(self._hashing, self.users.verified, name, password)
            if user is None:
                raise self._wrong("name or password is wrong", address)
            self._right(address, name)
            await self.run(self._known.add, user.name, place)
        finally:
            self._waiting -= 1
        return Login(user.name, user.role, "password", user)

    async def log_in_by_provider(
        self, address: str, cookie: str | None, answer: dict[str, str]
    ) -> tuple[Login, str]:
        """Log in with the answer that the OpenID provider gave the browser, and the cookie of that login.
        Returns the login, and the address to which the browser goes next. Made-up codes are delayed like
        guessed passwords, since the provider is asked about each. Raises LoginError.
        """
        assert self.oidc is not None
        try:
            pending = self.oidc.pending(cookie, answer)
            self._begin(address, None, known=False)
            login = await self.oidc.end(pending, answer["code"])
        except LoginError as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                self._wrong("", address)
            raise
        self._right(address, None)
        return login, pending.target

    def _begin(self, address: str, name: str | None, *, known: bool) -> None:
        wait = self.lock_out.begin(address, name, known=known)
        if wait > 0:
            self.count("access_logins_total.locked_out")
            seconds = int(wait) + 1
            raise LoginError(429, f"too many failed logins: try again in {seconds} s", seconds)

    def _wrong(self, line: str, address: str) -> LoginError:
        self.count("access_logins_total.wrong")
        log.warning("wrong login", address=address)
        return LoginError(401, line)

    def _right(self, address: str, name: str | None) -> None:
        self.lock_out.succeeded(address, name)
        self.count("access_logins_total.right")


def login_needed(settings: ServeSettings) -> bool:
    """Whether clients on other machines can reach the server, or the settings have a token."""
    return bool(
        not is_loopback(settings.host)
        or settings.token
        or settings.viewer_token
        or settings.public_url
        or settings.proxy_user_header
        or settings.oidc.enabled
    )


def _peer(scope: Any) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _counters(folder: Path) -> CounterRegion:
    """Counters of access, stored with the collector's; in private memory if no collector runs."""
    regions = folder / "regions"
    try:
        return ACCESS_COUNTERS.open(regions if regions.is_dir() else None)
    except RegionError:
        return ACCESS_COUNTERS.open(None)
