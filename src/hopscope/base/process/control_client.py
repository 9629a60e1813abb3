"""Client of the control socket, on which the supervisor accepts changes (protocol: see ARCHITECTURE.md)."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import HopscopeError

SOCKET_NAME = "control.sock"
LINE_BYTES = 2 * 1024 * 1024
"""Size of the longest request, and of the longest answer."""
MAX_BY = 200
"""Longest `by`, in characters."""
_SOCKET_PATH_BYTES = 107  # sun_path, less its terminating zero (unix(7))


class ControlError(HopscopeError):
    """The supervisor cannot be reached, or has rejected a request; the message is one line for the user."""


class RejectedError(ControlError):
    """The supervisor rejected the request."""


class UnansweredError(ControlError):
    """The supervisor has received the request, but gave no readable answer. It may have fulfilled the
    request, or may still do so.
    """


def not_running(folder: Path) -> str:
    """The message if no collector is running, or this user may not access it."""
    for path, right in ((folder, os.X_OK), (folder / SOCKET_NAME, os.W_OK)):
        if os.access(path, os.F_OK) and not os.access(path, right):
            return f"the collector on {folder} answers its user ({_owner(path)}) and root: run this as such"
    return f"no collector is running on {folder}: `hopscope collect` starts one, --data names another folder"


def _owner(path: Path) -> str:
    """Name of the user whose file this is, or the number of one without a name."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


@contextmanager
def socket_path(folder: Path) -> Iterator[str]:
    """A path of the socket in `folder` that is short enough for a socket address,
    however long `folder` is.
    """
    path = str(folder / SOCKET_NAME)
    if len(os.fsencode(path)) <= _SOCKET_PATH_BYTES:
        yield path
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def request(folder: Path, message: dict[str, Any], timeout: float = 2.0) -> dict[str, Any]:
    """Send one request to the supervisor of `folder` and return its answer.

    Raises ControlError if there is no collector, UnansweredError if it does not answer within `timeout`
    seconds, RejectedError if it rejects the request.
    """
    failed: type[ControlError] = ControlError
    try:
        with socket_path(folder) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(path)
            failed = UnansweredError
            connection.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            line = _read_line(connection)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, PermissionError):
        raise failed(not_running(folder)) from None
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        raise failed(f"no collector answers on {folder / SOCKET_NAME}: {reason}") from None
    try:
        answer = json.loads(line)
    except ValueError:
        raise UnansweredError("the collector's answer is not JSON") from None
    if not isinstance(answer, dict):
        raise UnansweredError("the collector's answer is not an object")
    if not answer.get("ok"):
        raise RejectedError(str(answer.get("error", "rejected without a reason")))
    return answer


def _read_line(connection: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(4096)
        if not part:
            break
        line += part
        if len(line) > LINE_BYTES:
            raise UnansweredError(f"the collector's answer is longer than {LINE_BYTES} bytes")
    return line
