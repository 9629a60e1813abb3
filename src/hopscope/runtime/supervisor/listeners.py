"""The workers' sockets and interfaces: binds them, follows changes, and binds them again."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...base import log
from ...bpf.program import XdpProgram
from ...capture.bypass import Bypass, remove
from ...capture.claim import claim
from ...capture.errors import CaptureError
from ...capture.ring.offload import PreparedInterface, prepare
from ...capture.ring.socket import source_of
from ...capture.sockets import bind_shares, close_all
from ...settings.collector import Settings
from ...settings.listen import ListenSettings
from ...settings.source import url
from .interfaces import Interfaces
from .stored_sockets import StoredSockets
from .take_over import InheritedState


class Listeners:
    """The sockets of all workers. They outlive a worker: frames wait in them while it is restarted."""

    def __init__(self, settings: Settings, kept: StoredSockets) -> None:
        self._settings, self._kept = settings, kept
        self._log = log.logger("supervisor")
        self._sockets: list[list[socket.socket]] = []
        """By listener, one for each of its workers, or more if it had more workers before a restart."""
        self._labels: list[socket.socket] = []
        """The socket for labels."""
        self._claims: list[socket.socket] = []
        """Claims on the interfaces whose frames are forwarded, from `probe` on."""
        self._prepared: dict[int, PreparedInterface] = {}
        """By number of the listener."""
        self._bypass: Bypass | None = None
        self.interfaces: Interfaces | None = None
        """Once open, if a listener receives on an interface: readable when `follow` should be called."""
        self.urls = [url(listen) for listen in settings.listen]
        """Addresses on which reports are received, such as `udp://127.0.0.1:32766`."""

    def probe(self) -> None:
        """Bind everything once. Raises CaptureError, before anything is compiled, if a port is in use."""
        self._claim()
        bound = list[socket.socket]()
        try:
            for number in range(len(self._settings.listen)):
                if not self._kept.has(number):
                    bound += self._bind(number)
        finally:
            close_all(bound)

    def open(self) -> None:
        """Bind, once workers can read: a socket that is not read loses frames. Raises CaptureError."""
        listeners = self._settings.listen
        for number in range(len(listeners)):
            self._prepare(number)
        self._explain_forwarding()
        self._claim()
        for number, listen in enumerate(listeners):
            shares = self._kept.open(number) if listen.over_udp else self._bind(number)
            self._sockets.append(shares)
            self.urls[number] = _url(listen, shares)
        if any(listen.interface for listen in listeners):
            self.interfaces = Interfaces(listeners)
        self._open_bypass()

    def sources(self) -> list[dict[str, object]]:
        """Descriptions of the listeners: a sink with equal ones can take the sockets over."""
        return [source_of(listen) for listen in self._settings.listen]

    def adopt(self, inherited: InheritedState) -> None:
        """Take the sockets of a sink with equal `sources`, in place of `open`. Raises CaptureError."""
        listeners = self._settings.listen
        self._claim()
        self._explain_forwarding()
        self._sockets = inherited.shares
        self._open_bypass(inherited.bypass)
        for number, changes in enumerate(inherited.offloads):
            self._prepare(number)
            self._prepared[number].take(changes)
        self.interfaces = Interfaces(listeners)

    def leave(self, regions: Path, locks: list[int]) -> InheritedState:
        """The state for a sink that takes over; afterwards `close` leaves the interfaces as they are."""
        self._disclaim()
        listeners = range(len(self._settings.listen))
        offloads = [self._prepared[number].changes for number in listeners]
        bypass = self._bypass.map if self._bypass is not None else None
        return InheritedState(regions, locks, self._sockets, bypass, offloads)

    def of_worker(self, worker: int) -> tuple[dict[str, Any], list[int]]:
        """Message and descriptors that hand a worker its sockets; no descriptors if nothing is open."""
        places = list(self._places(worker))
        return self._handing([self._sockets[number][place] for number, place in places], places)

    def of_labels(self) -> tuple[dict[str, Any], list[int]]:
        """The same for the process that takes labels."""
        return self._handing(self._labels, [(len(self._settings.listen), 0)])

    def open_labels(self, listen: ListenSettings) -> str:
        """Bind the socket for labels; its address, as in `urls`. Raises CaptureError."""
        self._labels = self._kept.open(len(self._settings.listen))
        return _url(listen, self._labels)

    def follow(self) -> list[tuple[int, dict[str, Any], list[int]]]:
        """Notice interfaces that disappear, and rebind those that are back. Returns (worker, message,
        descriptor) of every new socket.
        """
        if self.interfaces is None:
            return []
        made = []
        for name in self.interfaces.gone():
            self._log.warning("interface is gone", interface=name)
        for name, listeners in self.interfaces.back():
            try:
                for number in listeners:
                    self._bind_again(number)
            except CaptureError as error:
                if self.interfaces.failed(name, str(error)):
                    self._log.warning("interface cannot be used again", reason=str(error))
                continue
            seconds = self.interfaces.bound(name)
            self._log.warning("interface is back", interface=name, missing_seconds=round(seconds, 3))
            for number in listeners:
                for worker, share in enumerate(self._sockets[number]):
                    place = sum(lane < number for lane, _ in self._places(worker))
                    message = {"listener": place, "gap_ns": int(seconds * 1e9) if not worker else 0}
                    made.append((worker, message, [share.fileno()]))
            self._renew_bypass(name)
        return made

    def status(self) -> list[dict[str, object]]:
        """Every interface, as the control socket reports it."""
        return self.interfaces.status() if self.interfaces is not None else []

    def close(self, *, left: bool = False) -> None:
        """Close the sockets and undo the changes at the interfaces; a bypass stays and passes frames on.

        `left`: another process uses the sockets, and will undo the changes.
        """
        for shares in [*self._sockets, self._labels]:
            close_all(shares)
        self._sockets.clear()
        self._disclaim()
        for prepared in self._prepared.values():
            if left:
                prepared.leave()
            prepared.close()
        if self.interfaces is not None:
            self.interfaces.close()
        if self._bypass is not None:
            self._bypass.close()

    def _claim(self) -> None:
        """Claim the interfaces. Raises CaptureError if another sink forwards their frames."""
        if not self._claims:
            lanes = [(listen.interface, listen.output) for listen in self._settings.listen if listen.output]
            for lane in lanes:
                self._claims.append(claim(*lane))

    def _disclaim(self) -> None:
        for each in self._claims:
            each.close()
        self._claims.clear()

    def _bind(self, number: int) -> list[socket.socket]:
        listen = self._settings.listen[number]
        if listen.kind == "xdp":
            XdpProgram(listen).close()
            # the worker attaches a program; this socket only signals that it may
            return [socket.socket(socket.AF_INET, socket.SOCK_DGRAM)]
        return bind_shares(listen)

    def _handing(
        self, sockets: list[socket.socket], places: list[tuple[int, int]]
    ) -> tuple[dict[str, Any], list[int]]:
        """Message and descriptors for the process that receives on these sockets."""
        if not sockets:
            return {}, []
        more = {"drops": self._kept.drops.descriptor}
        if self._bypass is not None:
            more["bypass"] = self._bypass.map
        message = {"sockets": len(sockets), "shares": self._kept.described(places), "more": list(more)}
        return message, [*(each.fileno() for each in sockets), *more.values()]

    def _places(self, worker: int) -> Iterator[tuple[int, int]]:
        """(listener, place) of every socket of a worker."""
        for number, (listen, shares) in enumerate(zip(self._settings.listen, self._sockets, strict=False)):
            if worker < listen.workers:
                for place in range(worker, len(shares), listen.workers):
                    yield number, place

    def _bind_again(self, number: int) -> None:
        """New sockets for a listener, in place of those of an interface that is gone. Raises CaptureError."""
        made = self._bind(number)
        try:
            self._prepare(number)
        except CaptureError:
            close_all(made)
            raise
        close_all(self._sockets[number])
        self._sockets[number] = made

    def _prepare(self, number: int) -> None:
        """Switch off offloads that would change received frames, until `close`; reports may stay merged."""
        listen = self._settings.listen[number]
        if listen.kind != "mirror":
            return
        self._prepared[number] = prepare(listen.interface, change=not listen.keep_offloads)
        for line in self._prepared[number].lines:
            self._log.info(line)

    def _explain_forwarding(self) -> None:
        """Log why only the workers forward frames, if the settings would allow an XDP program. Raises
        CaptureError if they require one.
        """
        sink = self._settings.sink
        if not sink.enabled or sink.forwarding == "ring":
            return
        from ..pipeline.mode import mode_of
        from ..processes.worker import dialects_of
        from ..sink.wire import problem

        mode = mode_of(self._settings)
        for listen in self._settings.listen:
            if listen.output and (reason := problem(listen, sink, dialects_of(listen, mode))):
                if sink.forwarding == "xdp":
                    raise CaptureError(f"{listen.interface}: sink.forwarding is xdp, but: {reason}")
                self._log.info(
                    "frames are forwarded by the workers, not in the kernel",
                    interface=listen.interface,
                    reason=reason,
                )

    def _open_bypass(self, map_: int | None = None) -> None:
        """Have the kernel pass frames on while no worker does; `map_`: heartbeats of the sink taken over."""
        sink, listeners = self._settings.sink, self._settings.listen
        lanes = [number for number, listen in enumerate(listeners) if listen.output]
        if not sink.bypass:
            for number in lanes:
                remove(listeners[number].interface)
            return
        try:
            if lanes:
                self._bypass = Bypass(len(listeners), self._settings.workers, sink.bypass_seconds, map_)
            for number in lanes:
                self._install_bypass(number)
        except CaptureError as error:
            self._log.warning("the wire is cut while the sink does not run", reason=str(error))
            for number in lanes:
                remove(listeners[number].interface)
            if self._bypass is not None:
                self._bypass.close()
                self._bypass = None

    def _install_bypass(self, number: int) -> None:
        """Install the bypass of one listener. Raises CaptureError."""
        listen = self._settings.listen[number]
        if self._bypass is not None:
            self._bypass.install(number, listen.interface, listen.output, listen.workers)

    def _renew_bypass(self, name: str) -> None:
        """Install the bypass again on an interface that was recreated."""
        for number, listen in enumerate(self._settings.listen):
            if listen.output and name in (listen.interface, listen.output):
                try:
                    self._install_bypass(number)
                except CaptureError as error:  # the other interface is missing, too
                    self._log.warning("no bypass", reason=str(error))


def _url(listen: ListenSettings, shares: list[socket.socket]) -> str:
    """The address of a listener, with the port that the kernel may have chosen."""
    if not listen.interface:
        listen = listen.model_copy(update={"port": shares[0].getsockname()[1]})
    return url(listen)
