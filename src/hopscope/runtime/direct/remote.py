"""Behind a translator: the stores of collectors, over RoCEv2; connections that are lost are made again."""

from __future__ import annotations

import time
from collections.abc import Callable

from ...capture.udp.datagram import DatagramSocket
from ...direct.counters import TranslatorCounters
from ...direct.primitive import load
from ...direct.stores.params import OPCODE
from ...direct.stores.store import Layout, StoreError
from ...direct.translation.routes import Route, RouteError, routes_of
from ...direct.translation.translator import Translator
from ...rdma.counters import COUNTERS as RDMA_COUNTERS
from ...rdma.endpoint import Endpoint, Session
from ...rdma.memory_table import RdmaError
from ...rdma.requester import LossMode
from ...settings.direct import DirectSettings
from ...wire.layout import ROCE_PORT
from .local import Checks
from .warm import warm_rdma

SERVICE_PORT = 1330
"""Of RDMA-CM, on which a collector tells of all its stores."""
AGAIN_NS = 1_000_000_000
"""Between the loss of a connection and the next try."""
ROUNDS = 16
"""Batches of packets that one turn takes, at most."""


class RemoteStores:
    """Connections to all collectors of the settings.

    Which stores there are is learned from the first collector that tells; the others must tell the same, as
    long as one is connected.
    """

    def __init__(
        self,
        settings: DirectSettings,
        checks: Checks,
        notify: Callable[[str], object],
        *,
        port: int = ROCE_PORT,
    ) -> None:
        """Compiles, and opens the socket. Raises CaptureError; ValueError where an address is none."""
        one = settings.translator
        self._addresses = one.collectors
        self._mode = LossMode.RELIABLE if one.reliable else LossMode.RESYNC
        self._checks, self._notify = checks, notify
        self._endpoint = Endpoint(one.address)
        self._socket = DatagramSocket(one.address, port, allow=one.collectors)
        warm_rdma()
        self._socket.open()
        self._sessions: list[Session | None] = [None] * len(one.collectors)
        self._up = [False] * len(one.collectors)
        self._next_ns = [0] * len(one.collectors)
        self._stores: list[tuple[int, str, Layout]] = []
        self._translator = self._make([])
        self._made = self._lost = 0
        self._closing = False
        self._ended: dict[str, int] = {}
        self._generation = int(time.time()) & 0xFFFFFF

    @property
    def translator(self) -> Translator:
        """It is another one when collectors have told of other stores than before."""
        return self._translator

    @property
    def ready(self) -> bool:
        """Whether a collector has told of its stores."""
        return bool(self._stores)

    def turn(self) -> int:
        """Packets in, packets out; how many."""
        now, moved = time.monotonic_ns(), 0
        for _ in range(ROUNDS):
            batch = self._socket.receive()
            if batch is None:
                break
            moved += len(batch)
            self._endpoint.receive(batch, now, time.time_ns())
        for out in self._endpoint.frames(now):
            moved += len(out)
            self._socket.send(out)
        for number, session in enumerate(self._sessions):
            if session is not None and session.ready != self._up[number]:
                self._changed(number, session, now)
        return moved

    def tick(self, now_ns: int) -> None:
        """Connect to collectors that are not, where it is time to try again."""
        now = time.monotonic_ns()
        for number, session in enumerate(self._sessions):
            if session is not None and session.lost:
                self._give_up(number, session, now)
            elif session is None and now >= self._next_ns[number]:
                try:
                    self._sessions[number] = self._endpoint.connect(
                        self._addresses[number], SERVICE_PORT, now, mode=self._mode
                    )
                except RdmaError as error:
                    self._next_ns[number] = now + AGAIN_NS
                    self._notify(f"collector {self._addresses[number]}: {error}")

    def idle(self) -> bool:
        """Whether all that was submitted is acknowledged, where it can be."""
        return all(session is None or session.idle for session in self._sessions)

    def count(self, counted: TranslatorCounters) -> None:
        """Connections, and what their requesters count."""
        counted.put("dta_connections_total", self._made)
        counted.put("dta_lost_connections_total", self._lost)
        sums = dict(self._ended)
        for session in self._sessions:
            _add(sums, session)
        for one in RDMA_COUNTERS:
            counted.put(f"rdma_{one.key}", sums.get(one.key, 0))

    def close(self) -> None:
        """End the connections, and wait a little for the answers."""
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
        """A connection has become ready, or is not any more."""
        if not session.ready:
            self._give_up(number, session, now)
            return
        address = self._addresses[number]
        stores = _stores_of(session)
        if not stores:
            session.lost = "it tells of no store that is known here"
        elif stores != self._stores and not any(self._up):  # the first, or all have been made anew
            try:
                self._translator = self._make(stores)
            except RouteError as error:
                session.lost = str(error)
            except MemoryError:
                session.lost = f"there is no memory to write {_listed(stores)}"
        elif stores != self._stores:
            session.lost = f"it tells of {_listed(stores)}, the first collector of {_listed(self._stores)}"
        if session.lost:
            self._endpoint.disconnect(session, now)
            self._give_up(number, session, now)
            return
        self._stores = stores
        self._up[number] = True
        self._made += 1
        self._generation = (self._generation + 1) & 0xFFFFFF
        self._translator.fanout.connect(number, session)
        for route, writer in zip(self._translator.routes, self._translator.writers, strict=True):
            if any(collector == number for collector, _ in route.at):
                writer.begin([None] * len(route.at), self._generation)
        self._notify(f"collector {address}: connected, {_listed(stores)}")

    def _give_up(self, number: int, session: Session, now: int) -> None:
        self._lost += self._up[number] and not self._closing
        self._up[number] = False
        self._sessions[number] = None
        self._next_ns[number] = now + AGAIN_NS
        self._translator.fanout.connect(number, None)
        _add(self._ended, session)
        if not self._closing:
            self._notify(
                f"collector {self._addresses[number]}: {session.lost or 'disconnected'}; trying again"
            )

    def _make(self, stores: list[tuple[int, str, Layout]]) -> Translator:
        """A translator for these stores, none connected; what was counted goes on."""
        layouts = [layout for _, _, layout in stores]
        count = len(self._addresses)
        routes = [
            Route(
                layout=route.layout,
                at=tuple((collector, stores[target][0]) for collector, target in route.at),
                lists=route.lists,
                data_bytes=route.data_bytes,
            )
            for route in (routes_of(layouts, count) if layouts else ())
        ]
        made = Translator(
            layouts,
            [None] * count,
            routes=routes,
            limit=self._checks.limit,
            sequences=self._checks.sequences,
        )
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


def _add(sums: dict[str, int], session: Session | None) -> None:
    """Add what a session's requester has counted."""
    if session is None or session.requester is None:
        return
    for key, count in session.requester.counts().items():
        sums[key] = sums.get(key, 0) + count
    sums["given_up_verbs_total"] = sums.get("given_up_verbs_total", 0) + session.given_up
