"""A translator's output to the stores of collectors, over RoCEv2; it reconnects lost connections."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ...capture.udp.datagram import DatagramSocket
from ...direct.primitive import WriterStart, load
from ...direct.stores.params import OPCODE
from ...direct.stores.spec import described
from ...direct.stores.store import Layout, StoreError
from ...direct.translation.routes import RouteError, routes_of
from ...direct.translation.translator import Translator
from ...rdma.advertisement import ALIVE, SERVICE_PORT
from ...rdma.endpoint import Endpoint, Session
from ...rdma.memory_table import RdmaError
from ...rdma.requester import LossMode
from ...settings.direct import DirectSettings
from ...wire.roce.layout import ROCE_PORT
from .output import TranslatorOptions
from .warm import warm_rdma

RETRY_NS = 1_000_000_000
"""Pause between the loss of a connection and the next attempt."""
ALIVE_NS = 5_000_000_000
"""A connection is probed when it has been idle for this time."""
ROUNDS = 16
"""Maximum number of batches of packets that one turn receives."""


class RemoteStores:
    """Connections to all collectors of the settings. Each address in the settings holds one share of the
    keys, so a collector that is named several times holds several shares.

    The first collector to connect announces the stores; while one is connected, the others must announce the
    same stores.
    """

    stores = transport = generation = None

    def __init__(
        self,
        settings: DirectSettings,
        options: TranslatorOptions,
        notify: Callable[[str], object],
    ) -> None:
        """Compiles kernels, and opens the socket. Raises CaptureError, and ValueError for a bad address."""
        translator = settings.translator
        self._addresses = tuple(dict.fromkeys(translator.collectors))
        self._shares = [self._addresses.index(address) for address in translator.collectors]
        self._mode = LossMode.RELIABLE if translator.reliable else LossMode.RESYNC
        self._options, self._notify = options, notify
        self._endpoint = Endpoint(translator.address)
        self._socket = DatagramSocket(translator.address, ROCE_PORT, allow=translator.collectors)
        warm_rdma()
        self._socket.open()
        self._sessions: list[Session | None] = [None] * len(self._addresses)
        self._up = [False] * len(self._addresses)
        self._next_ns = [0] * len(self._addresses)
        self._idle_ns = [0] * len(self._addresses)
        self._said = [""] * len(self._addresses)
        self._stores: list[tuple[int, str, Layout]] = []
        self._translator = self._make([])
        self.connections = Counter(made=0, lost=0)
        """How many connections were made, and how many were lost without either side disconnecting."""
        self._closing = False
        self._ended: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._generation = int(time.time()) & 0xFFFFFF

    @property
    def translator(self) -> Translator:
        """The translator; it is replaced when collectors announce different stores."""
        return self._translator

    @property
    def ready(self) -> bool:
        """Whether a collector has announced its stores."""
        return bool(self._stores)

    def turn(self) -> int:
        """Receive and send packets; returns how many."""
        now, moved = time.monotonic_ns(), 0
        for _ in range(ROUNDS):
            batch = self._socket.receive()
            if batch is None:
                break
            moved += len(batch)
            self._endpoint.receive(batch, now, time.time_ns())
        for number, session in enumerate(self._sessions):
            if session is not None and session.ready and self._up[number]:
                self._renew(number, session)
        for out in self._endpoint.frames(now):
            moved += len(out)
            self._socket.send(out)
        for number, session in enumerate(self._sessions):
            if session is not None and session.ready != self._up[number]:
                self._changed(number, session, now)
        return moved

    def tick(self, now_ns: int) -> None:
        """Connect to collectors that are not connected, if it is time to try again."""
        now = time.monotonic_ns()
        for number, session in enumerate(self._sessions):
            if session is not None and session.lost:
                self._give_up(number, session, now)
            elif session is not None and session.ready:
                self._keep_alive(number, session, now)
            elif session is None and now >= self._next_ns[number]:
                try:
                    self._sessions[number] = self._endpoint.connect(
                        self._addresses[number], SERVICE_PORT, now, mode=self._mode
                    )
                except RdmaError as error:
                    self._next_ns[number] = now + RETRY_NS
                    self._say(number, str(error))

    def continue_counters(self, other: RemoteStores) -> None:
        """Continue the counters of another output, which is closed."""
        self._translator.continue_counters(other._translator)
        self.connections.update(other.connections)
        self._ended += other.requesters
        self._received += other.received

    def idle(self) -> bool:
        """Whether all submitted writes are acknowledged; those of lost connections are not counted."""
        return all(session is None or session.idle for session in self._sessions)

    @property
    def requesters(self) -> Counter[str]:
        """Sums over the requesters of all connections, by key of `rdma.counters.COUNTERS`."""
        return sum((_counts(session) for session in self._sessions), self._ended)

    @property
    def received(self) -> Counter[str]:
        """Counts of packets from collectors, of rejected packets, and of datagrams from other addresses."""
        return self._received + Counter(
            packets=self._endpoint.packets,
            rejected=int(self._endpoint.responder.counts[1:].sum()),
            denied=self._socket.counts()["denied_frames_total"],
        )

    def close(self) -> None:
        """End the connections, and wait briefly for the answers."""
        self._closing = True
        now = time.monotonic_ns()
        for session in self._sessions:
            if session is not None:
                self._endpoint.disconnect(session, now)
        until = now + 200_000_000
        while self._endpoint.sessions and time.monotonic_ns() < until:
            if not self.turn():
                time.sleep(0.001)
        self._socket.close()

    def _changed(self, number: int, session: Session, now: int) -> None:
        """React to a connection that has become ready or was lost."""
        if not session.ready:
            self._give_up(number, session, now)
            return
        stores = _stores_of(session)
        if not stores:
            session.lost = "it announces no store that is known here"
        elif stores != self._stores and not any(self._up):  # the first, or all are new
            try:
                self._translator = self._make(stores)
            except (RouteError, StoreError) as error:
                session.lost = str(error)
            except MemoryError:
                session.lost = f"not enough memory to write {_listed(stores)}"
        elif stores != self._stores:
            session.lost = (
                f"it announces {_described(stores)}, the first collector {_described(self._stores)}"
            )
        if session.lost:
            self._endpoint.disconnect(session, now)
            self._give_up(number, session, now)
            return
        self._stores = stores
        self._up[number] = True
        self.connections["made"] += 1
        self._translator.fanout.connect(number, session)
        session.renewed = list(session.advertisement.regions)
        self._renew(number, session)
        self._say(number, f"connected, {_listed(stores)}")

    def _renew(self, number: int, session: Session) -> None:
        """Start using a collector's regions that have new memory, or that belong to a new connection."""
        if not session.renewed:
            return
        regions, session.renewed = session.renewed, []
        advertised = session.advertisement
        self._generation = (self._generation + 1) & 0xFFFFFF
        for route, writer in zip(self._translator.routes, self._translator.writers, strict=True):
            for which, (collector, target) in enumerate(route.at):
                if collector == number and target in regions:
                    progress = bytes(advertised.progress.get(target, b""))
                    epoch = advertised.regions[target].epoch
                    writer.begin(which, WriterStart(self._generation, None, epoch, progress))
        for target in regions:
            advertised.progress.pop(target, None)

    def _keep_alive(self, number: int, session: Session, now: int) -> None:
        """Probe an idle collector; its requester reports the connection lost if there is no answer."""
        if not session.idle:
            self._idle_ns[number] = now
        elif now - self._idle_ns[number] >= ALIVE_NS:
            self._idle_ns[number] = now
            self._endpoint.send(session, ALIVE)

    def _give_up(self, number: int, session: Session, now: int) -> None:
        self.connections["lost"] += self._up[number] and not self._closing
        self._up[number] = False
        self._sessions[number] = None
        self._next_ns[number] = now + RETRY_NS
        self._translator.fanout.connect(number, None)
        self._ended += _counts(session)
        if not self._closing:
            self._say(number, f"{session.lost or 'disconnected'}; trying again")

    def _say(self, number: int, line: str) -> None:
        """Notify about a collector, unless the line is the same as its last one."""
        if line != self._said[number]:
            self._said[number] = line
            self._notify(f"collector {self._addresses[number]}: {line}")

    def _make(self, stores: list[tuple[int, str, Layout]]) -> Translator:
        """A translator for these stores, none of them connected; it continues the counters."""
        layouts = [layout for _, _, layout in stores]
        names = [name for _, name, _ in stores]
        routes = [
            replace(route, at=tuple((collector, stores[target][0]) for collector, target in route.at))
            for route in (
                routes_of(layouts, names=names, rules=self._options.rules, shares=self._shares)
                if layouts
                else ()
            )
        ]
        made = self._options.translator(layouts, [None] * len(self._addresses), routes)
        if layouts:
            made.continue_counters(self._translator)
        return made


def _stores_of(session: Session) -> list[tuple[int, str, Layout]]:
    """Number, name and layout of the regions that are stores of known primitives."""
    primitives, found = load(), []
    for number, region in sorted(session.advertisement.regions.items()):
        params = region.array()
        primitive = primitives.get(int(params[OPCODE]))
        if primitive is None:
            continue
        try:
            layout = primitive.layout.of(params)
        except StoreError:
            continue
        if layout.nbytes <= region.length:
            found.append((number, region.name, layout))
    return found


def _listed(stores: list[tuple[int, str, Layout]]) -> str:
    return ", ".join(f"{name} ({layout.name})" for _, name, layout in stores) or "no stores"


def _described(stores: list[tuple[int, str, Layout]]) -> str:
    return " ".join(f"{name}={described(layout)}" for _, name, layout in stores)


def _counts(session: Session | None) -> Counter[str]:
    """Counters of a session's requester."""
    if session is None or session.requester is None:
        return Counter()
    return Counter(session.requester.counts()) + Counter(given_up_verbs_total=session.given_up)
