"""How roles start: what they inherit from the server that forks them, and whose children they are."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hopscope.runtime.processes import fork_server, roles
from hopscope.runtime.processes.child import Child, receive, send
from hopscope.runtime.processes.fork_server import ForkServerError, Process
from hopscope.runtime.processes.roles import Role
from hopscope.settings.collector import Settings
from support.waiting import HANG_SECONDS, eventually


def _report(child: Child) -> None:
    """A role that reports what it has inherited, and waits for its end, as its own child does."""
    files = {path.name: str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.exists()}
    child.started = True
    follower = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    child.report(
        ready=True,
        files=files,
        parent=os.getppid(),
        command=Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").decode(),
        follower=follower.pid,
    )
    child.stop.wait(HANG_SECONDS)
    follower.communicate()


def _report_and_leave_a_thread(child: Child) -> None:
    """`_report`, whose thread waits for a server that hangs."""
    threading.Thread(target=threading.Event().wait, args=(HANG_SECONDS,)).start()
    _report(child)


@contextmanager
def server(keep: list[int]) -> Iterator[tuple[Process, socket.socket]]:
    """A fork server whose role `archive` is `_report`."""
    process, channel = fork_server.start(keep)
    try:
        with channel:
            yield process, channel
        assert process.wait(HANG_SECONDS) in (0, -signal.SIGKILL)
    finally:
        process.kill()
        fork_server.disown()


def begin(channel: socket.socket, folder: Path) -> tuple[Process, socket.socket, dict[str, Any]]:
    """Fork the role; its process, our end of its channel, and what it reports."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    settings = Settings(data=folder).model_dump(mode="json")
    send(ours, {"name": "archive", "settings": settings, "data": str(folder), "regions": str(folder)})
    try:
        with theirs:
            process = fork_server.fork(channel, "archive", theirs)
    except ForkServerError:
        ours.close()
        raise
    ours.settimeout(HANG_SECONDS)
    while True:
        message, _ = receive(ours)
        assert message is not None
        if "ready" in message:
            return process, ours, message


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    """`_report`, in servers that this process forks."""
    monkeypatch.setitem(roles.ROLES, "archive", Role(_report))
    monkeypatch.setattr("threading.active_count", lambda: 1)


def test_what_a_role_inherits(tmp_path: Path) -> None:
    """The kept files, its channel and the standard streams alone; its name; this process as its parent."""
    with (
        (tmp_path / "kept").open("w") as kept,
        (tmp_path / "other").open("w"),
        server([kept.fileno()]) as made,
    ):
        process, channel, message = begin(made[1], tmp_path)
        with channel:
            files = {int(number): name for number, name in message["files"].items()}
            assert files.pop(0) == os.devnull
            assert files.pop(kept.fileno()) == str(tmp_path / "kept")
            rest = [name for number, name in files.items() if number > 2 and not name.startswith("/proc/")]
            assert len(rest) == 1, rest
            assert rest[0].startswith("socket:")
            assert message["command"] == "hopscope: archive"
            assert message["parent"] == os.getpid()
            send(channel, {"stop": True})
            assert process.wait(HANG_SECONDS) == 0


def test_a_role_outlives_the_server(tmp_path: Path) -> None:
    """It ends when its channel closes; a signal that kills it is seen, and what it leaves is reaped."""
    with server([]) as (process, forks):
        first, first_channel, message = begin(forks, tmp_path)
        send(forks, {"log": {"level": "info", "form": "auto"}})  # as at a reload: it is not for the server
        second, second_channel, _ = begin(forks, tmp_path)
        process.kill()
        assert process.wait(HANG_SECONDS) == -signal.SIGKILL
        with pytest.raises(ForkServerError, match="it does not fork"):
            begin(forks, tmp_path)
        assert first.poll() is None
        first.kill()
        assert first.wait(HANG_SECONDS) == -signal.SIGKILL

        def reaped() -> bool:
            fork_server.reap_orphans({process.pid, second.pid})
            return not Path(f"/proc/{message['follower']}").exists()

        eventually(reaped)
        first_channel.close()
        second_channel.close()
        assert second.wait(HANG_SECONDS) == 0


def test_a_server_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it for long."""
    monkeypatch.setattr(fork_server, "FORK_SECONDS", 0.1)
    with server([]) as (process, forks):
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(ForkServerError, match="no answer"):
            begin(forks, tmp_path)
        process.kill()


def test_two_threads_ask_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor's loop and a request for its status see the end of a process at the same moment."""
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    process, wait = Process(pid), os.waitpid
    reaped, asked = threading.Event(), threading.Event()

    def slow(pid: int, options: int) -> tuple[int, int]:
        """waitpid(2), and a pause after it in which the other thread asks."""
        found = wait(pid, options)
        if found[0]:
            reaped.set()
            asked.wait(0.2)
        return found

    monkeypatch.setattr(os, "waitpid", slow)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(process.wait, HANG_SECONDS)
        assert reaped.wait(HANG_SECONDS)
        assert process.poll() == 3
        asked.set()
        assert first.result() == 3


def test_a_role_that_only_asks_does_not_wait_for_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As serve, whose query may wait for a database that hangs: a stop takes no part of that."""
    monkeypatch.setitem(roles.ROLES, "archive", Role(_report_and_leave_a_thread, waits=False))
    with server([]) as made:
        process, channel, _ = begin(made[1], tmp_path)
        with channel:
            send(channel, {"stop": True})
            assert process.wait(HANG_SECONDS / 2) == 0
    assert not any(roles.ROLES[name].waits for name in ("serve", "cluster"))


def test_what_the_archive_cannot_do_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its lines are about files that it could not write or read: they are no news, but problems."""
    from hopscope.history.writing import archive

    said: list[dict[str, Any]] = []

    def run(folder: Path, settings: object, stop: object, notify: Any, *more: object) -> None:
        notify("a segment cannot be written")

    monkeypatch.setattr(archive, "run", run)
    child = Child.__new__(Child)
    child.settings, child.data, child.regions = Settings(), tmp_path, tmp_path
    monkeypatch.setattr(child, "report", lambda **message: said.append(message), raising=False)
    monkeypatch.setattr(child, "stop", threading.Event(), raising=False)
    roles._archive(child)
    assert {"warning": "a segment cannot be written"} in said
