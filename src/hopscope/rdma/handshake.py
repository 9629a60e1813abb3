"""Connections by RDMA-CM: requesting, accepting and closing them, without sockets and clock.

Each side has one `Connections`. The active side repeats its REQ until a REP or REJ arrives, the passive side
its REP until the RTU arrives, and either side its DREQ until the DREP arrives (InfiniBand 12.9). All state is
here; `management` turns messages into packets.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..wire.roce.cm import (
    MTUS,
    Addresses,
    CmReject,
    Disconnect,
    Disconnected,
    Message,
    Ready,
    Reject,
    Reply,
    Request,
    pull_addresses,
    push_addresses,
    reject_label,
)
from .connection import (
    Accept,
    Acceptor,
    CmCounters,
    Connection,
    ConnectionState,
    HandshakeLimits,
    reject_reason,
)

_CODES = {mtu: code for code, mtu in MTUS.items()}
_LOW_32 = 0xFFFFFFFF
_NEITHER = 2
"""`rejected` of a REJ that answers neither a REQ nor a REP."""
_LONGEST_NS = 2_000_000_000
"""Maximum interval of retransmissions, and the time that a closed connection still accepts late messages."""


@dataclass(slots=True)
class Connections:
    """All connections of one address."""

    own: int
    """Address, 128 bits."""
    services: Mapping[int, Acceptor] = field(default_factory=dict)
    """Functions that accept requests, by service id."""
    limits: HandshakeLimits = field(default_factory=HandshakeLimits)
    rng: random.Random = field(default_factory=random.SystemRandom)
    """Source of unpredictable connection numbers, so that others cannot end a connection."""
    counters: CmCounters = field(default_factory=CmCounters)
    _by_id: dict[int, Connection] = field(default_factory=dict)
    _passive: dict[tuple[int, int, int], Connection] = field(default_factory=dict)
    """Passive connections by peer, its number and transaction, since a restarted peer may reuse a number."""
    _out: list[tuple[int, Message]] = field(default_factory=list)
    _changed: list[Connection] = field(default_factory=list)
    _next_ns: int = 0

    def connect(
        self, peer: int, service: int, queue_pair: int, psn: int, now_ns: int, *,
        reliable: bool = True, path_mtu: int = 1024, private: bytes = b"", atomics: int = 16,
    ) -> Connection:  # fmt: skip
        """Request a connection to `peer`; `changes` reports the result.

        `private`: at most 56 bytes. `atomics`: maximum in flight, at most 255. Raises ValueError for an MTU
        that is not one of 256 … 4096, or longer data.
        """
        if path_mtu not in _CODES:
            raise ValueError(f"path MTU: found {path_mtu}, expected one of {', '.join(map(str, _CODES))}")
        if len(private) > 56:
            raise ValueError(f"{len(private)} bytes of private data, expected at most 56")
        connection = Connection(
            peer, service, reliable, path_mtu, queue_pair, psn, atomics=atomics, active=True
        )
        self._number(connection)
        connection.transaction = self.rng.getrandbits(64)
        six = self.own >> 32 != 0xFFFF
        mask = (1 << 128) - 1 if six else _LOW_32
        addresses = Addresses(
            ip_version=6 if six else 4, source_port=self.rng.randrange(32_768, 61_000),
            source=self.own & mask, destination=peer & mask,
        )  # fmt: skip
        request = Request(
            transaction=connection.transaction, local_id=connection.local_id, service=service,
            queue_pair=queue_pair, psn=psn, service_type=0 if reliable else 1, flow_control=int(reliable),
            path_mtu=_CODES[path_mtu], responder_resources=connection.atomics,
            initiator_depth=connection.atomics, retries=7, not_ready_retries=7,
            cm_retries=min(self.limits.repeats, 15), remote_timeout=16, local_timeout=16,
            primary_local_gid=self.own, primary_remote_gid=peer, primary_subnet_local=1,
            primary_ack_timeout=14, private=push_addresses(addresses, private),
        )  # fmt: skip
        self._send(connection, request, ConnectionState.REQUESTED, now_ns)
        return connection

    def disconnect(self, connection: Connection, now_ns: int) -> None:
        """End a connection; forget one that is not established yet."""
        if connection.state is ConnectionState.ESTABLISHED or connection.state is ConnectionState.REPLIED:
            message = Disconnect(
                transaction=self.rng.getrandbits(64), local_id=connection.local_id,
                remote_id=connection.remote_id, queue_pair=connection.remote_queue_pair,
            )  # fmt: skip
            self._send(connection, message, ConnectionState.DISCONNECTING, now_ns)
        elif connection.state is ConnectionState.REQUESTED:
            self._close(connection, "given up", now_ns)

    def confirm(self, connection: Connection) -> None:
        """Note that a packet arrived on the connection's queue pair: the peer has the REP, even if its RTU
        was lost.
        """
        if connection.state is ConnectionState.REPLIED:
            self._establish(connection)

    def changes(self) -> list[Connection]:
        """Connections that became ESTABLISHED or CLOSED since the last call, in order of time."""
        changed, self._changed = self._changed, []
        return changed

    def outgoing(self, now_ns: int) -> list[tuple[int, Message]]:
        """(address, message) of all messages to send now, retransmissions included."""
        if now_ns >= self._next_ns:
            for connection in list(self._by_id.values()):
                if now_ns >= connection.due_ns > 0:
                    self._overdue(connection, now_ns)
            due = [connection.due_ns for connection in self._by_id.values() if connection.due_ns]
            self._next_ns = min(due, default=1 << 63)
        out, self._out = self._out, []
        return out

    def receive(self, peer: int, message: Message, now_ns: int) -> None:
        """Process a message of the peer at this address."""
        if isinstance(message, Request):
            self._request(peer, message, now_ns)
            return
        connection = self._by_id.get(message.remote_id)  # type: ignore[attr-defined]  # all but REQ have it
        if connection is not None and connection.peer != peer:
            connection = None
        if isinstance(message, Reply):
            self._reply(peer, connection, message, now_ns)
        elif isinstance(message, Reject):
            self._rejected(connection, message, now_ns)
        elif connection is None or connection.remote_id != message.local_id:
            self.counters.unknown += 1
            if isinstance(message, Disconnect):  # the answer stops the peer's retransmissions
                self._out.append((peer, _disconnected(message)))
        elif isinstance(message, Ready):
            if connection.state is ConnectionState.REPLIED:
                self._establish(connection)
            else:
                self.counters.duplicates += 1
        elif isinstance(message, Disconnect):
            self._disconnected(connection, message, now_ns)
        elif connection.state is ConnectionState.DISCONNECTING:
            self._close(connection, "disconnected", now_ns)
        else:
            self.counters.duplicates += 1

    def _request(self, peer: int, message: Request, now_ns: int) -> None:
        known = self._passive.get((peer, message.local_id, message.transaction))
        if known is not None:
            self.counters.duplicates += 1
            if known.message is not None and known.state in (
                ConnectionState.REPLIED,
                ConnectionState.ESTABLISHED,
            ):
                self._out.append((peer, known.message))
            return
        acceptor = self.services.get(message.service)
        why = reject_reason(message, acceptor is not None, self.limits)
        connection = Connection(
            peer, message.service, message.service_type == 0, MTUS.get(message.path_mtu, 0),
            remote_queue_pair=message.queue_pair, remote_psn=message.psn, remote_id=message.local_id,
            atomics=message.initiator_depth, transaction=message.transaction, state=ConnectionState.REPLIED,
            private=pull_addresses(message.private)[1].rstrip(b"\0"),
        )  # fmt: skip
        if why is None:
            full = not self._make_room(peer, now_ns) or len(self._by_id) >= self.limits.connections
            answer = CmReject.NO_RESOURCES if full or acceptor is None else acceptor(connection)
            if isinstance(answer, Accept):
                self._accept(connection, answer, now_ns)
                return
            why = answer
        self.counters.rejected += 1
        # the largest MTU that the peer may request instead
        info = _CODES[self.limits.path_mtu] << 568 if why is CmReject.INVALID_MTU else 0
        reject = Reject(
            transaction=message.transaction, remote_id=message.local_id, reason=why, info=info,
            info_length=1 if info else 0,
        )  # fmt: skip
        self._out.append((peer, reject))

    def _accept(self, connection: Connection, answer: Accept, now_ns: int) -> None:
        self._number(connection)
        connection.begun_ns = now_ns
        self._passive[connection.peer, connection.remote_id, connection.transaction] = connection
        connection.queue_pair, connection.psn = answer.queue_pair, answer.psn
        reply = Reply(
            transaction=connection.transaction, local_id=connection.local_id, remote_id=connection.remote_id,
            queue_pair=answer.queue_pair, psn=answer.psn, responder_resources=connection.atomics,
            initiator_depth=connection.atomics, flow_control=int(connection.reliable), not_ready_retries=7,
            private=answer.private,
        )  # fmt: skip
        self._send(connection, reply, ConnectionState.REPLIED, now_ns)

    def _make_room(self, peer: int, now_ns: int) -> bool:
        """Forget a half-open connection if there are too many; returns whether this peer may have another
        one.

        A sender that uses another's address never gets the REP, so its connections stay half open. A
        connection of the peer with the most half-open ones makes room for a peer with fewer, else the oldest
        whose time is over.
        """
        waiting = [known for known in self._passive.values() if known.state is ConnectionState.REPLIED]
        if len(waiting) < self.limits.half_open:
            return True
        count = Counter(known.peer for known in waiting)
        most, number = max(count.items(), key=lambda item: item[1])
        if number > count[peer] + 1:
            oldest = next(known for known in waiting if known.peer == most)
        else:
            oldest = waiting[0]
            if now_ns - oldest.begun_ns < self.limits.half_open_ns:
                return False
        oldest.state, oldest.why = ConnectionState.CLOSED, "another request needed its place"
        self.counters.closed += 1
        self._changed.append(oldest)
        self._forget(oldest)
        return True

    def _replace(self, connection: Connection) -> None:
        """Close older connections of a peer that has established a new one for the same queue pair, since it
        has restarted.
        """
        for known in list(self._passive.values()):
            same = known.peer == connection.peer and known.remote_queue_pair == connection.remote_queue_pair
            alive = known.state in (ConnectionState.REPLIED, ConnectionState.ESTABLISHED)
            if same and alive and known is not connection:
                self._close(known, "replaced by a new connection of its peer", connection.begun_ns)

    def _reply(self, peer: int, connection: Connection | None, message: Reply, now_ns: int) -> None:
        if (
            connection is not None
            and connection.state is ConnectionState.REQUESTED
            and message.queue_pair >= 2
        ):
            connection.remote_id = message.local_id
            connection.remote_queue_pair, connection.remote_psn = message.queue_pair, message.psn
            connection.atomics = min(connection.atomics, message.responder_resources)
            connection.private = message.private
            connection.message = Ready(
                transaction=message.transaction, local_id=connection.local_id, remote_id=message.local_id
            )
            self._out.append((peer, connection.message))
            self._establish(connection)
        elif (
            connection is not None and connection.active and connection.message is not None
            and connection.state is ConnectionState.ESTABLISHED and connection.remote_id == message.local_id
        ):  # fmt: skip
            self.counters.duplicates += 1
            self._out.append((peer, connection.message))
        else:
            self.counters.unknown += 1
            reject = Reject(
                transaction=message.transaction, local_id=message.remote_id, remote_id=message.local_id,
                rejected=1, reason=CmReject.INVALID_ID,
            )  # fmt: skip
            self._out.append((peer, reject))
            if connection is not None and connection.state is ConnectionState.REQUESTED:
                self._close(connection, f"the peer offers queue pair {message.queue_pair}", now_ns)

    def _rejected(self, connection: Connection | None, message: Reject, now_ns: int) -> None:
        if connection is None or connection.state is ConnectionState.CLOSED:
            self.counters.unknown += 1
        elif connection.state is ConnectionState.REQUESTED or connection.remote_id == message.local_id:
            self._close(connection, f"rejected: {reject_label(message.reason)}", now_ns)
        else:
            self.counters.unknown += 1

    def _disconnected(self, connection: Connection, message: Disconnect, now_ns: int) -> None:
        if connection.queue_pair != message.queue_pair:
            self.counters.unknown += 1
            return
        self._out.append((connection.peer, _disconnected(message)))
        if connection.state is ConnectionState.CLOSED:
            self.counters.duplicates += 1
        else:
            self._close(connection, "disconnected by the peer", now_ns)

    def _number(self, connection: Connection) -> None:
        """Assign a local connection number."""
        while not connection.local_id or connection.local_id in self._by_id:
            connection.local_id = self.rng.getrandbits(32)
        self._by_id[connection.local_id] = connection

    def _send(self, connection: Connection, message: Message, state: ConnectionState, now_ns: int) -> None:
        """Send a message, and retransmit it until it is answered."""
        connection.message, connection.state, connection.tries = message, state, 0
        self._out.append((connection.peer, message))
        self._wait(connection, now_ns, self.limits.timeout_ns)

    def _wait(self, connection: Connection, now_ns: int, time_ns: int) -> None:
        connection.due_ns = now_ns + time_ns
        self._next_ns = min(self._next_ns, connection.due_ns)

    def _establish(self, connection: Connection) -> None:
        connection.state, connection.due_ns = ConnectionState.ESTABLISHED, 0
        self.counters.established += 1
        if not connection.active:
            self._replace(connection)
        self._changed.append(connection)

    def _close(self, connection: Connection, why: str, now_ns: int) -> None:
        connection.state, connection.why = ConnectionState.CLOSED, why
        self.counters.closed += 1
        self._changed.append(connection)
        self._wait(connection, now_ns, _LONGEST_NS)

    def _forget(self, connection: Connection) -> None:
        del self._by_id[connection.local_id]
        self._passive.pop((connection.peer, connection.remote_id, connection.transaction), None)

    def _overdue(self, connection: Connection, now_ns: int) -> None:
        """Handle a timeout: retransmit, or close."""
        if connection.state is ConnectionState.CLOSED:
            self._forget(connection)
        elif connection.tries < self.limits.repeats and connection.message is not None:
            connection.tries += 1
            self.counters.repeated += 1
            self._out.append((connection.peer, connection.message))
            self._wait(connection, now_ns, min(self.limits.timeout_ns << connection.tries, _LONGEST_NS))
        else:
            self.counters.timeouts += 1
            if connection.state is ConnectionState.REPLIED:
                reject = Reject(
                    transaction=connection.transaction, local_id=connection.local_id,
                    remote_id=connection.remote_id, rejected=_NEITHER, reason=CmReject.TIMEOUT,
                )  # fmt: skip
                self._out.append((connection.peer, reject))
            self._close(connection, f"no answer to {connection.tries + 1} messages", now_ns)


def _disconnected(message: Disconnect) -> Disconnected:
    """The answer to a DREQ."""
    return Disconnected(
        transaction=message.transaction, local_id=message.remote_id, remote_id=message.local_id
    )
