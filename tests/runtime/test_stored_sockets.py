"""Which sockets of an earlier start a collector uses, and which it closes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hopscope.base import log
from hopscope.base.process.service import Service
from hopscope.capture.sockets import bind_share, kernel_drops
from hopscope.runtime.supervisor.stored_sockets import StoredSockets
from hopscope.settings.listen import ListenSettings
from support.servers.server_process import free_port
from support.servers.service_manager import ServiceManager

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="needs Linux")


class Passed(Service):
    """A service that starts with what a manager keeps."""

    def __init__(self, manager: ServiceManager) -> None:
        super().__init__(manager.environment)
        self._manager = manager

    def kept(self) -> list[tuple[str, int]]:
        """Copies, as systemd passes them."""
        return [(name, os.dup(descriptor)) for name, descriptor in self._manager.kept.items()]


class Starts:
    """Starts of a collector, one after the other."""

    def __init__(self, manager: ServiceManager) -> None:
        self.manager = manager
        self._open: list[Any] = []

    def __call__(self, *listeners: ListenSettings) -> tuple[StoredSockets, list[list[socket.socket]]]:
        """The next start: its sockets by listener."""
        self.end()
        kept = StoredSockets(Passed(self.manager), listeners)
        self._open.append(kept)
        kept.find()
        opened = [kept.open(number) for number in range(len(listeners))]
        self._open += [share for shares in opened for share in shares]
        return kept, opened

    def end(self) -> None:
        """The process ends: its files are closed."""
        for each in self._open:
            each.close()
        self._open.clear()


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Starts]:
    made = Starts(ServiceManager(tmp_path))
    yield made
    made.end()
    made.manager.close()


def listener(port: int, **fields: Any) -> ListenSettings:
    return ListenSettings.model_validate({"port": port, **fields})


def names(port_number: int, count: int) -> set[str]:
    """Of the files that belong to a listener, with that of the drops."""
    return {f"udp-{port_number}-{place}-of-{count}" for place in range(count)} | {"udp-drops"}


def send(port: int, count: int = 4) -> int:
    """Datagrams of 32 sources."""
    for source in range(1, 33):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((f"127.0.3.{source}", 0))
            for _ in range(count):
                sender.sendto(b"report", ("127.0.0.1", port))
    return 32 * count


def take(shares: list[socket.socket]) -> list[int]:
    """How many datagrams wait in each socket; they are taken."""
    found = []
    for share in shares:
        found.append(0)
        while True:
            try:
                share.recv(100)
            except BlockingIOError:
                break
            found[-1] += 1
    return found


def in_use(port: int) -> bool:
    """Whether any socket has the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def test_what_arrives_between_two_starts_is_read(starts: Starts) -> None:
    """Each worker finds in its socket what its sources have sent, and nothing is sent to the manager again
    but the memory of the drops.
    """
    listen = listener(free_port(), workers=3)
    _, [before] = starts(listen)
    send(listen.port)
    shares = take(before)
    starts.end()
    assert send(listen.port) == sum(shares)
    first = starts.manager.kept
    _, [after] = starts(listen)
    assert take(after) == shares
    second = starts.manager.kept
    assert first.keys() == second.keys() == names(0, 3)
    assert {name for name in first if first[name] != second[name]} <= {"udp-drops"}


@pytest.mark.parametrize(("fewer", "more"), [(1, 4), (2, 3)])
def test_the_number_of_workers_changes(starts: Starts, fewer: int, more: int) -> None:
    """What waits is read; what comes later reaches every worker, and no socket of workers that are gone."""
    port = free_port()
    starts(listener(port, workers=fewer))
    starts.end()
    sent = send(port)
    _, [grown] = starts(listener(port, workers=more))
    assert len(grown) == more
    assert sum(take(grown)) == sent
    assert send(port) == sum(each := take(grown))
    assert all(each)
    assert starts.manager.kept.keys() == names(0, more)
    starts.end()
    sent = send(port)
    _, [shrunk] = starts(listener(port, workers=fewer))
    assert len(shrunk) == more, "what waits in the sockets of former workers is read by others"
    assert sum(take(shrunk)) == sent
    assert send(port) == sum(each := take(shrunk))
    assert all(each[:fewer])
    assert not any(each[fewer:])
    assert starts.manager.kept.keys() == names(0, fewer)
    starts.end()
    sent = send(port)
    _, [last] = starts(listener(port, workers=fewer))
    assert len(last) == fewer
    assert sum(take(last)) == sent


