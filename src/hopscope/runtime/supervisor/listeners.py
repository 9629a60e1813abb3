"""What workers receive on: their sockets and the interfaces under them, bound, followed and bound again."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from ...base import log
from ...bpf.program import XdpProgram
from ...capture.bypass import Bypass, remove
from ...capture.claim import claim
from ...capture.errors import CaptureError
from ...capture.ring.offload import PreparedInterface, prepare
from ...capture.ring.socket import source_of
from ...capture.sockets import bind_share
from ...settings.collector import Settings
from ...settings.source import url
from .interfaces import Interfaces
from .take_over import Estate


class Listeners:
    """The sockets of all workers. They outlive a worker: what comes waits while it is restarted."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._log = log.logger("supervisor")
        self._sockets: list[list[socket.socket]] = []
        """By listener, one for each of its workers."""
        self._claims: list[socket.socket] = []
        """Of the interfaces whose frames are forwarded, from `probe` on."""
        self._prepared: dict[int, PreparedInterface] = {}
        """By number of the listener."""
        self._bypass: Bypass | None = None
        self.interfaces: Interfaces | None = None
        """Once open, if a listener receives on an interface: readable when `follow` should be called."""
        self.urls: list[str] = []
        """Addresses on which reports are received, as `udp://127.0.0.1:32766`."""

    def probe(self) -> None:
        """Bind everything once. Raises CaptureError, before anything is compiled, if a port is in use."""
        self._bind()
        self._close_sockets()

    def open(self) -> None:
        """Bind, once workers can read: a socket that is not read loses frames. Raises CaptureError."""
        listeners = self._settings.listen
        for number in range(len(listeners)):
            self._prepare(number)
        self._explain_forwarding()
        self._bind()
        if any(listen.interface for listen in listeners):
            self.interfaces = Interfaces(listeners)
        self._open_bypass()

    def sources(self) -> list[dict[str, object]]:
        """What the sockets are made by: those of a sink with equal ones can be taken over."""
        return [source_of(listen) for listen in self._settings.listen]

    def adopt(self, estate: Estate) -> None:
        """Take the sockets of a sink with equal `sources`, in place of `open`. Raises CaptureError."""
        listeners = self._settings.listen
        self._claim()
        self._explain_forwarding()
        self._sockets = estate.shares
        self.urls = [url(listen) for listen in listeners]
        self._open_bypass(estate.bypass)
        for number, changes in enumerate(estate.offloads):
            self._prepare(number)
            self._prepared[number].take(changes)
        self.interfaces = Interfaces(listeners)

    def leave(self, regions: Path, locks: list[int]) -> Estate:
        """What a sink that takes over gets; then `close` changes nothing at the interfaces."""
        self._disclaim()
        listeners = range(len(self._settings.listen))
        offloads = [self._prepared[number].changes for number in listeners]
        bypass = self._bypass.map if self._bypass is not None else None
        return Estate(regions, locks, self._sockets, bypass, offloads)

    def of_worker(self, worker: int) -> tuple[dict[str, Any], list[int]]:
        """Message and descriptors that hand a worker its sockets; no descriptors: nothing is open."""
        files = [shares[worker].fileno() for shares in self._sockets if worker < len(shares)]
        message = {"sockets": len(files)}
        if self._bypass is not None:
            files.append(self._bypass.map)
        return message, files

    def follow(self) -> list[tuple[int, dict[str, Any], list[int]]]:
        """Notice interfaces that disappear, and bind again those that are back: worker, message, descriptor
        of every new socket.
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
                    place = sum(worker < len(shares) for shares in self._sockets[:number])
                    message = {"listener": place, "gap_ns": int(seconds * 1e9) if not worker else 0}
                    made.append((worker, message, [share.fileno()]))
            self._renew_bypass(name)
        return made

    def status(self) -> list[dict[str, object]]:
        """Every interface, as the control socket reports it."""
        return self.interfaces.status() if self.interfaces is not None else []

    def close(self, *, left: bool = False) -> None:
        """Close the sockets and undo what was changed at the interfaces; a bypass stays and passes frames.

        `left`: another process uses the sockets, and undoes the changes at its end.
        """
        self._close_sockets()
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
        """Forward alone. Raises CaptureError if another sink forwards."""
        if not self._claims:
            lanes = [(listen.interface, listen.output) for listen in self._settings.listen if listen.output]
            for lane in lanes:
                self._claims.append(claim(*lane))

    def _disclaim(self) -> None:
        for each in self._claims:
            each.close()
        self._claims.clear()

    def _bind(self) -> None:
        self._claim()
        self.urls = []
        for listen in self._settings.listen:
            shares = list[socket.socket]()
            self._sockets.append(shares)
            if listen.kind == "xdp":
                XdpProgram(listen).close()
                # the worker attaches a program; the socket only says that it may
                shares.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                self.urls.append(url(listen))
                continue
            for index in range(listen.workers):
                shares.append(bind_share(listen, index, shares[0] if shares else None))
                if not listen.interface:
                    listen = listen.model_copy(update={"port": shares[0].getsockname()[1]})
            self.urls.append(url(listen))

    def _close_sockets(self) -> None:
        for shares in self._sockets:
            for share in shares:
                share.close()
        self._sockets.clear()

    def _bind_again(self, number: int) -> None:
        """New sockets for a listener, in place of those of an interface that is gone. Raises CaptureError."""
        listen, made = self._settings.listen[number], list[socket.socket]()
        try:
            for index in range(listen.workers):
                made.append(bind_share(listen, index, made[0] if made else None))
            self._prepare(number)
        except CaptureError:
            for share in made:
                share.close()
            raise
        for share in self._sockets[number]:
            share.close()
        self._sockets[number] = made

    def _prepare(self, number: int) -> None:
        """Switch off offloads that would change received frames, until `close`; reports may come merged."""
        listen = self._settings.listen[number]
        if listen.kind != "mirror":
            return
        self._prepared[number] = prepare(listen.interface, change=not listen.keep_offloads)
        for line in self._prepared[number].lines:
            self._log.info(line)

    def _explain_forwarding(self) -> None:
        """Say why frames are forwarded by workers alone, if that is not what the settings ask for. Raises
        CaptureError if they ask for a program.
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
        """Have the kernel pass frames on while no worker does; `map_`: heartbeats of another sink."""
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
        """For one listener. Raises CaptureError."""
        listen = self._settings.listen[number]
        if self._bypass is not None:
            self._bypass.install(number, listen.interface, listen.output, listen.workers)

    def _renew_bypass(self, name: str) -> None:
        """An interface is another one now."""
        for number, listen in enumerate(self._settings.listen):
            if listen.output and name in (listen.interface, listen.output):
                try:
                    self._install_bypass(number)
                except CaptureError as error:  # the other interface is missing, too
                    self._log.warning("no bypass", reason=str(error))
