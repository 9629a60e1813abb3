"""Members of a cluster: the record of each, and who is there.

Whoever has credentials of NATS can write records: each is checked when it is read, and those that are no good
are named with the reason, and not used.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from ...present.units import ago
from ...settings.cluster import MEMBER
from ..buckets import RUN_SECONDS, Bucket
from ..connection import ClusterError, Connection

MAX_BYTES = 65_536
"""Longest record."""
MOST_SHARDS = 1024
CLOCK_SECONDS = 10.0
"""Difference of clocks above which one is wrong: a record may be on its way for a while."""
State = Literal["live", "draining", "drained", "stopped"]
"""`live`: it takes part; `draining`: it withdraws, `drained`: it has; `stopped`: it was ended orderly."""


def as_text(text: str) -> str:
    """A text as records take it: one line of printable characters, cut if it is long."""
    return "".join(letter if letter.isprintable() else " " for letter in text)[:500]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("expected one line of printable text")
    return text


def _name(text: str) -> str:
    if not MEMBER.fullmatch(text):
        raise ValueError("expected letters, digits, `_`, `-`, and dots between them")
    return text


Text = Annotated[str, Field(max_length=1024), AfterValidator(_printable)]
Number = Annotated[int, Field(ge=0, lt=2**63)]
Shard = Annotated[int, Field(ge=0, lt=MOST_SHARDS)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """What a member says of itself. Times are of its own clock, ns since the epoch."""

    name: Annotated[str, AfterValidator(_name)]
    incarnation: Annotated[Text, Field(min_length=1, max_length=64)]
    """Of its data folder: another one is another history."""
    place: Text = ""
    """Where that folder is (hashed): a process with the same one has its lock, so the earlier one ended."""
    address: Text = ""
    """Of its API; empty: it has none."""
    version: Text = ""
    state: State = "live"
    revision: Number = 0
    """Revision of the configuration that it has applied; 0: none."""
    revision_problem: Text = ""
    """Why it could not apply a newer one; empty: it could."""
    reports_per_second: Amount = 0.0
    events_per_second: Amount = 0.0
    ready: bool = True
    """Whether it takes reports and stores events."""
    reason: Text = ""
    """Why it is not ready."""
    route_problem: Text = ""
    """Why the command that announces or withdraws its route failed; empty: it did not."""
    lag_events: Number | None = None
    """Events that are not in the lake yet, and would be lost with its disk; None: it has no lake or
    does not know."""
    lag_seconds: Amount | None = None
    """Age of the oldest of them."""
    lag_problem: Text = ""
    """Why events do not come into the lake; empty: they do."""
    ends: Annotated[dict[Shard, Number], Field(max_length=MOST_SHARDS)] | None = None
    """By shard, 1 + the sequence of its last event. Only of an orderly end, after which there are no more."""
    started_ns: Number = 0
    """When its collector started."""
    time_ns: Number = 0
    """When this was written."""

    @property
    def left(self) -> bool:
        """Whether it was drained: if it is not there any more, it is not missing."""
        return self.state == "drained"

    def encode(self) -> bytes:
        """As it is stored: JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode(key: str, value: bytes) -> MemberRecord:
    """The record of the member `key`; ValueError (one line): it is no good. Keys that it has beyond those of
    this version are ignored.
    """
    if len(value) > MAX_BYTES:
        raise ValueError(f"found {len(value):,} bytes, expected at most {MAX_BYTES:,}")
    try:
        record: MemberRecord = _form().validate_json(value, strict=True)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    if record.name != key:
        raise ValueError(f"name: found {record.name!r}, expected {key!r}")
    return record


