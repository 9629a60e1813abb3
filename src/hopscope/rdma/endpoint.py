"""A RoCEv2 endpoint: the packets and connections of one address, without sockets and clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..memory.region import Region
from ..wire.address import number_of
from ..wire.records import FrameBatch, Records
from ..wire.roce.cm import CM_QUEUE_PAIR, CmReject
from ..wire.roce.frames import RoceFrames
from ..wire.roce.records import ROCE, Opcode, RoceFlag
from . import management
from .advertisement import Advertisement, AdvertisementError, Renewal, decode_moved
from .connection import Accept, Connection, ConnectionState, service_of
from .handshake import Connections
from .memory_table import MemoryTable, RdmaError
from .queue_pair import QueuePairs
from .records import PairState, Service, VerbBlock
from .reorder import ReorderBuffer
from .requester import LossMode, PeerLink, Requester
from .responder import Responder

Advertise = Callable[[Connection], list[bytes]]
"""Makes the advertisement for a new peer. Raises ValueError if it does not fit its path MTU."""
BUFFERS = 2048
"""Receive buffers for messages that a peer sends between two calls of `receive`: more than one batch of
datagrams.
"""
ANSWERS = 64
"""Receive buffers of a passive connection, for answers to renewals."""
MAX_OF_PEER = 16
"""Maximum connections from one peer; a further one ends the oldest."""
ATOMICS = 255
"""Maximum atomics in flight that RDMA-CM can grant."""
CNP_BYTES = np.zeros(16, np.uint8)
_CNP_NS = 50_000
"""Minimum interval of congestion notifications to one peer."""
_ADVERTISE_TIMEOUT_NS = 2_000_000_000
_LOW_64 = (1 << 64) - 1


@dataclass(slots=True)
class Session:
    """One connection of an endpoint; on the active side a Transport to the peer's memories."""

    connection: Connection
    mode: LossMode = LossMode.RELIABLE
    settings: Mapping[str, Any] = field(default_factory=dict)
    messages: list[bytes] = field(default_factory=list)
    """Advertisement for the active peer."""
    requester: Requester | None = None
    advertisement: Advertisement = field(default_factory=Advertisement)
    """Memory regions of the peer; target numbers are region numbers."""
    ready: bool = False
    """Whether all regions are known, so that verbs are accepted."""
    lost: str = ""
    """Reason for which it ended; empty while it is up."""
    given_up: int = 0
    """Verbs submitted after it had ended."""
    wait_ns: int = 0
    """Deadline of the peer's advertisement."""
    renewed: list[int] = field(default_factory=list)
    """Active: regions that moved to a new epoch; the owner of the writers takes them before it submits more
    verbs.
    """
    moved: dict[int, int] = field(default_factory=dict)
    """Passive: the epoch to which the peer has moved, by region number."""
    next_psn: int = 0
    """PSN of the next packet, while there is no requester."""

    def room(self) -> int:
        """Number of verbs that it accepts now."""
        return self.requester.room() if self.ready and self.requester is not None else 0

    def submit(self, block: VerbBlock) -> None:
        """Accept all verbs of the block."""
        if self.ready and self.requester is not None:
            self.requester.submit(block)
        else:
            self.given_up += len(block)

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return self.requester is None or self.requester.idle


