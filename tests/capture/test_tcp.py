"""IPFIX over TCP: messages in any pieces, connections that end, are slow, damaged or too many."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.sockets import bind_shares, close_all
from hopscope.capture.tcp import listener as tcp
from hopscope.capture.tcp.listener import TcpListener
from hopscope.settings.listen import ListenSettings
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import Link
from support.packets import ipfix_make
from support.packets.ipfix_make import message, record, set_of, template
from support.waiting import eventually

pytestmark = pytest.mark.kernel
TEMPLATE, DATA = set_of(2, template(256, ipfix_make.FLOW)), set_of(256, record())


class Running:
    """A listener, and its connections."""

    def __init__(self, **settings: Any) -> None:
        self.listener = TcpListener(ListenSettings(kind="ipfix+tcp", port=0, **settings))
        self.listener.open()

    def connect(self, source: str = "127.0.0.1", port: int = 0) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((source, port))
        made.connect(("127.0.0.1", self.listener.port))
        self.until(lambda: self.sum("opened") + self.sum("refused") > self.before)
        self.before += 1
        return made

    before = 0

    def sum(self, word: str) -> int:
        return sum(n for name, n in self.listener.counts().items() if f"ipfix_connections_{word}" in name)

    def turn(self) -> list[bytes]:
        """The messages of one call."""
        batch = self.listener.receive()
        if batch is None:
            return []
        assert set(batch.frames["link"]) == {Link.UDP_PAYLOAD}
        return [
            batch.arena[int(one["offset"]) : int(one["offset"]) + int(one["length"])].tobytes()
            for one in batch.frames
        ]

    def until(self, done: Any) -> list[bytes]:
        """The messages that arrive until a condition holds."""
        found: list[bytes] = []

        def turned() -> bool:
            found.extend(self.turn())
            return bool(done())

        eventually(turned)
        return found

    def messages(self, count: int) -> list[bytes]:
        """As many messages."""
        found: list[bytes] = []

        def turned() -> bool:
            found.extend(self.turn())
            return len(found) >= count

        eventually(turned)
        assert len(found) == count
        return found


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running(connections=16)
    yield made
    made.listener.close()


def test_messages_in_pieces(running: Running) -> None:
    """A message may arrive byte by byte, or several at once; the longest one has 65,535 bytes."""
    longest = message(set_of(999, bytes(65_535 - 20)))
    sent = [message(TEMPLATE + DATA), message(DATA, sequence=1), longest, message(), longest]
    with running.connect() as one:
        for byte in sent[0]:
            one.sendall(bytes([byte]))
            running.turn()
        one.sendall(sent[1][:3])
        running.turn()
        found = [sent[0]]
        one.setblocking(False)
        rest = memoryview(sent[1][3:] + b"".join(sent[2:]))
        while rest:
            with suppress(BlockingIOError):
                rest = rest[one.send(rest) :]
            found += running.turn()
        found += running.messages(len(sent) - len(found)) if len(found) < len(sent) else []
    assert found == sent
    running.until(lambda: running.sum("closed"))
    assert running.listener.counts()["ipfix_connections_closed_end"] == 1


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (message(DATA) + b"\0\x09\0\x20" + bytes(40), "bad_header"),
        (message(DATA) + b"\0\x0a\0\x0f" + bytes(40), "bad_header"),
        (message(DATA)[:-1], "cut"),
        (message(DATA), "end"),
    ],
)
def test_why_connections_end(running: Running, sent: bytes, reason: str) -> None:
    """A wrong version or length closes the connection, after the messages before it; so does the exporter."""
    with running.connect() as one:
        one.sendall(sent)
        one.shutdown(socket.SHUT_WR)
        found = running.until(lambda: running.sum("closed"))
    assert running.listener.counts()[f"ipfix_connections_closed_{reason}"] == 1
    assert running.listener.counts()["ipfix_connections"] == 0
    assert found == [message(DATA)] * (reason != "cut")


def test_slow_connections_are_closed(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends nothing, one that does not end a message; one that is quiet between messages stays."""
    silent, slow, quiet = (running.connect(f"127.0.0.{n}") for n in (2, 3, 4))
    with silent, slow, quiet:
        quiet.sendall(message(TEMPLATE))
        slow.sendall(message(TEMPLATE) + message(DATA)[:10])
        running.messages(2)
        for number, limit in enumerate(("SLOW_SECONDS", "SILENT_SECONDS"), 1):
            monkeypatch.setattr(tcp, limit, -1.0)
            running.listener._looked = 0.0
            running.turn()
            assert running.listener.counts()["ipfix_connections_closed_slow"] == number
        monkeypatch.undo()
        quiet.sendall(message(DATA))
        assert running.messages(1) == [message(DATA)]


