"""Asks all members of a cluster, in one request with a deadline, and notes which did not answer, and why."""

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
from .cluster_answer import ClusterAnswer
from .parts import ANSWER_BYTES, Answer, DamagedAnswerError, join

T = TypeVar("T")
ASK = "ask"
"""Last word of the subject of queries."""
LISTED_SECONDS = 1.0
"""How long the list of members is cached."""
OLD_LIST_SECONDS = 10.0
"""The same after it could not be read again, which takes time from the query."""
LIST_SHARE = 0.4
"""Share of the time for an answer that reading the list may take if an older list is known."""
MIN_SECONDS = 0.05
"""Members have at least this much time to answer, even after the deadline."""
CLOSE_SECONDS = 1.0
NO_ANSWER = "no answer"
_TEXT = 300
REJECTED = "error 400: "
"""Start of the reason of a member that rejects the query itself."""


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """Answers by member, and the members that did not answer."""

    found: dict[str, T]
    answer: ClusterAnswer
    left: Mapping[str, MemberRecord] = field(default_factory=dict)
    """The last record of members that were drained and have ended. They are not missing, since no more
    reports reach them, but the answer lacks their history.
    """

    @property
    def of_history(self) -> ClusterAnswer:
        """The members that answered a query to their history: members that have left are missing."""
        left = {name: absence_reason(record) for name, record in self.left.items()}
        return self.answer.joined(ClusterAnswer(missing=left))

    def of_cluster(self, member: str) -> Gathered[T]:
        """Raises ClusterError if no member has answered, not even this one, which means that NATS hangs."""
        if not self.found and (reason := self.answer.missing.get(member, "")).startswith(NO_ANSWER):
            raise ClusterError(f"NATS: {reason}, not even from this member")
        return self


class QueryClient:
    """Asks over a connection that is opened on demand. Threads may share it."""

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
        """Send a query of a kind (`server.QueryServer`) and wait for all present members until `deadline`, by
        default for `cluster.answer_seconds`.

        `read` decodes an answer with an accepted status; if it raises ValueError or HopscopeError, the member
        counts as missing for that reason. `only`: ask only these members. Raises ClusterError: NATS is
        unreachable, or the cluster has no members.
        """
        if deadline is None:
            self.prepare()
            deadline = Deadline(self._connection.settings.answer_seconds)
        living, known = self._members(deadline)
        if only is not None:
            living, known = _chosen(living, only), _chosen(known, only)
        seconds = max(MIN_SECONDS, deadline.left())
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
        missing |= {name: absence_reason(record) for name, record in absent.items() if name not in left}
        for name, some in by_member(replies).items():
            if name not in living and name not in known:
                continue  # unknown, or a member that has just joined
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
        """Do slow preparations before a deadline begins. Raises ClusterError."""
        load_client()

    def close(self) -> None:
        """Close the connection; pending queries fail."""
        free = self._lock.acquire(timeout=CLOSE_SECONDS)  # its holder may wait for servers that hang
        try:
            self._connection.close()
        finally:
            if free:
                self._lock.release()

    def _members(self, deadline: Deadline) -> tuple[dict[str, MemberRecord], dict[str, MemberRecord]]:
        """Present and known members; opens the connection."""
        if not self._lock.acquire(timeout=deadline.left()):
            raise ClusterError(f"NATS at {self._connection.settings.place}: no answer to earlier queries")
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
        """Read the list of members; returns how long it may be cached. An older list may stay in use, since
        members can answer while the NATS servers that keep the list have no leader.
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
    """An answer is incomplete."""


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


def absence_reason(record: MemberRecord) -> str:
    """Why an absent member has not answered."""
    state = record.state if record.state in ("stopped", "drained") else "missing"
    return f"{state}, last seen {when(record.time_ns)}"
