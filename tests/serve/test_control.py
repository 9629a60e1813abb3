"""The client of the control socket, against the real server and against none."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from hopscope.base.process.control_client import LINE_BYTES, SOCKET_NAME, ControlError, request, socket_path
from hopscope.runtime.supervisor.control import ControlServer


def answer(message: dict[str, Any], author: str) -> dict[str, Any]:
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
    """No socket: one line that says what to do."""
    with pytest.raises(ControlError, match=r"no collector is running on .*: `hopscope collect` starts one"):
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


def test_a_change_is_logged_with_who_made_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user and process at the other end, and for whom they say they ask; nothing else is logged."""
    lines: list[dict[str, Any]] = []
    server = ControlServer(tmp_path, answer)
    monkeypatch.setattr(server._log, "info", lambda event, **more: lines.append({"event": event, **more}))
    server.start()
    try:
        request(tmp_path, {"ping": {}})
        request(tmp_path, {"set_limits": {"general": {"hop_latency": {"change": 1}}}})
        request(tmp_path, {"reset_limits": {}, "by": "HTTP client 192.0.2.9"})
        with pytest.raises(ControlError, match="by: expected"):
            request(tmp_path, {"reset_limits": {}, "by": "two\nlines"})
    finally:
        server.close()
    me = f"uid {os.getuid()}, pid {os.getpid()}"
    assert lines == [
        {"event": "limits changed", "by": me, "change": {"general": {"hop_latency": {"change": 1}}}},
        {
            "event": "limits are those of the settings again",
            "by": f"HTTP client 192.0.2.9 ({me})",
            "change": {},
        },
    ]
