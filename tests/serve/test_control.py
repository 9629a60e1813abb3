"""The client of the control socket, against the real server and against none."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.control_client import LINE_BYTES, SOCKET_NAME, ControlError, request, socket_path
from hopscope.runtime.control import ControlServer


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """Echo, or refuse."""
    if "refuse" in message:
        raise ValueError("not this one")
    return {"echo": message}


@pytest.mark.parametrize("deep", [False, True])
def test_a_request_is_answered(tmp_path: Path, deep: bool) -> None:
    """Also where the path is longer than a socket's name may be; a refusal is the supervisor's line."""
    folder = tmp_path / ("x" * 120 if deep else "x")
    folder.mkdir()
    server = ControlServer(folder, answer)
    server.start()
    try:
        assert request(folder, {"ping": {}})["echo"] == {"ping": {}}
        assert (folder / SOCKET_NAME).stat().st_mode & 0o077 == 0
        with pytest.raises(ControlError, match="not this one"):
            request(folder, {"refuse": 1})
    finally:
        server.close()


def test_nobody_answers(tmp_path: Path) -> None:
    """No socket: one line with its path."""
    with pytest.raises(ControlError, match=r"no collector answers on .*control\.sock"):
        request(tmp_path, {"ping": {}})


@pytest.mark.parametrize("said", [b"", b"nonsense\n", b"[]\n", b"{}\n", b"x" * (LINE_BYTES + 10)])
def test_a_strange_answer_is_one_line(tmp_path: Path, said: bytes) -> None:
    """What is no answer is an error, not an exception of another kind."""
    with socket_path(tmp_path) as path, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def speak() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(said)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        with pytest.raises(ControlError) as refused:
            request(tmp_path, {"ping": {}}, timeout=5)
        thread.join(5)
        assert "\n" not in str(refused.value)
