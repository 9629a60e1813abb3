"""HTTP server of a Linux switch: a controller reads and changes its state (`control.drivers.http`)."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from ..base.errors import HopscopeError, described
from ..base.log import logger
from ..base.process.stop import Stop
from ..base.tls import TlsError
from ..control.driver import Driver, RefusedError
from ..control.drivers.http import PATH, PORTS_PATH
from ..control.neighbours import SwitchPorts
from ..control.state import SwitchState, difference, lacking
from ..settings.agent import AgentSettings
from ..settings.configuration.errors import error_lines
from ..settings.configuration.secrets import value_of
from ..settings.section import MIN_TOKEN, host_and_port
from .access.guard import Guard
from .access.host_and_origin import Sites
from .access.identity import Identity
from .access.tls import Certificate
from .access.tokens import Token, Tokens, bearer_token
from .server import ServeError, bind_to, serve_app

log = logger("switch")
LEASE_LOOK_SECONDS = 1.0


class AgentAccess:
    """Access control: every request needs the token that all controllers share. No pages for browsers."""

    has_login_page = False
    login_hint = "send `Authorization: Bearer TOKEN`"

    def __init__(self, host: str, token: str) -> None:
        self.sites = Sites(host)
        self._tokens = Tokens(Token(token, "controller", "operator"))

    async def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        """A controller, if the request has the token; otherwise None."""
        given = bearer_token(headers)
        token = None if given is None else self._tokens.find(given)
        client = scope.get("client")
        return token and Identity(token.name, token.role, "token", str(client[0]) if client else "")

    def is_secure(self, scope: Scope) -> bool:
        """Whether the client came by TLS."""
        return scope.get("scheme") == "https"

    def is_named(self, headers: Headers) -> bool:
        """False: controllers are not browsers."""
        return False

    def count(self, key: str) -> None:
        """A switch has no counters of requests."""


class Agent:
    """The application, over a driver of this machine's programs, which gets one request at a time."""

    def __init__(self, driver: Driver, *, lease_seconds: float = 0) -> None:
        self._driver, self._lease_seconds = driver, lease_seconds
        self._lock = threading.Lock()
        self._heard = time.monotonic()
        self.app = Starlette(
            routes=[
                Route(PATH, self._get, methods=["GET"]),
                Route(PATH, self._patch, methods=["PATCH"]),
                Route(PORTS_PATH, self._ports, methods=["GET"]),
                Route("/healthz", self._healthy),
            ],
            exception_handlers={HopscopeError: _unavailable, HTTPException: _rejected},
        )

    async def watch_lease(self) -> None:
        """Reset Reg2 if no controller sends a request for too long."""
        while self._lease_seconds:
            await asyncio.sleep(LEASE_LOOK_SECONDS)
            if time.monotonic() - self._heard >= self._lease_seconds:
                try:
                    await run_in_threadpool(self._reset)
                except HopscopeError:  # no program is attached, so no packet is labelled
                    pass
                except Exception as error:  # the next check tries again
                    log.warning(f"no controller sends requests, and Reg2 cannot be reset: {described(error)}")

    def _reset(self) -> None:
        with self._lock:
            change = difference(SwitchState(reg2={}), self._driver.read())
            if change.parts():
                self._driver.apply(change)
                log.warning("no controller sends requests: Reg2 is reset", ports=len(change.reg2 or ()))

    async def _get(self, _: Request) -> Response:
        self._heard = time.monotonic()
        return JSONResponse((await run_in_threadpool(self._read)).as_json())

    async def _patch(self, request: Request) -> Response:
        self._heard = time.monotonic()
        try:
            change = SwitchState.model_validate_json(await request.body())
        except ValidationError as error:
            raise HTTPException(400, "; ".join(error_lines(error, SwitchState)[:3])) from None
        except ClientDisconnect:
            raise HTTPException(400, "the request's body is incomplete") from None
        return JSONResponse((await run_in_threadpool(self._change, change)).as_json())

    async def _ports(self, _: Request) -> Response:
        found = await run_in_threadpool(self._read_ports)
        return JSONResponse((found or SwitchPorts()).model_dump(mode="json"))

    async def _healthy(self, _: Request) -> Response:
        return PlainTextResponse("ok\n")

    def _read(self) -> SwitchState:
        with self._lock:
            return self._driver.read()

    def _read_ports(self) -> SwitchPorts | None:
        with self._lock:
            return self._driver.ports()

    def _change(self, change: SwitchState) -> SwitchState:
        with self._lock:
            missing = lacking(change, self._driver.read())
            if missing:
                raise HTTPException(400, f"this switch has no {', '.join(missing)}")
            self._driver.apply(change)
            return self._driver.read()


def run(
    settings: AgentSettings,
    driver: Driver,
    stop: Stop,
    listener: socket.socket | None = None,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve until `stop` is set. `listener` is the socket of `bind`, made here if it is None; `ready` is
    called once token and certificates have been checked. Raises ServeError, ConfigError.
    """
    listener = listener or bind(settings)
    token = value_of("agent.token", settings.token)
    if token is None or len(token) < MIN_TOKEN:
        raise ServeError(f"agent.token: found {len(token or '')} characters, expected {MIN_TOKEN} or more")
    certificate = None
    if settings.cert_file is not None:
        try:
            certificate = Certificate(settings.cert_file, settings.key_file, settings.client_ca_file)
        except TlsError as error:
            raise ServeError(f"agent: {error}") from None
    ready()
    agent = Agent(driver, lease_seconds=settings.lease_seconds)
    host, _ = host_and_port(settings.listen)
    asyncio.run(_serve(agent, Guard(agent.app, AgentAccess(host, token)), certificate, stop, listener))


def bind(settings: AgentSettings) -> socket.socket:
    """Socket that a controller connects to. Raises ServeError."""
    return bind_to(*host_and_port(settings.listen), "agent.listen")


async def _serve(
    agent: Agent, app: Guard, certificate: Certificate | None, stop: Stop, listener: socket.socket
) -> None:
    lease = asyncio.create_task(agent.watch_lease())
    try:
        await serve_app(app, stop, listener, certificate=certificate)
    finally:
        lease.cancel()


async def _unavailable(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, RefusedError) else 503)


async def _rejected(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail)}, error.status_code)
