"""An upgrade that loses no packet: a new sink takes over sockets, state and locks of the running one.

    new sink                                  running sink
    ask: may I? ─────────────────────────────► compares interfaces
    loads its kernels                          forwards
    take over ───────────────────────────────► ends its helpers; its workers send what they have taken from
                                               the rings, close their journals, and leave the rest
    its workers go on where those stopped ◄─── sockets, locks, heartbeats of the bypass
    helpers start                              ends

Meanwhile, frames wait in the receive rings, which belong to the sockets. The request goes over the control
socket, which also returns the descriptors (SCM_RIGHTS, unix(7)).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import HopscopeError
from ...base.process.control_client import LINE_BYTES, ControlError, RejectedError, request, socket_path

VERSION = 1
"""Version of this state's format, including the layout of the heartbeats."""
WAIT_SECONDS = 60.0
"""How long the running sink may take to end its helpers and workers."""
MAX_FILES = 253  # SCM_MAX_FD


@dataclass
class InheritedState:
    """What a sink leaves to the one that takes over."""

    regions: Path
    """Folder of the state, in shared memory."""
    locks: list[int]
    """Descriptors of the locks: of the data folder, of the folder of regions."""
    shares: list[list[socket.socket]]
    """Sockets by listener, one for each of its workers."""
    bypass: int | None
    """Descriptor of the heartbeats; None: the sink has no bypass."""
    offloads: list[list[tuple[str, dict[str, bool]]]]
    """Changes at the interfaces, by listener: names, and the former states of features."""


def may_take_over(folder: Path, sources: Sequence[dict[str, Any]]) -> bool:
    """Whether a sink runs on this data folder. Raises HopscopeError if it cannot be taken over, for example
    because

    its listeners are not `sources`.
    """
    try:
        request(folder, _wanted(sources, now=False))
    except RejectedError as error:
        raise HopscopeError(f"--take-over: {error}") from error
    except ControlError:
        return False
    return True


def _wanted(sources: Sequence[dict[str, Any]], *, now: bool) -> dict[str, Any]:
    return {"take_over": {"version": VERSION, "sources": list(sources), "now": now}}


def take_over(folder: Path, sources: Sequence[dict[str, Any]]) -> InheritedState:
    """Have the sink of this data folder end, and return its state. Raises HopscopeError."""
    try:
        with socket_path(folder) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(WAIT_SECONDS)
            connection.connect(path)
            connection.sendall(json.dumps(_wanted(sources, now=True)).encode() + b"\n")
            line, files, _, _ = socket.recv_fds(connection, LINE_BYTES, MAX_FILES)
            answer = json.loads(line)
    except (OSError, ValueError) as error:
        raise HopscopeError(f"--take-over: the running sink did not hand over ({error})") from error
    if "error" in answer:
        raise HopscopeError(f"--take-over: {answer['error']}")
    descriptors = iter(files)
    return InheritedState(
        Path(answer["regions"]),
        [next(descriptors) for _ in range(answer["locks"])],
        [[socket.socket(fileno=next(descriptors)) for _ in range(count)] for count in answer["shares"]],
        next(descriptors, None),
        answer["offloads"],
    )


def hand_over(heir: socket.socket, inherited: InheritedState) -> None:
    """Answer the sink that takes over. Raises OSError if it is gone."""
    answer = {
        "ok": True,
        "regions": str(inherited.regions),
        "locks": len(inherited.locks),
        "shares": [len(shares) for shares in inherited.shares],
        "offloads": inherited.offloads,
    }
    files = [*inherited.locks, *(share.fileno() for shares in inherited.shares for share in shares)]
    if inherited.bypass is not None:
        files.append(inherited.bypass)
    socket.send_fds(heir, [json.dumps(answer).encode() + b"\n"], files)
