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

from pydantic import ValidationError

from ..base import log
from ..base.control_client import LINE_BYTES, SOCKET_NAME, socket_path
from ..detect.sink.limits import SWITCH_MEASURES
from ..detect.sink.limits import as_json as sink_limits_as_json
from ..settings.collector import ThresholdSettings
from ..settings.errors import error_lines
from ..settings.sink import SinkSettings

Answer = Callable[[dict[str, Any]], dict[str, Any]]
IDLE_SECONDS = 30.0
MAX_BY = 200
"""Longest `by`, in characters."""
CHANGES = {
    "set_thresholds": "thresholds changed",
    "set_sink_limits": "limits of the sink changed",
    "set_tracked": "tracked flows changed",
}
"""Requests that change something, and how they are logged."""
_PEER = struct.Struct("3i")  # pid, uid, gid: SO_PEERCRED of unix(7)


def changed_limits(limits: ThresholdSettings, changes: Any) -> ThresholdSettings:
    """Limits after a request: given keys are set (None: never), absent ones stay. ValueError: rejected."""
    if not isinstance(changes, dict) or not all(isinstance(change, dict) for change in changes.values()):
        raise ValueError('expected limits by metric, as {"hop_latency": {"change": 20000}}')
    tree = limits.model_dump()
    for metric, change in changes.items():
        if metric not in tree:
            raise ValueError(f"{metric}: unknown metric; known are {', '.join(tree)}")
        if unknown := change.keys() - tree[metric].keys():
            raise ValueError(f"{metric}.{unknown.pop()}: unknown limit; known are {', '.join(tree[metric])}")
        tree[metric].update(change)
    try:
        return ThresholdSettings.model_validate(tree)
    except ValidationError as error:
        raise ValueError("; ".join(error_lines(error, ThresholdSettings))) from None


def changed_sink_limits(settings: SinkSettings, changes: Any) -> SinkSettings:
    """Limits of sinks after a request: given keys are set (None: never), absent ones stay.

    `switches` has limits by node id: absent ones stay, or are those of all switches if the switch had
    none of its own; None removes them.  ValueError: rejected.
    """
    expected = 'expected limits by metric, as {"hop_latency": {"above": 20000}, "switches": {"7": …}}'
    if not isinstance(changes, dict):
        raise ValueError(expected)
    tree = sink_limits_as_json(settings)
    switches = tree.pop("switches")
    of_all = {name: dict(tree[name]) for name in SWITCH_MEASURES}
    changes = dict(changes)
    of_nodes = changes.pop("switches", {})
    if not isinstance(of_nodes, dict):
        raise ValueError(expected)
    _change_limits(tree, changes, "")
    for node, given in of_nodes.items():
        if given is None:
            switches.pop(node, None)
            continue
        own = switches.setdefault(node, {name: dict(limits) for name, limits in of_all.items()})
        _change_limits(own, given, f"switches.{node}.")
    try:
        return SinkSettings.model_validate(
            {
                "thresholds": {name: tree[name] for name in SWITCH_MEASURES},
                "end_to_end": tree["end_to_end"],
                "switches": [{"node": node, **limits} for node, limits in switches.items()],
            }
        )
    except ValidationError as error:
        raise ValueError("; ".join(error_lines(error, SinkSettings))) from None


def _change_limits(tree: dict[str, Any], changes: Any, where: str) -> None:
    if not isinstance(changes, dict) or not all(isinstance(change, dict) for change in changes.values()):
        raise ValueError(f'{where}: expected limits by metric, as {{"hop_latency": {{"above": 20000}}}}')
    for name, change in changes.items():
        if name not in tree:
            raise ValueError(f"{where}{name}: unknown metric; known are {', '.join(tree)}")
        if unknown := change.keys() - tree[name].keys():
            raise ValueError(f"{where}{name}.{unknown.pop()}: unknown limit; known are change, above")
        tree[name].update(change)


class ControlServer:
    """Answers requests on `folder`/control.sock (mode 0600) from a thread of its own.

    `answer` gets a request and returns the answer's other keys; a ValueError of it is the answer's error.
    Only this user and root are answered.  A change is logged with who made it: the process at the other end,
    and for whom it says it asks (`by`).
    """

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._folder = folder
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._log = log.logger("supervisor")

    def start(self) -> None:
        """Listen. Raises OSError."""
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
        (self._folder / SOCKET_NAME).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(1):  # else out of descriptors, perhaps: not for ever
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
                    f"expected an object with one key: ping, status, tracked, {', '.join(CHANGES)}"
                )
            with self._lock:
                answer = self._answer(request)
                for name, text in CHANGES.items():
                    if name in request:
                        self._log.info(text, by=f"{by} ({peer})" if by else peer, change=request[name])
                return {"ok": True, **answer}
        except RecursionError:
            return {"error": "too many brackets within each other"}
        except ValueError as error:
            return {"error": str(error)}