@pytest.mark.parametrize(
    "change", [{"host": "127.0.0.2"}, {"host": "::1"}, {"gro": False}], ids=["host", "family", "trains"]
)
def test_sockets_that_do_not_fit_are_closed(
    starts: Starts, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the manager, too: a socket that nobody reads must not take the reports of others. The log says
    where they received.
    """
    said: list[str] = []
    quiet = SimpleNamespace(info=lambda *_, **__: None, warning=lambda _, address, **__: said.append(address))
    monkeypatch.setattr(log, "logger", lambda _: quiet)
    listen = listener(free_port(), workers=2)
    starts(listen)
    starts(listen.model_copy(update=change))
    assert said == [f"127.0.0.1:{listen.port}"]
    assert starts.manager.kept.keys() == names(0, 2)
    assert in_use(listen.port) == (change == {"gro": False})
    starts(listener(free_port()))
    assert not in_use(listen.port)


def test_half_a_group_is_closed(starts: Starts) -> None:
    """The program of a group counts on the place of each socket in it."""
    listen = listener(free_port(), workers=2)
    _, [shares] = starts(listen)
    Service(starts.manager.environment).forget("udp-0-1-of-2")
    starts.end()
    assert starts.manager.kept.keys() == {"udp-0-0-of-2", "udp-drops"}
    _, [shares] = starts(listen)
    assert starts.manager.kept.keys() == names(0, 2)
    assert send(listen.port) == sum(take(shares))


def test_listeners_change_places(starts: Starts) -> None:
    """Each gets the sockets of its address, and the manager knows them by their new numbers."""
    one, two = listener(free_port()), listener(free_port(), workers=2)
    starts(one, two)
    starts.end()
    sent = send(one.port, 1), send(two.port, 2)
    _, opened = starts(two, one)
    assert [sum(take(shares)) for shares in opened] == [sent[1], sent[0]]
    assert starts.manager.kept.keys() == names(0, 2) | names(1, 1)
    _, opened = starts(one)
    assert starts.manager.kept.keys() == names(0, 1)
    assert not in_use(two.port)


def test_files_of_others_are_not_used(starts: Starts, tmp_path: Path) -> None:
    """Neither what has another name, nor what is no socket, nor a socket of another kind, nor one of a port
    that the kernel chose.
    """
    port = free_port()
    service = Service(starts.manager.environment)
    with (tmp_path / "file").open("w") as file, socket.socket() as stream:
        stream.bind(("127.0.0.1", port))
        service.keep("udp-0-0-of-1", stream.fileno())
        service.keep("udp-1-0-of-1", file.fileno())
        service.keep("hopscope.socket", file.fileno())
        _, [shares] = starts(listener(port))
    assert send(port) == sum(take(shares))
    assert "udp-0-0-of-1" in starts.manager.kept
    starts(listener(0))
    assert "udp-0-0-of-1" not in starts.manager.kept
    assert not in_use(port)


def test_drops_between_two_starts_are_counted(starts: Starts) -> None:
    """Those that an earlier start has counted are not, also if its listener had another number."""
    other, listen = listener(free_port()), listener(free_port(), receive_buffer_bytes=4096)
    kept, [_, [share]] = starts(other, listen)
    send(listen.port)
    counted = kernel_drops(share)
    assert counted
    [[_, number, before]] = kept.described([(1, 0)])
    assert before == 0
    kept.drops.words[number] = counted  # as the worker does that reads the socket
    starts.end()
    send(listen.port)
    kept, [[share]] = starts(listen)
    [[_, number, before]] = kept.described([(0, 0)])
    assert before == counted
    dropped = kernel_drops(share)
    assert dropped is not None
    assert dropped > counted
    assert np.flatnonzero(kept.drops.words).tolist() == [number], "nothing is known of others"


def test_without_systemd_nothing_is_kept(starts: Starts) -> None:
    """The port is free once the sockets are closed."""
    listen = listener(free_port(), workers=2)
    kept = StoredSockets(Service({}), [listen])
    kept.find()
    assert not kept.has(0)
    shares = kept.open(0)
    assert in_use(listen.port)
    for share in shares:
        share.close()
    kept.close()
    assert not in_use(listen.port)
    bind_share(listen).close()
