"""The supervisor's end of the control socket: one JSON object per line, one line of answer."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..base.control_client import LINE_BYTES, SOCKET_NAME, socket_path
from ..detect.sink.limits import SWITCH_MEASURES
from ..detect.sink.limits import as_json as sink_limits_as_json
from ..settings.collector import ThresholdSettings
from ..settings.errors import error_lines
from ..settings.sink import SinkSettings

Answer = Callable[[dict[str, Any]], dict[str, Any]]
IDLE_SECONDS = 30.0


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
    """

    def __init__(self, folder: Path, answer: Answer) -> None:
        self._folder = folder
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()

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
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        (self._folder / SOCKET_NAME).unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._converse, args=(connection,), name="control", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        connection.settimeout(IDLE_SECONDS)
        with connection, suppress(OSError), connection.makefile("rb") as lines:
            while line := lines.readline(LINE_BYTES + 1):
                whole = len(line) <= LINE_BYTES
                reply = self._reply(line) if whole else {"error": f"a line over {LINE_BYTES} bytes"}
                connection.sendall(json.dumps(reply).encode() + b"\n")
                if not whole:
                    return

    def _reply(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or len(request) != 1:
                raise ValueError(
                    "expected an object with one key: ping, status, set_thresholds or set_sink_limits"
                )
            with self._lock:
                return {"ok": True, **self._answer(request)}
        except RecursionError:
            return {"error": "too many brackets within each other"}
        except ValueError as error:
            return {"error": str(error)}
