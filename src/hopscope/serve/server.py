"""Main of the serve process: one HTTP server with the API and the console."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import uvicorn
from starlette.types import ASGIApp

from ..base.errors import HopscopeError
from ..base.names import Names
from ..base.stop import Stop
from ..settings.collector import ServeSettings, Settings
from ..settings.secrets import value_of
from ..settings.section import is_loopback
from .token_file import token_of

if TYPE_CHECKING:
    from ..direct.collectors.group import CollectorGroup

_BACKLOG = 128
_GRACE_SECONDS = 3


class ServeError(HopscopeError):
    """The API cannot be served; the message names the setting to change."""


def bind(settings: ServeSettings) -> socket.socket:
    """Socket that the API listens on. Raises ServeError or ConfigError if a token is missing
    or the address is taken.
    """
    if token_of(settings) is None and not is_loopback(settings.host):
        raise ServeError(
            f"serve.host: {settings.host} is open to the network, which needs a token: "
            "set serve.token (16 characters or more), or serve on 127.0.0.1"
        )
    try:
        return bind_to(settings.host, settings.port, "serve.port")
    except ServeError as error:
        raise ServeError(f"{error}; choose another with --http-port or serve.port") from None


def bind_to(host: str, port: int, key: str) -> socket.socket:
    """Socket that listens there, as the setting `key` says. Raises ServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with the protocol, or asyncio leaves Nagle's algorithm on: 40 ms for each request after the first
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServeError(f"{key}: cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def url_of(listener: socket.socket, *, bound: bool = False) -> str:
    """Address of the page, as a browser on this machine takes it; `bound`: as it is listened on."""
    host, port = listener.getsockname()[:2]
    if not bound:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def run(settings: Settings, folder: Path, stop: Stop, listener: socket.socket | None = None) -> None:
    """Serve until `stop` is set; `listener` is the socket of `bind`, made here if there is none."""
    listener = listener or bind(settings.serve)
    asyncio.run(_serve(settings, folder, stop, listener))


async def _serve(settings: Settings, folder: Path, stop: Stop, listener: socket.socket) -> None:
    from ..direct.collectors.open import open_collectors
    from .api import create_app  # the framework takes half a second to import
    from .scope import ClusterScope

    query = settings.direct.query
    asked: dict[str, Any] = {
        "token": value_of("direct.query.token", query.token),
        "timeout_seconds": query.timeout_seconds,
    }
    group = open_collectors(query.collectors, settings.stores_folder, **asked)
    collectors: CollectorGroup | Callable[[], CollectorGroup] = group
    if settings.cluster.enabled and not query.collectors:
        from ..cluster.owners.file import OwnersGroup

        collectors = OwnersGroup(folder, settings.member_name, group, **asked)
    names = Names.load(settings.names, folder)
    cluster = ClusterScope(settings, folder, names) if settings.cluster.enabled else None
    app = create_app(settings.serve, folder, names, settings.direct.folder, collectors, cluster)
    app.state.context.dialects = settings.dialects
    await serve_app(app.state.guarded, stop, listener, app.state.closing, lifespan="on")


async def serve_app(
    app: ASGIApp,
    stop: Stop,
    listener: socket.socket,
    closing: asyncio.Event | None = None,
    *,
    lifespan: Literal["on", "off"] = "off",
    cert_file: Path | None = None,
    key_file: Path | None = None,
    client_ca_file: Path | None = None,
) -> None:
    """Serve an application until `stop` is set; `closing` is set then, before connections end. With
    `cert_file` over TLS; `client_ca_file`: clients need a certificate of these.
    """
    from .connection import HEAD_BYTES, Connection

    config = uvicorn.Config(
        app,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan=lifespan,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws_max_size=1 << 20,
        h11_max_incomplete_event_size=HEAD_BYTES,
        ssl_certfile=cert_file,
        ssl_keyfile=key_file,
        ssl_ca_certs=None if client_ca_file is None else str(client_ca_file),
        ssl_cert_reqs=ssl.CERT_NONE if client_ca_file is None else ssl.CERT_REQUIRED,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    watcher = asyncio.create_task(_watch(stop, server, closing))
    try:
        await server.serve(sockets=[listener])
    finally:
        watcher.cancel()


@contextmanager
def _no_signals() -> Iterator[None]:
    """The process stops by its own signals."""
    yield


async def _watch(stop: Stop, server: uvicorn.Server, closing: asyncio.Event | None) -> None:
    """Turn the stop event into a graceful end."""
    while not stop.is_set():
        await asyncio.sleep(0.2)
    if closing is not None:
        closing.set()  # ends the live feeds, which would otherwise hold the server open
    server.should_exit = True