def test_connections_are_limited(running: Running) -> None:
    """One source has at most its share, all together `connections`; others go on, and places are reused."""
    mine = [running.connect() for _ in range(3)]
    assert running.listener.counts()["ipfix_connections_refused_source"] == 1
    assert mine[2].recv(1) == b""
    others = [running.connect(f"127.0.0.{n}") for n in (2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9)]
    assert running.listener.counts()["ipfix_connections_refused_full"] == 1
    assert running.listener.counts()["ipfix_connections"] == 16
    mine[0].close()
    running.until(lambda: running.sum("closed"))
    with running.connect("127.0.0.9") as late:
        late.sendall(message(DATA))
        others[0].sendall(message(TEMPLATE))
        assert sorted(running.messages(2)) == sorted([message(DATA), message(TEMPLATE)])
    for one in (*mine, *others):
        one.close()


def test_a_process_without_descriptors_closes_connections(running: Running) -> None:
    """Each counts once, its exporter sees that it is closed, and connections are taken again afterwards."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    made = [socket.create_connection(("127.0.0.1", running.listener.port)) for _ in range(2)]
    lowest = os.dup(made[0].fileno())
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        running.until(lambda: running.sum("refused") == 2)
        for _ in range(10):
            running.turn()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert running.listener.counts()["ipfix_connections_refused_full"] == 2
    for one in made:
        assert one.recv(1) == b""
        one.close()
    running.before = 2
    with running.connect():
        assert running.listener.counts()["ipfix_connections"] == 1


def test_workers_share_a_port() -> None:
    """Each connection reaches one of them; another program cannot take the port."""
    listen = ListenSettings(kind="ipfix+tcp", port=0, workers=2)
    shares = bind_shares(listen)
    listeners = [TcpListener(listen, number, 2, share) for number, share in enumerate(shares)]
    for each in listeners:
        each.open()
    made = [socket.create_connection(("127.0.0.1", listeners[0].port)) for _ in range(32)]
    for one in made:
        one.sendall(message(DATA))
    found = [0, 0]

    def turned() -> bool:
        for number, each in enumerate(listeners):
            found[number] += len(each.receive() or ())
        return sum(found) == len(made)

    eventually(turned)
    assert min(found) > 0
    with pytest.raises(CaptureError, match="in use by another program"):
        bind_shares(listen.model_copy(update={"port": listeners[0].port, "workers": 1}))
    close_all(made)
    for each in listeners:
        each.close()


def test_sources_that_are_not_allowed() -> None:
    """Their connections are closed at once."""
    running = Running(allow=("127.0.0.2",))
    with closing(running.listener), running.connect() as stranger, running.connect("127.0.0.2") as one:
        assert stranger.recv(1) == b""
        one.sendall(message(DATA))
        assert running.messages(1) == [message(DATA)]
        assert running.listener.counts()["ipfix_connections_refused_denied"] == 1


def test_a_sender_of_small_messages_does_not_stop_others(running: Running) -> None:
    """A batch that is full with one connection's messages leaves the others their turns."""
    flood, other = running.connect(), running.connect("127.0.0.2")
    with flood, other:
        flood.setblocking(False)
        small, sent = message() * 4096, 0
        other.sendall(message(DATA))
        found: list[bytes] = []

        def turned() -> bool:
            nonlocal sent
            with suppress(BlockingIOError):
                sent += flood.send(small[sent % 16 :])
            found.extend(running.turn())
            return message(DATA) in found

        eventually(turned)


def test_templates_end_with_their_connection(running: Running) -> None:
    """Two connections of one address have templates of their own, which do not expire, and end with them."""
    decoder = IpfixDecoder(ended=running.listener.ended)
    records: list[int] = []

    def turned(wanted: int) -> None:
        def done() -> bool:
            batch = running.listener.receive()
            if batch is not None:
                records.extend(decoder.decode(batch).reports["hop_count"].tolist())
            return len(records) >= wanted

        eventually(done)

    first, second = running.connect(), running.connect()
    port = first.getsockname()[1]
    first.sendall(message(TEMPLATE) + message(DATA))
    turned(2)
    second.sendall(message(DATA))
    turned(3)
    assert records == [0, 1, 0]
    assert decoder.counts()["ipfix_templates"] == 1
    decoder.domains.expire(1 << 62)
    assert decoder.counts()["ipfix_templates"] == 1
    first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    first.close()
    running.until(lambda: running.sum("closed"))
    with running.connect(port=port) as again:
        again.sendall(message(DATA, sequence=9))
        turned(4)
    assert records[3:] == [0]
    assert decoder.counts()["ipfix_templates"] == 0
    second.close()


def test_all_connections_may_be_open() -> None:
    """The limit of open files, 1,024 in most shells, is raised for the connections of the settings."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
    try:
        with closing(TcpListener(ListenSettings(kind="ipfix+tcp", port=0, connections=500))) as listener:
            listener.open()
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 500 + 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
