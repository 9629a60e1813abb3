"""Follows a collector's interfaces: which exist, and which were recreated and need new sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence

from ...capture.interface import has_carrier
from ...capture.netlink import follow_links, have_changed
from ...settings.listen import ListenSettings


class Interfaces:
    """Follows interfaces by name, since a recreated interface has a new number.

    `fileno` is readable when any interface of the network namespace has changed.
    """

    def __init__(self, listeners: Sequence[ListenSettings]) -> None:
        """Call it just after the listeners' sockets were bound to their interfaces."""
        # a listener with an XDP program has no socket, and reattaches the program itself
        self._watched = [listen.interface if listen.kind != "xdp" else "" for listen in listeners]
        names = dict.fromkeys(name for listen in listeners for name in (listen.interface, listen.output))
        self._bound = {name: index_of(name) for name in names if name}
        self._gone: dict[str, float] = {}
        self._reason: dict[str, str] = {}
        self._netlink = follow_links()

    def fileno(self) -> int:
        """Descriptor of the netlink socket."""
        return self._netlink.fileno()

    def drain(self) -> None:
        """Discard netlink messages; `gone` and `back` query the interfaces themselves."""
        have_changed(self._netlink)

    def gone(self) -> list[str]:
        """Interfaces that have disappeared since the last call."""
        now = time.monotonic()
        found = [
            name for name, index in self._bound.items() if name not in self._gone and index_of(name) != index
        ]
        for name in found:
            self._gone[name] = now
        return found

    def back(self) -> Iterable[tuple[str, list[int]]]:
        """Interfaces that exist again, each with the numbers of its listeners. Call `bound` once those have
        new sockets.
        """
        for name in list(self._gone):
            if index_of(name):
                yield name, [number for number, watched in enumerate(self._watched) if watched == name]

    def bound(self, name: str) -> float:
        """Note that an interface's listeners have new sockets; returns how many seconds it was gone."""
        self._bound[name] = index_of(name)
        self._reason.pop(name, None)
        return time.monotonic() - self._gone.pop(name)

    def failed(self, name: str, reason: str) -> bool:
        """Note that an interface is back, but its sockets cannot be made; True if the reason is new."""
        before = self._reason.get(name)
        self._reason[name] = reason
        return before != reason

    def status(self) -> list[dict[str, object]]:
        """`name`, `ready` and `detail` of every interface, as the control socket reports them."""
        return [
            {
                "name": name,
                "ready": name not in self._gone,
                "detail": self._reason.get(name, "missing") if name in self._gone else _link(name),
            }
            for name in self._bound
        ]

    def close(self) -> None:
        """Close the netlink socket."""
        self._netlink.close()


def _link(name: str) -> str:
    try:
        return "present" if has_carrier(name) else "down, or without a carrier: nothing arrives"
    except OSError:  # it has just disappeared
        return "missing"


def index_of(name: str) -> int:
    """Number of an interface; 0 if it does not exist."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