def first_problem(error: ValidationError) -> str:
    """The first of the problems, as one printable line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    text = f"{where}: {first['msg']}" if where else str(first["msg"])
    return as_text(text)


@cache
def _form() -> TypeAdapter[Any]:
    return TypeAdapter(MemberRecord)


def wrong_clocks(known: Mapping[str, MemberRecord], seen_ns: Mapping[str, int]) -> dict[str, str]:
    """Members whose clock was not that of NATS when it stored the last record, by name: how it was."""
    found = {}
    for name, record in known.items():
        ahead_ns = record.time_ns - seen_ns[name] if record.time_ns else 0
        if abs(ahead_ns) > CLOCK_SECONDS * 1e9:
            how = f"{ago(abs(ahead_ns))} {'ahead of' if ahead_ns > 0 else 'behind'}"
            found[name] = f"its clock is {how} that of NATS: times of its events are wrong"
    return found


class Directory:
    """Who is there, and who ever was. Methods raise ClusterError."""

    def __init__(self, connection: Connection) -> None:
        self.place = connection.settings.place
        self._living = Bucket(connection, connection.names.members)
        self._known = Bucket(connection, connection.names.known)
        self.bad: dict[str, str] = {}
        """Records that were no good when read last, by bucket and key: why."""
        self.seen_ns: dict[str, int] = {}
        """When the server stored the records that `known` returned last, ns since the epoch, by name."""

    def living(self, seconds: float = RUN_SECONDS) -> dict[str, MemberRecord]:
        """Members whose record is not older than the bucket keeps it (`member_seconds`), by name."""
        return self._read(self._living, seconds)

    def known(self, seconds: float = RUN_SECONDS) -> dict[str, MemberRecord]:
        """The last record of all members that ever were there, by name, but for forgotten ones; it may be
        half a minute older than their end.
        """
        return self._read(self._known, seconds)

    def forget(self, name: str, *, force: bool = False) -> None:
        """Remove a member that is missing, or any with `force`. Raises ClusterError if there is none."""
        living, known = self._living.get(name), self._known.get(name)
        if living is None and known is None:
            raise ClusterError(f"{name}: the cluster has no such member")
        if living is not None:
            if not force:
                raise ClusterError(f"{name}: the member is there; stop it first")
            self._living.delete(name)
        self._known.delete(name)

    def _read(self, bucket: Bucket, seconds: float) -> dict[str, MemberRecord]:
        found = {}
        bad = {}
        entries = bucket.entries(seconds)
        if bucket is self._known:
            self.seen_ns = {key: entry.time_ns for key, entry in entries.items()}
        for key, entry in entries.items():
            try:
                found[key] = decode(key, entry.value)
            except ValueError as error:
                bad[f"{bucket.name}/{key[:64]}"] = str(error)
        self.bad = {
            key: problem for key, problem in self.bad.items() if not key.startswith(f"{bucket.name}/")
        } | bad
        return found


class NameTakenError(ClusterError):
    """Another process is the member of this name."""


class Seat:
    """The record of one member among the living, and among the known. Methods raise ClusterError.

    A name whose record is gone, as after NATS was away, belongs for `grace` seconds to the data folder that
    had it.
    """

    def __init__(self, connection: Connection, grace: float) -> None:
        self._living = Bucket(connection, connection.names.members)
        self._known = Bucket(connection, connection.names.known)
        self._revision = 0
        """Of our newest record; 0: there is none."""
        self._grace = grace
        self._free_at: float | None = None
        """Since when the name of another data folder is free; monotonic."""

    def put(self, record: MemberRecord) -> None:
        """Make, renew or take over the record. Raises NameTakenError if another process has it."""
        value = record.encode()
        revision = self._living.change(record.name, value, self._revision) if self._revision else None
        if revision is None:  # it ended, an acknowledgement was lost, or it is not ours
            revision = self._living.change(record.name, value, self._before(record))
        if revision is None:
            raise NameTakenError(f"{record.name}: another process became this member just now")
        self._revision = revision

    def remember(self, record: MemberRecord) -> None:
        """Renew what is known of it when it is gone."""
        self._known.put(record.name, record.encode())

    def leave(self, record: MemberRecord) -> None:
        """Remove it from the living; it stays known."""
        self.remember(record)
        if self._revision:
            self._living.delete(record.name, self._revision)
            self._revision = 0

    def _before(self, record: MemberRecord) -> int:
        """Revision of the record that may be replaced; 0: there is none."""
        entry = self._living.get(record.name)
        if entry is None:
            self._leave_to_former(record)
            return 0
        self._free_at = None
        try:
            other = decode(entry.key, entry.value)
        except ValueError:
            raise NameTakenError(
                f"{record.name}: its record in NATS is no good, and not of this process"
            ) from None
        if (other.incarnation, other.place) == (record.incarnation, record.place):
            return entry.revision  # of an earlier process on this folder, whose lock is ours
        where = other.address or "an unknown address"
        raise NameTakenError(
            f"{record.name}: a member of this name is there already, with another data folder, at {where}; "
            "each needs a name of its own (setting `member`)"
        )

    def _leave_to_former(self, record: MemberRecord) -> None:
        """Leave a free name for a while to another data folder that had it: it may be starting again."""
        entry = None if self._revision else self._known.get(record.name)
        if entry is None:
            return
        try:
            former = decode(entry.key, entry.value)
        except ValueError:
            return
        if former.incarnation == record.incarnation:
            return
        now = time.monotonic()
        if self._free_at is None:
            self._free_at = now
        if now - self._free_at < self._grace:
            raise NameTakenError(
                f"{record.name}: another data folder had this name, and has {self._grace:g} s to come back"
            )
