"""Questions to all members of a cluster: one request with a deadline; who answered, who did not and why."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ...base.errors import HopscopeError
from ...present.events import when
from ..connection import ClusterError, Connection, Reply
from ..membership.members import Directory, MemberRecord
from .answers import ClusterAnswer
from .parts import ANSWER_BYTES, Answer, DamagedAnswerError, join

T = TypeVar("T")
ASK = "ask"
"""Last word of the subject of questions."""
LISTED_SECONDS = 1.0
"""How long the list of members is taken as it was read."""
OLD_LIST_SECONDS = 10.0
"""The same if it could not be read again, which takes as long as a question."""
CLOSE_SECONDS = 1.0
_TEXT = 300


@dataclass(frozen=True, slots=True)
class Gathered(Generic[T]):
    """Answers by member, and who gave them."""

    found: dict[str, T]
    answer: ClusterAnswer


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
    ) -> Gathered[T]:
        """Ask a question of a kind (`answer.Questions`) and wait for all members that are there, at most
        `cluster.answer_seconds`.

        `read` makes something of an answer whose status is accepted; a ValueError or HopscopeError of it is
        the reason why the member is not among those that answered. `only`: ask these members. Raises
        ClusterError: NATS is away, or the cluster has no members.
        """
        settings = self._connection.settings
        seconds = settings.answer_seconds
        living, known = self._members()
        if only is not None:
            living, known = _chosen(living, only), _chosen(known, only)
        body = {"kind": kind, "seconds": seconds, "to": None if only is None else sorted(only), **arguments}
        subject = self._connection.names.subject(ASK)
        replies = self._connection.ask(
            subject, json.dumps(body).encode(), seconds, list(living), most_bytes=2 * ANSWER_BYTES
        )
        found: dict[str, T] = {}
        absent = {name: _absent(record) for name, record in known.items() if name not in living}
        missing = dict.fromkeys(living, f"no answer within {seconds:g} s") | absent
        for name, some in by_member(replies).items():
            if name not in living and name not in known:
                continue  # a stranger, or a member that has just come
            try:
                found[name] = _read(some, accepted, read)
                del missing[name]
            except _NotWholeError:
                missing[name] = f"only a part of its answer within {seconds:g} s"
            except (HopscopeError, ValueError) as error:
                missing[name] = " ".join(str(error).split())[:_TEXT]
        for name in missing:
            if name in living and not living[name].ready and missing[name].startswith("no answer"):
                missing[name] += f"; not ready: {living[name].reason[:_TEXT]}"
        return Gathered(dict(sorted(found.items())), ClusterAnswer(tuple(sorted(found)), missing))

    def close(self) -> None:
        """Close the connection; a question that is under way fails."""
        free = self._lock.acquire(timeout=CLOSE_SECONDS)  # its holder may wait for servers that hang
        try:
            self._connection.close()
        finally:
            if free:
                self._lock.release()

    def _members(self) -> tuple[dict[str, MemberRecord], dict[str, MemberRecord]]:
        """The living and all known; the connection is open then."""
        with self._lock:
            if self._connection.closed:
                self._connection.open()
            if not self._connection.connected:
                problem = self._connection.problem or "no answer"
                raise ClusterError(f"NATS at {self._connection.settings.place}: {problem}")
            if time.monotonic() > self._list_at:
                self._list_at = time.monotonic() + self._list()
            if not self._living:
                raise ClusterError(f"the cluster {self._connection.settings.name} has no members")
            return self._living, self._known

    def _list(self) -> float:
        """Read the list of members; for how long it is taken as it is. It may be an older one, since members
        answer, too, while the servers of NATS that keep the list have no leader.
        """
        try:
            self._living, self._known = self._directory.living(), self._directory.known()
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


def _absent(record: MemberRecord) -> str:
    state = record.state if record.state in ("stopped", "drained") else "missing"
    return f"{state}, last seen {when(record.time_ns)}"