class Endpoint:
    """Makes and accepts connections for one address, sends packets and answers them.

    The owner passes received datagrams to `receive`, and sends those of `frames`. Raises ValueError unless
    `own` is a single address.
    """

    def __init__(
        self, own: str, *, table: MemoryTable | None = None, notices: Region | None = None,
        any_ip_id: bool = False, any_icrc: bool = False,
    ) -> None:  # fmt: skip
        self.packets = 0
        self.answers = 0
        self.notifications = 0
        """Congestion notifications sent."""
        self.table = MemoryTable() if table is None else table
        self.pairs = QueuePairs()
        self.responder = Responder(self.table, self.pairs, notices)
        self.services: dict[int, Callable[[Connection], Accept | CmReject]] = {}
        self.connections = Connections(number_of(own), self.services)
        self.sessions: dict[int, Session] = {}
        """Sessions by own queue pair."""
        self._reorder = ReorderBuffer(self.pairs, self.responder.counts)
        self._advertise: dict[int, Advertise] = {}
        self._codec = RoceFrames(own, any_ip_id=any_ip_id, any_icrc=any_icrc)
        self._out: list[FrameBatch] = []
        self._cm_psn = self._now_ns = 0
        self._notified_ns: dict[int, int] = {}

    def serve(self, port: int, advertise: Advertise) -> None:
        """Accept connections to this port of RDMA-CM, and send each new peer an advertisement."""
        self.services[service_of(port)] = self._accept
        self._advertise[service_of(port)] = advertise

    def connect(
        self, peer: str, port: int, now_ns: int, *, mode: LossMode = LossMode.RELIABLE, path_mtu: int = 1024,
        **settings: Any,
    ) -> Session:  # fmt: skip
        """Request a connection; `settings` are passed to the Requester. Raises RdmaError if there are too
        many connections.
        """
        service = Service.UC if mode is LossMode.UNRELIABLE else Service.RC
        number = self.pairs.create(service=service, receives=BUFFERS)
        connection = self.connections.connect(
            number_of(peer), service_of(port), number, secrets.randbits(24), now_ns,
            reliable=mode is not LossMode.UNRELIABLE, path_mtu=path_mtu, atomics=ATOMICS,
        )  # fmt: skip
        session = self.sessions[number] = Session(connection, mode, settings)
        return session

    def disconnect(self, session: Session, now_ns: int) -> None:
        """End a connection."""
        self.connections.disconnect(session.connection, now_ns)
        self._changed(now_ns)

    def send(self, session: Session, message: bytes) -> None:
        """Send a message to a peer; if it is not connected yet, after the advertisement."""
        if session.connection.state is ConnectionState.REPLIED:
            session.messages.append(message)
        elif session.connection.state is ConnectionState.ESTABLISHED:
            if session.requester is None:
                self._make_requester(session, session.next_psn)
            assert session.requester is not None
            session.requester.send(message)

    def renew(self, port: int, renewal: Renewal) -> list[Session]:
        """Announce a new epoch to all peers of a service; returns the sessions that must move."""
        peers = [
            session
            for session in self.sessions.values()
            if session.connection.service == service_of(port)
            and not session.connection.active
            and session.connection.state in (ConnectionState.REPLIED, ConnectionState.ESTABLISHED)
        ]
        for session in peers:
            self.send(session, renewal.encode())
        return peers

    def receive(self, batch: FrameBatch, now_ns: int, time_ns: int) -> None:
        """Process received datagrams.

        `now_ns`: monotonic; `time_ns`: since 1970. Reordering within a batch has no cost, and a lost packet
        does not cause those after it to be lost.
        """
        self._now_ns = now_ns
        rows = self._codec.parse(batch)
        self.packets += len(rows)
        managed = rows["queue_pair"] == CM_QUEUE_PAIR
        if managed.any():
            management.receive(self.connections, rows[managed], batch.arena, now_ns)
            self._changed(now_ns)
        rows, arena = self._reorder.join(self.pairs.in_order(rows), batch.arena)
        answers = self.responder.execute(rows, arena, time_ns)
        self._reorder.keep(rows, arena)
        if len(answers):
            self.answers += len(answers)
            self._out.append(self._codec.build(answers, CNP_BYTES))
        if (rows["flags"] & RoceFlag.FECN).any():
            self._notify(rows, now_ns)
        for session in list(self.sessions.values()):
            if session.requester is not None:
                session.requester.receive(rows, now_ns)
            self._step(session, now_ns)
        self._changed(now_ns)

    def frames(self, now_ns: int) -> list[FrameBatch]:
        """Frames to send now; `source_*` of a frame is its receiver. They own their memory."""
        for session in list(self.sessions.values()):
            self._check(session, now_ns)
        messages = self.connections.outgoing(now_ns)
        self._changed(now_ns)
        out, self._out = self._out, []
        if messages:
            rows, payload = management.packets(messages, self._cm_psn)
            self._cm_psn = (self._cm_psn + len(rows)) & 0xFFFFFF
            out.append(self._codec.build(rows, payload))
        for session in self.sessions.values():
            while session.requester is not None:
                sent = session.requester.packets(now_ns)
                if sent is None:
                    break
                out.append(self._codec.build(*sent))
        return out

    def _accept(self, connection: Connection) -> Accept | CmReject:
        """Handle a connection request."""
        try:
            messages = self._advertise[connection.service](connection)
        except ValueError:
            return CmReject.INVALID_MTU
        try:
            service = Service.RC if connection.reliable else Service.UC
            number = self.pairs.create(service=service, receives=ANSWERS)
        except RdmaError:
            return CmReject.NO_RESOURCES
        self._limit_half_open(connection)
        connection.queue_pair, connection.psn = number, secrets.randbits(24)
        mode = LossMode.RELIABLE if connection.reliable else LossMode.UNRELIABLE
        session = self.sessions[number] = Session(connection, mode, messages=messages)
        self._join(session)
        return Accept(number, connection.psn)

    def _limit_half_open(self, connection: Connection) -> None:
        """Before a request of a peer with too many connections is accepted, end its oldest half-open
        connection.

        Established connections are not ended, since anyone could send requests in a peer's name.
        """
        half_open, established = self._passive_of(connection.peer)
        if half_open and len(half_open) + len(established) >= MAX_OF_PEER:
            self._end_oldest(half_open)

    def _limit_established(self, connection: Connection) -> None:
        """End the oldest connection of a peer with too many established ones, since a killed peer closes
        none.
        """
        _, established = self._passive_of(connection.peer)
        if len(established) > MAX_OF_PEER:
            self._end_oldest(established)

    def _passive_of(self, peer: int) -> tuple[list[Session], list[Session]]:
        """Half-open and established passive connections of a peer, the oldest first."""
        of_peer = [
            session
            for session in self.sessions.values()
            if session.connection.peer == peer and not session.connection.active
        ]
        half_open = [one for one in of_peer if one.connection.state is ConnectionState.REPLIED]
        return half_open, [one for one in of_peer if one not in half_open]

    def _end_oldest(self, sessions: list[Session]) -> None:
        self.connections.disconnect(sessions[0].connection, self._now_ns)
        self._end(sessions[0], "replaced by newer connections of its peer")

    def _join(self, session: Session) -> None:
        """Start to accept packets: both ends know each other's numbers."""
        connection = session.connection
        peer = connection.peer >> 64, connection.peer & _LOW_64
        number, mtu = connection.queue_pair, connection.path_mtu
        self.pairs.connect(
            number, peer, connection.remote_queue_pair, connection.remote_psn, mtu=mtu
        )  # fmt: skip
        self._make_requester(session, connection.psn)

    def _make_requester(self, session: Session, psn: int) -> None:
        connection = session.connection
        peer = connection.peer >> 64, connection.peer & _LOW_64
        link = PeerLink(connection.queue_pair, peer, connection.remote_queue_pair, psn, connection.path_mtu)
        settings = {"atomics": max(1, min(connection.atomics, ATOMICS)), **session.settings}
        if not connection.active:
            settings.update(packets=256, payload_bytes=1 << 18)
        session.requester = Requester(link, mode=session.mode, **settings)

    def _changed(self, now_ns: int) -> None:
        """Handle established and closed connections."""
        for connection in self.connections.changes():
            session = self.sessions.get(connection.queue_pair)
            if session is None or session.connection is not connection:
                continue
            if connection.state is not ConnectionState.ESTABLISHED:
                self._end(session, connection.why)
            elif connection.active:
                self._join(session)
                session.wait_ns = now_ns + _ADVERTISE_TIMEOUT_NS
            else:
                self._limit_established(connection)
                if session.requester is not None:
                    for message in session.messages:
                        session.requester.send(message)

    def _end(self, session: Session, why: str) -> None:
        number = session.connection.queue_pair
        failed = "" if session.requester is None else session.requester.failed
        session.lost, session.ready = session.lost or failed or why, False
        if session.requester is not None:
            session.requester.give_up(why)
        self.sessions.pop(number, None)
        self._notified_ns.pop(number, None)
        self._reorder.forget(number)
        self.pairs.close(number)

    def _step(self, session: Session, now_ns: int) -> None:
        """Handle the effects of a batch of packets on a connection."""
        connection, number = session.connection, session.connection.queue_pair
        replied = connection.state is ConnectionState.REPLIED
        if replied and self.pairs.of(number)["expected_psn"] != connection.remote_psn:
            self.connections.confirm(connection)
        inbox = self.pairs.inbox[number]
        while inbox and connection.state is ConnectionState.ESTABLISHED:
            message = inbox.popleft()
            self.pairs.of(number)["receives"] += 1
            if not connection.active:
                if moved := decode_moved(message):
                    session.moved[moved[0]] = moved[1]
                continue
            try:
                self._take(session, message)
            except AdvertisementError as error:
                session.lost = str(error)
                self.connections.disconnect(connection, now_ns)
                return

    def _take(self, session: Session, message: bytes) -> None:
        """Read a message of a peer that advertises regions. Raises AdvertisementError."""
        advertisement, requester = session.advertisement, session.requester
        if requester is None:
            return
        if not session.ready:
            session.ready = advertisement.take(message)
            if session.ready:
                for _, region in sorted(advertisement.regions.items()):
                    access = region.access or 3
                    requester.add_target(region.address, region.length, region.key, access)
                requester.add_spares()
        elif renewal := advertisement.renew(message):
            requester.retarget(renewal.number, renewal.address, renewal.key)
            requester.send(renewal.moved)
            session.renewed.append(renewal.number)

    def _check(self, session: Session, now_ns: int) -> None:
        """End a lost connection; drop the requester of a connection that only receives."""
        connection, requester = session.connection, session.requester
        if connection.state is not ConnectionState.ESTABLISHED:
            return
        if requester is not None and requester.failed and not session.lost:
            session.lost, session.ready = requester.failed, False
            self.connections.disconnect(connection, now_ns)
        elif self.pairs.of(connection.queue_pair)["state"] == PairState.ERROR and not session.lost:
            session.lost = "a request of the peer was rejected"
            self.connections.disconnect(connection, now_ns)
        elif not connection.active and requester is not None and requester.idle:
            session.requester, session.next_psn = None, requester.next_psn
        elif connection.active and not session.ready and now_ns > session.wait_ns and not session.lost:
            session.lost = "the peer advertised no memory regions"
            self.connections.disconnect(connection, now_ns)

    def _notify(self, rows: Records, now_ns: int) -> None:
        """Send congestion notifications to peers whose packets are marked (RoCEv2, annex A17.9.3)."""
        marked = rows[(rows["flags"] & RoceFlag.FECN != 0) & (rows["reason"] == 0)]
        for number in np.unique(marked["queue_pair"]).tolist():
            session = self.sessions.get(number)
            if session is None or now_ns < self._notified_ns.get(number, 0) + _CNP_NS:
                continue
            self._notified_ns[number] = now_ns
            row: Records = np.zeros(1, ROCE)
            pair = self.pairs.of(number)
            row["opcode"], row["flags"], row["payload_bytes"] = Opcode.CNP, RoceFlag.BECN, len(CNP_BYTES)
            row["queue_pair"], row["partition"] = pair["peer_number"], pair["partition"]
            row["source_hi"], row["source_lo"] = pair["peer_hi"], pair["peer_lo"]
            self._out.append(self._codec.build(row, CNP_BYTES))
            self.notifications += 1
