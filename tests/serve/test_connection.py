"""Clients without a token that send too much, too slowly, or nothing: others are served meanwhile."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest
import uvicorn

from hopscope.serve import connection
from hopscope.serve.connection import Connection
from hopscope.serve.server import serve_app

Talk = Callable[[str, int], Coroutine[Any, Any, None]]
ASK = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answers once the body is there; /long never ends, /flood sends more than a client takes. A
    WebSocket is closed.
    """
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4429})
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/long":
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        await receive()
    while scope["path"] == "/flood":
        await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        await asyncio.sleep(0)  # a closed connection takes everything at once
    await send({"type": "http.response.body", "body": b"ok"})


def served(talk: Talk) -> None:
    """Run `talk` with the address of a server."""

    async def run() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            http=Connection,
            log_config=None,
            lifespan="off",
            h11_max_incomplete_event_size=connection.HEAD_BYTES,
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await talk(*listener.getsockname()[:2])
        finally:
            server.should_exit = True
            await task

    asyncio.run(run())


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Status line of the answer to one more request; empty if the connection is closed."""
    try:
        writer.write(ASK)
        return (await reader.readline()).strip()
    except ConnectionError:
        return b""


@pytest.mark.parametrize("piece", [b"x-header: 0123456789\r\n" * 4096, b"x" * 65_536, b"\r\n" * 32_768])
def test_an_endless_head_is_cut(piece: bytes) -> None:
    """Many headers, one long header, or blank lines before a request: 400 or closed within some buffers."""

    async def talk(host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        if piece[0] != 13:
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\nx-first: ")
        sent = 0
        try:
            while sent < 16 * 1024**2 and not writer.transport.is_closing() and not reader.at_eof():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
                sent += len(piece)
        except ConnectionError:
            pass
        assert sent < 16 * 1024**2
        writer.close()

    served(talk)


@pytest.mark.parametrize(
    "start", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1"]
)
def test_a_request_that_never_comes_is_closed(monkeypatch: pytest.MonkeyPatch, start: bytes) -> None:
    """Nothing, half a head, or half a body: the connection ends; an answer that lasts does not."""
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.2)

    async def talk(host: str, port: int) -> None:
        long_reader, long_writer = await asyncio.open_connection(host, port)
        long_writer.write(ASK.replace(b"/healthz", b"/long"))
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(start)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        assert await long_reader.readuntil(b"x")
        assert not long_reader.at_eof()
        for each in (writer, long_writer):
            each.close()

    served(talk)


def test_a_client_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full buffer for too long ends the connection, and what feeds it."""
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.2)

    async def talk(host: str, port: int) -> None:
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        writer.write(ASK.replace(b"/healthz", b"/flood"))
        await asyncio.sleep(0.5)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1 << 30)
        writer.close()

    served(talk)


def test_idle_connections_make_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all places taken by idle connections, a new one is served; with busy ones it is told so."""
    monkeypatch.setattr(connection, "PER_ADDRESS", 8)

    async def talk(host: str, port: int) -> None:
        idle = [await asyncio.open_connection(host, port) for _ in range(20)]
        ends = [await asyncio.open_connection(host, port) for _ in range(2)]
        for end in ends:
            assert await answer(*end) == b"HTTP/1.1 200 OK"
        assert await answer(*idle[0]) == b""
        busy = [await asyncio.open_connection(host, port) for _ in range(8)]
        for reader, writer in busy:
            writer.write(ASK.replace(b"/healthz", b"/long"))
            await reader.readuntil(b"x")
        reader, writer = await asyncio.open_connection(host, port)
        assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
        assert b"too many connections" in await reader.read()
        for _, each in [*idle, *ends, *busy, (reader, writer)]:
            each.close()

    served(talk)


def test_closed_websockets_make_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that do not answer the end of their WebSockets take no place from others of their address, as
    behind a proxy.
    """
    monkeypatch.setattr(connection, "PER_ADDRESS", 4)
    upgrade = (
        b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )

    async def talk(host: str, port: int) -> None:
        ends = [await asyncio.open_connection(host, port) for _ in range(4)]
        for reader, writer in ends:
            writer.write(upgrade)
            await reader.readuntil(b"\x11M")  # 4429
        ends.append(await asyncio.open_connection(host, port))
        assert await answer(*ends[-1]) == b"HTTP/1.1 200 OK"
        for _, writer in ends:
            writer.close()

    served(talk)


def test_an_idle_server_looks_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in it sleeps for less until it stops: each look costs an idle collector 1 ms of a processor."""
    sleep, slept = asyncio.sleep, list[float]()

    class Looks:
        """A stop after some looks."""

        def is_set(self) -> bool:
            return len(slept) >= 8

    async def noted(seconds: float) -> None:
        slept.append(seconds)
        assert len(slept) < 20, f"it did not stop: {slept}"
        await sleep(0)

    async def run() -> None:
        monkeypatch.setattr(asyncio, "sleep", noted)
        await serve_app(app, cast(Any, Looks()), socket.create_server(("127.0.0.1", 0)))

    asyncio.run(run())
    assert slept[:8] == [0.2] * 8


def test_a_process_without_descriptors_does_not_try_all_the_time() -> None:
    """It tries to accept once in each turn of its loop, while Linux holds more connections for it."""

    class Full(socket.socket):
        tries = 0

        def accept(self) -> Any:
            self.tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

    class Looks:
        held = b""

        def is_set(self) -> bool:
            self.held = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
            return listener.tries > 0

    listener, looks = Full(), Looks()
    listener.bind(("127.0.0.1", 0))
    listener.listen()

    async def talk() -> int:
        serving = asyncio.create_task(serve_app(app, cast(Any, looks), listener))
        with socket.create_connection(listener.getsockname()):
            while not listener.tries:
                await asyncio.sleep(0)
            tries = listener.tries
            await serving
        return tries

    assert asyncio.run(talk()) == 1
    assert struct.unpack_from("I", looks.held, 28) == (128,), "tcpi_sacked, of a listener its backlog"
