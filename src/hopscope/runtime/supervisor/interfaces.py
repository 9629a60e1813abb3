"""The interfaces of a collector: which are there, and which came back as others and need new sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Sequence

from ...capture.interface import has_carrier
from ...capture.netlink import follow_links, have_changed
from ...settings.listen import ListenSettings


class Interfaces:
    """Follows interfaces by name: one that is deleted and made again has another number.

    `fileno` is readable when any interface of the network namespace has changed.
    """

    def __init__(self, listeners: Sequence[ListenSettings]) -> None:
        """The interfaces are those that the listeners' sockets were bound to just now."""
        # a listener with an XDP program has no socket: it attaches the program again itself
        self._watched = [listen.interface if listen.kind != "xdp" else "" for listen in listeners]
        names = dict.fromkeys(name for listen in listeners for name in (listen.interface, listen.output))
        self._bound = {name: index_of(name) for name in names if name}
        self._gone: dict[str, float] = {}
        self._reason: dict[str, str] = {}
        self._netlink = follow_links()

    def fileno(self) -> int:
        """Of the netlink socket."""
        return self._netlink.fileno()

    def drain(self) -> None:
        """Forget the messages: `changed` looks for itself."""
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
        """Interfaces that are there again, each with the numbers of its listeners; `bound` once they have
        sockets.
        """
        for name in list(self._gone):
            if index_of(name):
                yield name, [number for number, watched in enumerate(self._watched) if watched == name]

    def bound(self, name: str) -> float:
        """Its listeners have new sockets; returns the seconds that it was gone."""
        self._bound[name] = index_of(name)
        self._reason.pop(name, None)
        return time.monotonic() - self._gone.pop(name)

    def failed(self, name: str, reason: str) -> bool:
        """It is back, but its sockets cannot be made; True if that is news."""
        before = self._reason.get(name)
        self._reason[name] = reason
        return before != reason

    def status(self) -> list[dict[str, object]]:
        """Every interface: `name`, `ready`, `detail`, as the control socket reports it."""
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
    except OSError:  # it went just now
        return "missing"


def index_of(name: str) -> int:
    """Number of an interface; 0: there is none."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return 0
