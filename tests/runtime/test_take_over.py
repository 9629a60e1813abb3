"""What a sink leaves to the one that takes over, and when it does."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.errors import HopscopeError
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.runtime.supervisor.take_over import VERSION, InheritedState, hand_over, may_take_over, take_over
from hopscope.settings.collector import Settings
from support.waiting import eventually


def settings(folder: Path, **more: Any) -> Settings:
    """A sink between two interfaces."""
    listen = {"kind": "mirror", "interface": "near", "output": "out", **more}
    return Settings.model_validate({"data": folder, "listen": [listen], "sink": {"enabled": True}})


def test_everything_arrives(tmp_path: Path) -> None:
    """Sockets by listener, locks, heartbeats and offloads, with the answer that comes later."""
    server = ControlServer(tmp_path, lambda request, author: {"later": request["take_over"]["now"]})
    server.start()
    reader, writer = os.pipe()
    ours, theirs = socket.socketpair()
    offloads: list[list[tuple[str, dict[str, bool]]]] = [[("eth1", {"rx-gro": True})], []]

    def leave() -> None:
        eventually(lambda: server.heir)
        assert server.heir is not None
        hand_over(
            server.heir,
            InheritedState(tmp_path / "r", [reader, writer], [[ours], [theirs]], reader, offloads),
        )
        server.heir.close()

    thread = threading.Thread(target=leave)
    thread.start()
    assert may_take_over(tmp_path, [])
    found = take_over(tmp_path, [])
    thread.join()
    server.close()
    assert found.regions == tmp_path / "r"
    assert [[list(change) for change in changes] for changes in found.offloads] == [
        [["eth1", {"rx-gro": True}]],
        [],
    ]
    (first,), (second,) = found.shares
    first.send(b"through")
    assert second.recv(10) == b"through"
    os.write(found.locks[1], b"locks")
    assert found.bypass is not None
    assert os.read(found.bypass, 10) == b"locks"
    for descriptor in (reader, writer, *found.locks, found.bypass):
        os.close(descriptor)
    for end in (ours, theirs, first, second):
        end.close()


def test_nobody_to_take_over_from(tmp_path: Path) -> None:
    """No control socket: an ordinary start."""
    assert not may_take_over(tmp_path, [])


def test_who_may_take_over(tmp_path: Path) -> None:
    """A sink with the same interfaces, workers and rings, once it runs; other settings may differ."""
    supervisor = Supervisor(settings(tmp_path))

    def ask(**more: Any) -> dict[str, Any]:
        heir = Supervisor(settings(tmp_path, **more))
        sources = heir._listeners.sources()
        heir.stop()
        return supervisor._answer({"take_over": {"version": VERSION, "sources": sources, "now": True}}, "")

    with pytest.raises(ValueError, match="starting or ending"):
        ask()
    supervisor._collecting = True
    assert ask(dialect="spec") == {"later": True}
    for other in ({"output": "elsewhere"}, {"workers": 2}, {"ring_bytes": 2**22}, {"promiscuous": False}):
        with pytest.raises(ValueError, match="other interfaces, workers or rings: mirror://near"):
            ask(**other)
    supervisor.stop()


def test_a_collector_is_not_taken_over(tmp_path: Path) -> None:
    """It says why, in one line."""
    supervisor = Supervisor(Settings(data=tmp_path))
    server = ControlServer(tmp_path, supervisor._answer)
    server.start()
    with pytest.raises(HopscopeError, match=r"^--take-over: a collector of reports runs here"):
        may_take_over(tmp_path, [])
    server.close()
    supervisor.stop()
