"""Main of the serve process: one HTTP server with the API and the console."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..base.errors import HopscopeError
from ..base.names import Names
from ..base.process.stop import Stop
from ..base.tls import TlsError
from ..operators.database import Database
from ..operators.users import Users
from ..settings.collector import Settings
from ..settings.configuration.secrets import value_of
from ..settings.section import is_loopback, reached_at
from ..settings.serve import ServeSettings
from ..wire.address import with_port
from .access.oidc import Provider
from .access.tls import Certificate
from .access.tokens import token_of

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from ..direct.collectors.group import CollectorGroup

_BACKLOG = 128
_GRACE_SECONDS = 3
_LOOK_SECONDS = 0.2
_SWITCH_SECONDS = 0.0005
"""How long one thread runs while another waits, a tenth of Python's default: a cheap answer takes many short
steps, each of which waits for threads that work on expensive answers.
"""


class ServeError(HopscopeError):
    """The API cannot be served; the message names the setting to change."""


def bind(settings: ServeSettings, folder: Path) -> socket.socket:
    """The socket on which the API of a data folder listens. Raises HopscopeError if the address is in use, no
    user could log in, or the certificate is not valid.
    """
    _check_logins(settings, folder)
    if settings.cert_file is not None:
        try:
            Certificate(settings.cert_file, settings.key_file)
        except TlsError as error:
            raise ServeError(f"serve: {error}") from None
    try:
        return bind_to(settings.host, settings.port, "serve.port")
    except ServeError as error:
        raise ServeError(f"{error}; choose another with --http-host or --http-port") from None


def _check_logins(settings: ServeSettings, folder: Path) -> None:
    """Raises HopscopeError if the server is reachable over the network, but no user could log in, or not in
    the way that the settings require.
    """
    Provider.of(settings)
    tokens = [
        token_of(key, text)
        for key, text in (("serve.token", settings.token), ("serve.viewer_token", settings.viewer_token))
    ]
    if any(tokens) or settings.proxy_user_header or settings.oidc.enabled:
        return
    if is_loopback(settings.host) and not settings.public_url:
        return
    database = Database(folder)
    if database.path.exists():
        try:
            if Users(database).all():
                return
        finally:
            database.close()
    key = "host" if not is_loopback(settings.host) else "public_url"
    raise ServeError(
        f"serve.{key}: {getattr(settings, key)} is open to the network, which needs a login: set "
        "serve.token (16 characters or more), add users by `hopscope users add`, or serve on 127.0.0.1"
    )


def bind_to(host: str, port: int, key: str) -> socket.socket:
    """A socket that listens on host and port; errors name the setting `key`. Raises ServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with the protocol, or asyncio leaves Nagle's algorithm on: 40 ms for each request after the first
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServeError(f"{key}: cannot listen on {with_port(host, port)}: {error.strerror}") from None
    return listener


def url_of(listener: socket.socket, *, bound: bool = False, tls: bool = False) -> str:
    """Address of the page for a browser on this machine; `bound`: with the address that is listened on."""
    host, port = listener.getsockname()[:2]
    if not bound:
        host = reached_at(host)
    return f"{'https' if tls else 'http'}://{with_port(host, port)}/"


def run(settings: Settings, folder: Path, stop: Stop, listener: socket.socket | None = None) -> None:
    """Serve until `stop` is set; `listener` is the socket of `bind`, made here if it is None."""
    listener = listener or bind(settings.serve, folder)
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.run(_serve(settings, folder, stop, listener))


async def _serve(settings: Settings, folder: Path, stop: Stop, listener: socket.socket) -> None:
    from ..direct.collectors.collector import ApiAccess
    from ..direct.collectors.open import open_collectors
    from .api import create_app  # the framework takes half a second to import
    from .scope import ClusterScope

    query = settings.direct.query
    token = value_of("direct.query.token", query.token)
    access = ApiAccess(token, query.ca_file, query.timeout_seconds)
    group = open_collectors(query.collectors, settings.stores_folder, access)
    collectors: CollectorGroup | Callable[[], CollectorGroup] = group
    if settings.cluster.enabled and not query.collectors:
        from ..cluster.owners.file import OwnersGroup

        collectors = OwnersGroup(folder, settings.member_name, group, access)
    names = Names.load(settings.names, folder)
    cluster = ClusterScope(settings, folder, names) if settings.cluster.enabled else None
    app = create_app(settings.serve, folder, names, settings.direct.folder, collectors, cluster)
    app.state.context.dialects = settings.dialects
    serve = settings.serve
    certificate = None if serve.cert_file is None else Certificate(serve.cert_file, serve.key_file)
    app.state.context.access.certificate = certificate
    guarded, closing = app.state.guarded, app.state.closing
    await serve_app(guarded, stop, listener, closing, lifespan="on", certificate=certificate)


async def serve_app(
    app: ASGIApp,
    stop: Stop,
    listener: socket.socket,
    closing: asyncio.Event | None = None,
    *,
    lifespan: Literal["on", "off"] = "off",
    certificate: Certificate | None = None,
) -> None:
    """Serve an application until `stop` is set, over TLS if there is a certificate. `closing` is set before
    the connections end.
    """
    import uvicorn

    from .connection import HEAD_BYTES, REQUEST_SECONDS, Connection

    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=1,  # how often asyncio tries to accept at a time, each with a timer if that fails (EMFILE)
        lifespan=lifespan,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws_max_size=64 * 1024,
        h11_max_incomplete_event_size=HEAD_BYTES,
        proxy_headers=False,  # uvicorn would trust any program of this machine; see access/proxy
        ssl_context_factory=None if certificate is None else lambda *_: certificate.context,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    server.main_loop = partial(_main_loop, stop, server, listener, closing)  # type: ignore[method-assign]
    tasks = []
    if certificate is not None:
        tasks.append(asyncio.create_task(certificate.watch()))
        _limit_handshakes(asyncio.get_running_loop(), REQUEST_SECONDS)
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()


def _limit_handshakes(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """End a TLS handshake after `seconds` instead of asyncio's 60; uvicorn has no setting for this."""
    loop.create_server = partial(  # type: ignore[method-assign]
        loop.create_server, ssl_handshake_timeout=seconds
    )


@contextmanager
def _no_signals() -> Iterator[None]:
    """Keep uvicorn from handling signals: the process handles them itself."""
    yield


async def _main_loop(
    stop: Stop, server: uvicorn.Server, listener: socket.socket, closing: asyncio.Event | None
) -> None:
    """Wait for the stop event; uvicorn's own loop wakes twice as often."""
    listener.listen(_BACKLOG)  # which uvicorn has changed
    while not stop.is_set():
        await server.on_tick(0)  # updates the time in headers
        await asyncio.sleep(_LOOK_SECONDS)
    if closing is not None:
        closing.set()  # ends the live feeds, which would otherwise hold the server open
