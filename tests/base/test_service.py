"""What a service says to systemd."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopscope.base.process.service import Service
from support.servers.service_manager import ServiceManager


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    """Stands in for systemd."""
    made = ServiceManager(tmp_path, watchdog_seconds=0.002)
    yield made
    made.close()


def test_a_service_says_what_it_does(manager: ServiceManager) -> None:
    """In the order in which it happens."""
    service = Service(manager.environment)
    for state in (service.ready, service.reloading, service.ready, service.stopping):
        state()
    assert [manager.next() for _ in range(4)] == ["READY", "RELOADING", "READY", "STOPPING"]


def test_a_loop_that_turns_is_alive(manager: ServiceManager) -> None:
    """Whenever half of the limit has passed."""
    stop = threading.Event()
    watched = Service(manager.environment).watched(stop)
    assert not watched.wait(0.002)
    assert not watched.is_set()
    assert manager.next() == "WATCHDOG"
    stop.set()
    assert watched.is_set()


def test_nothing_is_sent_where_nothing_is_expected(manager: ServiceManager) -> None:
    """Without systemd; signs of life not for another process; a manager that is gone is no error."""
    Service({}).ready()
    other = Service({**manager.environment, "WATCHDOG_PID": str(os.getpid() + 1)})
    for _ in range(1000):
        other.alive()
    other.stopping()
    assert manager.next() == "STOPPING"
    manager.close()
    other.ready()


def test_an_abstract_socket_is_found() -> None:
    """Its name begins with @."""
    name = f"hopscope-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as taker:
        taker.bind(f"\0{name}")
        Service({"NOTIFY_SOCKET": f"@{name}"}).ready()
        assert taker.recv(100) == b"READY=1"


def test_files_are_kept_until_they_are_forgotten(manager: ServiceManager, tmp_path: Path) -> None:
    """Under their names; a message about a file is no state."""
    service = Service(manager.environment)
    path = tmp_path / "file"
    with path.open("w") as file:
        service.keep("one", file.fileno())
        service.keep("two", file.fileno())
    assert [os.path.realpath(f"/proc/self/fd/{each}") for each in manager.kept.values()] == [str(path)] * 2
    service.forget("one")
    service.ready()
    assert manager.kept.keys() == {"two"}
    assert manager.next() == "READY"


@pytest.mark.parametrize(
    ("names", "found"),
    [("one:two", [("one", 3), ("two", 4)]), ("one", [("one", 3), ("", 4)]), (None, [("", 3), ("", 4)])],
)
def test_files_are_passed_with_their_names(
    names: str | None, found: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and no child gets them; those without a name have an empty one."""
    private = []
    monkeypatch.setattr(os, "set_inheritable", lambda descriptor, on: private.append((descriptor, on)))
    passed = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    service = Service(passed if names is None else {**passed, "LISTEN_FDNAMES": names})
    assert service.kept() == found
    assert service.kept() == []
    assert private == [(3, False), (4, False)]


@pytest.mark.parametrize(
    "environment",
    [{}, {"LISTEN_FDS": "2"}, {"LISTEN_PID": "1", "LISTEN_FDS": "2"}, {"LISTEN_PID": "", "LISTEN_FDS": "x"}],
)
def test_files_for_another_process_are_not_taken(environment: dict[str, str]) -> None:
    """Their variables are inherited by the children of that process."""
    assert Service(environment).kept() == []
    own = {**environment, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "-1"}
    assert Service(own).kept() == []
