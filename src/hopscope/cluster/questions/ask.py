"""Questions to all members of a cluster: one request with a deadline; who answered, who did not and why."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ...base.deadline import Deadline
from ...base.errors import HopscopeError
from ...present.events import when
from ..connection import CONNECT_SECONDS, ClusterError, Connection, Reply, load_client
from ..membership.members import Directory, MemberRecord
from .answers import ClusterAnswer
from .parts import ANSWER_BYTES, Answer, DamagedAnswerError, join

T = TypeVar("T")
ASK = "ask"
"""Last word of the subject of questions."""
LISTED_SECONDS = 1.0
"""How long the list of members is taken as it was read."""
OLD_LIST_SECONDS = 10.0
"""The same if it could not be read again, which takes time from the question."""
LIST_SHARE = 0.4
"""Of the time for an answer, how much that may take if an older list is known."""
LEAST_SECONDS = 0.05
"""Members are asked for as long as this, also if the time is over."""
CLOSE_SECONDS = 1.0
NO_ANSWER = "no answer"
_TEXT = 300
REJECTED = "error 400: "
"""How the reason of a member begins that cannot answer because of the question."""


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """Answers by member, and who gave them."""

    found: dict[str, T]
    answer: ClusterAnswer
    left: Mapping[str, MemberRecord] = field(default_factory=dict)
    """The last record of members that were drained and have ended: they are not missing, since nothing is to
    come from them, but what their history has is not in the answer."""

    @property
    def of_history(self) -> ClusterAnswer:
        """Who answered what needs the history of members: those that have left are missing."""
        left = {name: gone(record) for name, record in self.left.items()}
        return self.answer.joined(ClusterAnswer(missing=left))

    def of_cluster(self, member: str) -> Gathered[T]:
        """Raises ClusterError if none has answered, not even this member, which asks: then NATS hangs."""
        if not self.found and (reason := self.answer.missing.get(member, "")).startswith(NO_ANSWER):
            raise ClusterError(f"NATS: {reason}, of no member")
        return self


class Asker:
    """Asks over a connection, which it opens when it is needed. Threads may share it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._directory = Directory(connection)
        self._lock = threading.Lock()
        self._list_at = float("-inf")
        self._living: dict[str, MemberRecord] = {}
        self._known: dict[str, MemberRecord] = {}

    def ask(
        self,
        kind: str,
        arguments: Mapping[str, Any],
        read: Callable[[Answer], T],
        *,
        accepted: Collection[int] = (200,),
        only: Collection[str] | None = None,
        deadline: Deadline | None = None,
    ) -> Gathered[T]:
        """Ask a question of a kind (`answer.Questions`) and wait for all members that are there, until the
        deadline: as it is given, or in `cluster.answer_seconds`.

        `read` makes something of an answer whose status is accepted; a ValueError or HopscopeError of it is
        the reason why the member is not among those that answered. `only`: ask these members. Raises
        ClusterError: NATS is away, or the cluster has no members.
        """
        if deadline is None:
            self.prepare()
            deadline = Deadline(self._connection.settings.answer_seconds)
        living, known = self._members(deadline)
        if only is not None:
            living, known = _chosen(living, only), _chosen(known, only)
        seconds = max(LEAST_SECONDS, deadline.left())
        body = {"kind": kind, "seconds": seconds, "to": None if only is None else sorted(only), **arguments}
        subject = self._connection.names.subject(ASK)
        replies = self._connection.ask(
            subject, json.dumps(body).encode(), seconds, list(living), most_bytes=2 * ANSWER_BYTES
        )
        found: dict[str, T] = {}
        absent = {name: record for name, record in known.items() if name not in living}
        left = {name: record for name, record in absent.items() if record.left}
        in_time = f"within {deadline.seconds:g} s"
        missing = dict.fromkeys(living, f"{NO_ANSWER} {in_time}")
        missing |= {name: gone(record) for name, record in absent.items() if name not in left}
        for name, some in by_member(replies).items():
            if name not in living and name not in known:
                continue  # a stranger, or a member that has just come
            try:
                found[name] = _read(some, accepted, read)
                missing.pop(name, None)
                left.pop(name, None)
            except _NotWholeError:
                missing[name] = f"only a part of its answer {in_time}"
            except (HopscopeError, ValueError) as error:
                missing[name] = " ".join(str(error).split())[:_TEXT]
        for name in missing:
            if name in living and not living[name].ready and missing[name].startswith(NO_ANSWER):
                missing[name] += f"; not ready: {living[name].reason[:_TEXT]}"
        return Gathered(dict(sorted(found.items())), ClusterAnswer(tuple(sorted(found)), missing), left)

    def prepare(self) -> None:
        """Do what takes time before a deadline begins. Raises ClusterError."""
        load_client()

    def close(self) -> None:
        """Close the connection; a question that is under way fails."""
        free = self._lock.acquire(timeout=CLOSE_SECONDS)  # its holder may wait for servers that hang
        try:
            self._connection.close()
        finally:
            if free:
                self._lock.release()

    def _members(self, deadline: Deadline) -> tuple[dict[str, MemberRecord], dict[str, MemberRecord]]:
        """The living and all known; the connection is open then."""
        if not self._lock.acquire(timeout=deadline.left()):
            raise ClusterError(f"NATS at {self._connection.settings.place}: no answer to earlier questions")
        try:
            if self._connection.closed:
                self._connection.open(min(CONNECT_SECONDS + 2, deadline.left()))
            if not self._connection.connected:
                problem = self._connection.problem or "no answer"
                raise ClusterError(f"NATS at {self._connection.settings.place}: {problem}")
            if time.monotonic() > self._list_at:
                kept = self._list(deadline.left(LIST_SHARE if self._living else 1.0))
                self._list_at = time.monotonic() + kept
            if not self._living:
                raise ClusterError(f"the cluster {self._connection.settings.name} has no members")
            return self._living, self._known
        finally:
            self._lock.release()

    def _list(self, seconds: float) -> float:
        """Read the list of members; for how long it is taken as it is. It may be an older one, since members
        answer, too, while the servers of NATS that keep the list have no leader.
        """
        limit = Deadline(seconds)
        try:
            living = self._directory.living(limit.left())
            self._living, self._known = living, self._directory.known(limit.left())
        except ClusterError:
            if not self._living:
                raise
            return OLD_LIST_SECONDS
        return LISTED_SECONDS


class _NotWholeError(Exception):
    """More of an answer was to come."""


def by_member(replies: Collection[Reply]) -> dict[str, list[Reply]]:
    """Messages by the member that sent them, in the order in which they came."""
    found: dict[str, list[Reply]] = {}
    for reply in replies:
        found.setdefault(reply.member, []).append(reply)
    return found


def _read(replies: list[Reply], accepted: Collection[int], read: Callable[[Answer], T]) -> T:
    answer = join(replies)
    if answer is None:
        raise _NotWholeError
    if answer.status not in accepted:
        text = answer.body[:_TEXT].decode("utf-8", "replace")
        raise DamagedAnswerError(f"error {answer.status}: {text}")
    return read(answer)


def _chosen(records: Mapping[str, MemberRecord], only: Collection[str]) -> dict[str, MemberRecord]:
    return {name: record for name, record in records.items() if name in only}


def gone(record: MemberRecord) -> str:
    """Why a member that is not there has not answered."""
    state = record.state if record.state in ("stopped", "drained") else "missing"
    return f"{state}, last seen {when(record.time_ns)}"
