"""The supervisor's end of the control socket: one JSON object per line, one line of answer."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...base import log
from ...base.process.control_client import LINE_BYTES, MAX_BY, SOCKET_NAME, socket_path

Answer = Callable[[dict[str, Any], str], dict[str, Any]]
IDLE_SECONDS = 30.0
CHANGES = {
    "set_limits": "limits changed",
    "reset_limits": "limits are those of the settings again",
    "set_cluster": "configuration of the cluster applied",
    "set_tracked": "tracked flows changed",
    "set_watch": "watch lists changed",
}
"""Requests that change something, with the text that is logged."""
_PEER = struct.Struct("3i")  # pid, uid, gid: SO_PEERCRED of unix(7)


class ControlServer:
    """Answers requests on `folder`/control.sock (mode 0600) from a thread of its own.

    `answer` gets a request and its author, and returns further keys of the answer; if it raises ValueError,
    the answer is that error. Only this user and root are answered. A change is logged with its author: the
    process at the other end, and the person or program that it names (`by`).
    """

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._folder = folder
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()
        self._started = False
        self._closed = threading.Event()
        self.heir: socket.socket | None = None
        """Connection of a sink that takes over, which is answered when everything is ready for it."""
        self._log = log.logger("supervisor")

    def start(self) -> None:
        """Listen. Raises OSError."""
        self._started = True
        (self._folder / SOCKET_NAME).unlink(missing_ok=True)
        with socket_path(self._folder) as path:
            before = os.umask(0o177)
            try:
                self._listener.bind(path)
            finally:
                os.umask(before)
        self._listener.listen(16)
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self._started:
            (self._folder / SOCKET_NAME).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(1):  # not closed: out of descriptors, perhaps; try again
                    return
                continue
            threading.Thread(target=self._converse, args=(connection,), name="control", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(IDLE_SECONDS)
        with connection, suppress(OSError), connection.makefile("rb") as lines:
            pid, uid, _ = _PEER.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            )
            if uid not in (0, os.geteuid()):
                return
            while line := lines.readline(LINE_BYTES + 1):
                whole = len(line) <= LINE_BYTES
                reply = (
                    self._reply(line, f"uid {uid}, pid {pid}")
                    if whole
                    else {"error": f"a line over {LINE_BYTES} bytes"}
                )
                if reply.pop("later", False):
                    self.heir = connection.dup()
                    return
                connection.sendall(json.dumps(reply).encode() + b"\n")
                if not whole:
                    return

    def _reply(self, line: bytes, peer: str) -> dict[str, Any]:
        try:
            request = json.loads(line)
            by = request.pop("by", None) if isinstance(request, dict) else None
            if by is not None and not (isinstance(by, str) and len(by) <= MAX_BY and by.isprintable()):
                raise ValueError(f"by: expected a line of at most {MAX_BY} characters")
            if not isinstance(request, dict) or len(request) != 1:
                raise ValueError(
                    f"expected an object with one key: ping, status, tracked, watch, cluster, switches, "
                    f"take_over, {', '.join(CHANGES)}"
                )
            author = f"{by} ({peer})" if by else peer
            with self._lock:
                answer = self._answer(request, author)
                for name, text in CHANGES.items():
                    if name in request:
                        change = request[name]
                        shown = change["revision"] if name == "set_cluster" else change
                        self._log.info(text, by=author, change=shown)
                return {"ok": True, **answer}
        except RecursionError:
            return {"error": "too many brackets within each other"}
        except ValueError as error:
            return {"error": str(error)}
