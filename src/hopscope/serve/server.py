"""Main of the serve process: one HTTP server with the API and the live page."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from ..base.errors import HopscopeError
from ..base.names import Names
from ..base.stop import Stop
from ..settings.collector import ServeSettings, Settings
from ..settings.secrets import value_of
from ..settings.section import is_loopback
from .token_file import token_of

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
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise ServeError(
            f"serve.port: cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
            "choose another with --http-port or serve.port"
        ) from None
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
    from .connection import HEAD_BYTES, Connection
    from .live_mount import mount

    query = settings.direct.query
    collectors = open_collectors(
        query.collectors,
        settings.stores_folder,
        token=value_of("direct.query.token", query.token),
        timeout_seconds=query.timeout_seconds,
    )
    names = Names.load(settings.names, folder)
    app = create_app(settings.serve, folder, names, settings.direct.folder, collectors)
    mount(app)
    config = uvicorn.Config(
        app.state.guarded,
        http=Connection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ws_max_size=1 << 20,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    watcher = asyncio.create_task(_watch(stop, server, app.state.closing))
    try:
        await server.serve(sockets=[listener])
    finally:
        watcher.cancel()


@contextmanager
def _no_signals() -> Iterator[None]:
    """The process stops by its own signals."""
    yield


async def _watch(stop: Stop, server: uvicorn.Server, closing: asyncio.Event) -> None:
    """Turn the stop event into a graceful end."""
    while not stop.is_set():
        await asyncio.sleep(0.2)
    closing.set()  # ends the live feeds, which would otherwise hold the server open
    server.should_exit = True
