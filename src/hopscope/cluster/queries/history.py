"""One history of all members: the lake up to its marks, and the members' own events from there on.

If the lake does not answer, the members' own histories are used (`members_history`), and the answer says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, Unpack

from ...base.deadline import Deadline
from ...base.errors import HopscopeError
from ...history.reading.filters import Filters, QueueFilters
from ...history.reading.highest import Highest
from ...history.reading.table import Table
from ...lake.database import LakeError
from ...lake.queries import LakeQueries, Tail, TailRequest
from ...lake.reader import LakeReader
from ...lake.snapshot import LakeSnapshot
from ...lake.sql import LakeSql
from ...memory.private_file import MEMBER_ID, incarnation
from ...present.events import when
from ...settings.collector import Settings
from ...wire.records import Records
from ..connection import ClusterError
from ..membership.members import MemberRecord
from .client import QueryClient, absence_reason
from .cluster_answer import ClusterAnswer, ClusterHistory
from .history_query import MAX_FLOWS, FiltersModel, HistoryQuery
from .members_history import MembersHistory, add_live, flows_of, key_of
from .parts import Answer
from .tables import read_rows, table_of
from .tails import KIND, TailHandler, after_marks, decode, request_json

if TYPE_CHECKING:
    from ...detect.distributions.quantiles import By, Distribution


T = TypeVar("T", Table, Highest)
P = ParamSpec("P")
Found: TypeAlias = "tuple[str, Records, str]"
"""An answer: incarnation, EVENT records, and why they are incomplete."""


class SharedLake:
    """Resources shared by the histories of a process: the connection to the lake, and SQL processes."""

    def __init__(self, settings: Settings) -> None:
        self.reader = LakeReader(settings.lake)
        self.sql = LakeSql(self.reader)

    def close(self) -> None:
        """End both."""
        self.sql.close()
        self.reader.close()


def open_history(
    settings: Settings, folder: Path, client: QueryClient, lake: SharedLake | None = None
) -> ClusterHistory:
    """The history of all members; `folder`: the data folder of this one. Answers name members that are
    missing.

    Without `lake`, a connection is made, if the settings have a lake, and closed with the history.
    """
    if not settings.lake.enabled:
        return MembersHistory(folder, settings.member_name, client)
    return LakeHistory(settings, folder, client, lake)


def _asked_of_either(
    method: Callable[Concatenate[MembersHistory, P], T],
) -> Callable[Concatenate[LakeHistory, P], T]:
    """The query that `MembersHistory` has, to the lake; to the members only if the lake does not answer."""
    name = method.__name__

    @wraps(method)
    def ask(history: LakeHistory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def ask_one(asked: LakeQueries | MembersHistory) -> T:
            return getattr(asked, name)(*args, **kwargs)

        return history._either(ask_one)

    return ask


class LakeHistory:
    """See `history.history_like.HistoryLike`. The lake, tails and members share one deadline,
    `answer_seconds` after the query.
    """

    def __init__(
        self, settings: Settings, folder: Path, client: QueryClient, lake: SharedLake | None = None
    ) -> None:
        self.folder, self.answer = folder, ClusterAnswer()
        self._member, self._client = settings.member_name, client
        self._deadline = Deadline(settings.cluster.answer_seconds)
        self._members = MembersHistory(folder, self._member, client, self._deadline)
        self._own = SharedLake(settings) if lake is None else None
        self._lake = lake or self._own or SharedLake(settings)
        self._queries = LakeQueries(self._lake.reader, self._tails, deadline=self._deadline)
        self._said: list[ClusterAnswer] = []

    @property
    def problems(self) -> list[str]:
        """Damaged files of members whose own history was asked."""
        return self._members.problems

    def __enter__(self) -> LakeHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the lake, unless others share it."""
        if self._own is not None:
            self._own.close()

    def flows(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Flows by 5-tuple; without an end of the time range, packets and latencies include live flows."""

        def ask(asked: LakeQueries | MembersHistory) -> Table:
            found = asked.flows(limit=limit, **filters)
            of_lake = asked is self._queries and filters.get("end") is None
            return self._with_live(found) if of_lake else found

        return self._either(ask)

    events = _asked_of_either(MembersHistory.events)
    paths = _asked_of_either(MembersHistory.paths)
    summary = _asked_of_either(MembersHistory.summary)
    hops = _asked_of_either(MembersHistory.hops)
    peaks = _asked_of_either(MembersHistory.peaks)
    highest = _asked_of_either(MembersHistory.highest)
    sums = _asked_of_either(MembersHistory.sums)
    labels = _asked_of_either(MembersHistory.labels)
    coverage = _asked_of_either(MembersHistory.coverage)
    moment = _asked_of_either(MembersHistory.moment)
    steps = _asked_of_either(MembersHistory.steps)
    activity = _asked_of_either(MembersHistory.activity)

    def distributions(
        self, *, by: By = "queue", bucket_ns: int | None = None, **filters: Unpack[QueueFilters]
    ) -> list[Distribution]:
        """Sums of the counts of all members; the lake has no distributions."""
        self._begin()
        found = self._members.distributions(by=by, bucket_ns=bucket_ns, **filters)
        self._say(self._members.answer)
        return found

    def sql(
        self,
        text: str,
        *,
        limit: int = 10_000,
        seconds: float = 10.0,
        memory_bytes: int = 512 * 1024**2,
        stop: threading.Event | None = None,
    ) -> Table:
        """One SELECT over the view `events` of all members, with the columns `member` and `incarnation`; see
        `lake.sql`. LakeError if the lake is unreachable: a SELECT over each member's own history would answer
        a different query.
        """
        self._begin()
        return self._lake.sql.run(
            text,
            self._tails,
            limit=limit,
            seconds=seconds,
            memory_bytes=memory_bytes,
            stop=stop,
            deadline=self._deadline,
        )

    # ----------------------------------------------------------------------------------------- asking

    def _begin(self) -> None:
        """Start the deadline of a query, after preparations that need no server."""
        self._lake.reader.prepare()
        with suppress(ClusterError):  # the caller reports it
            self._client.prepare()
        self._deadline.begin()

    def _either(self, ask: Callable[[LakeQueries | MembersHistory], T]) -> T:
        self._begin()
        try:
            return ask(self._queries)
        except LakeError as error:
            found = ask(self._members)
            self._say(self._members.answer.joined(ClusterAnswer(without_lake=str(error))))
            return found

    def _say(self, answer: ClusterAnswer) -> None:
        """Add the members that answered."""
        self._said.append(answer)
        self.answer = self._said[0]
        for each in self._said[1:]:
            self.answer = self.answer.joined(each)

    def _with_live(self, table: Table) -> Table:
        """Add the live flows of the members that have answered, which are not in the lake."""
        rows, columns = table.rows(), tuple(table.columns)
        for at in range(0, len(rows) if self.answer.answered else 0, MAX_FLOWS):
            some = slice(at, at + MAX_FLOWS)
            filters = FiltersModel(flows=flows_of(map(key_of, rows[some])))
            query = HistoryQuery(method="live_flows", filters=filters)
            body, names = {"ask": query.model_dump(exclude_defaults=True)}, {*self.answer.answered}
            try:
                gathered = self._client.ask("history", body, read_rows, only=names)
                found, answer = gathered.found, gathered.answer
            except ClusterError as error:
                own = names & {self._member}
                found = {member: read_rows(self._members.alone(query, error)) for member in own}
                answer = ClusterAnswer(missing=dict.fromkeys(names - own, str(error)))
            rows[some] = add_live(rows[some], found)
            self._say(answer)
        return table_of(rows, columns, truncated=table.truncated)

    def _tails(self, snapshot: LakeSnapshot, request: TailRequest) -> list[Tail]:
        """Ask all members."""
        query = request_json(snapshot, request)
        try:
            gathered = self._client.ask(KIND, query, _read, deadline=self._deadline).of_cluster(self._member)
            found, missing = gathered.found, dict(gathered.answer.missing)
            missing |= {
                name: absence_reason(record)
                for name, record in gathered.left.items()
                if not _has_all(snapshot, record)
            }
        except ClusterError as error:
            found, missing = self._alone(snapshot, query, error)
        absent = missing.keys() - found.keys()
        missing = {
            member: f"{why}; {_since(snapshot, member)}" if member in absent else why
            for member, why in missing.items()
        }
        missing |= {member: cut for member, (_, _, cut) in found.items() if cut}
        for member, events in snapshot.gaps.items():
            missing.setdefault(
                member, f"{events:,} of its events are not in the lake until it writes them again"
            )
        self._say(ClusterAnswer(tuple(sorted(found.keys() - missing.keys())), missing))
        return [after_marks(snapshot, member, of, events) for member, (of, events, _) in found.items()]

    def _alone(
        self, snapshot: LakeSnapshot, query: Mapping[str, Any], error: ClusterError
    ) -> tuple[dict[str, Found], dict[str, str]]:
        """The tail of this member alone, without NATS, and the missing members."""
        missing = dict.fromkeys(snapshot.times, str(error))
        found: dict[str, Found] = {}
        if (self.folder / MEMBER_ID).exists():
            try:
                own = TailHandler(self.folder, self._member, incarnation(self.folder))
                found[self._member] = decode(own.read(query))
                missing.pop(self._member, None)
            except HopscopeError as local:
                missing[self._member] = str(local)
        return found, missing


def _read(answer: Answer) -> Found:
    return decode(answer.body)


def _has_all(snapshot: LakeSnapshot, record: MemberRecord) -> bool:
    """Whether the lake has all events of a member that has ended."""
    if record.ends is None:
        return False
    marks = snapshot.marks
    return all(
        marks.get((record.name, record.incarnation, shard), 0) >= end for shard, end in record.ends.items()
    )


def _since(snapshot: LakeSnapshot, member: str) -> str:
    """Which events are missing for a member that has not answered."""
    if member not in snapshot.times:
        return "none of its events are in the lake"
    return f"what it had not written into the lake by {when(snapshot.times[member])} is missing"
