"""A process that serves another: when it starts and ends, and what does not reach it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hopscope.base.process.child import Child
from support.waiting import eventually

ECHO = """
import os, socket
def serve():
    control = socket.socket(fileno=0)
    while files := socket.recv_fds(control, 1, 1)[1]:
        with socket.socket(fileno=files[0]) as client:
            client.sendall(os.environ.get("WORD", "none").encode())
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    (tmp_path / "echoes.py").write_text(ECHO)
    monkeypatch.syspath_prepend(tmp_path)
    return Child("echoes", {"WORD": "hello"})


def said(child: Child) -> bytes:
    with child.connect() as socket:
        return socket.recv(10)


def test_it_starts_when_needed_and_again_when_it_has_ended(child: Child) -> None:
    """None at first; one for all connections; another one after it was killed; none at the end."""
    assert child.pid == 0
    assert [said(child), said(child)] == [b"hello"] * 2
    pid = child.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: child.pid == 0)
    assert said(child) == b"hello"
    assert child.pid not in (0, pid)
    child.end()
    assert child.pid == 0


def test_ctrl_c_does_not_reach_it(child: Child) -> None:
    """It is of another session than the terminal's."""
    said(child)
    assert os.getsid(child.pid) == child.pid
    child.end(kill=True)


def test_it_ends_with_its_parent(tmp_path: Path, child: Child) -> None:
    """Also if that is killed: its stdin is closed then."""
    script = f"""
import os, sys
sys.path.insert(0, {str(tmp_path)!r})
from hopscope.base.process.child import Child
child = Child("echoes")
child.connect().recv(10)
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    pid = int(subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False).stdout)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
