"""Members of a cluster: the record of each, and which members are present.

Anyone with credentials for NATS can write records, so each is validated when it is read. Invalid records are
listed with the reason, and not used.
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
MAX_SHARDS = 1024
CLOCK_SECONDS = 10.0
"""A clock counts as wrong above this difference, since a record may take a while to arrive."""
State = Literal["live", "draining", "drained", "stopped"]
"""`live`: takes part; `draining`: is withdrawing; `drained`: has withdrawn; `stopped`: ended in order."""


def as_text(text: str) -> str:
    """A text in the form that records allow: one line of printable characters, cut if too long."""
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
Shard = Annotated[int, Field(ge=0, lt=MAX_SHARDS)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class MemberRecord:
    """A member's record about itself. Times are by its own clock, ns since the epoch."""

    name: Annotated[str, AfterValidator(_name)]
    incarnation: Annotated[Text, Field(min_length=1, max_length=64)]
    """Identifies its data folder: a new incarnation means a new history."""
    place: Text = ""
    """Hash of that folder's location. A process with the same place has its lock: the former has ended."""
    address: Text = ""
    """Address of its API; empty: it has none."""
    version: Text = ""
    state: State = "live"
    revision: Number = 0
    """Revision of the configuration that it has applied; 0: none."""
    revision_problem: Text = ""
    """Why it could not apply a newer revision; empty: it could."""
    reports_per_second: Amount = 0.0
    events_per_second: Amount = 0.0
    ready: bool = True
    """Whether it takes reports and stores events."""
    reason: Text = ""
    """Why it is not ready."""
    route_problem: Text = ""
    """Why the command that announces or withdraws its route failed; empty: it did not."""
    lag_events: Number | None = None
    """Events that are not in the lake yet, and would be lost with its disk; None: no lake, or unknown."""
    lag_seconds: Amount | None = None
    """Age of the oldest of these events."""
    lag_problem: Text = ""
    """Why events do not reach the lake; empty: they do."""
    ends: Annotated[dict[Shard, Number], Field(max_length=MAX_SHARDS)] | None = None
    """By shard, 1 + the sequence of its last event. Only set after an orderly end, when no more will come."""
    started_ns: Number = 0
    """When its collector started."""
    time_ns: Number = 0
    """When this record was written."""

    @property
    def left(self) -> bool:
        """Whether it was drained: if so, it is not missing once it is gone."""
        return self.state == "drained"

    def encode(self) -> bytes:
        """The stored form, JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def decode(key: str, value: bytes) -> MemberRecord:
    """The record of the member `key`; ValueError (one line): it is invalid. Keys that this version does not
    know are ignored.
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
    """The first problem, as one printable line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    text = f"{where}: {first['msg']}" if where else str(first["msg"])
    return as_text(text)


@cache
def _form() -> TypeAdapter[Any]:
    return TypeAdapter(MemberRecord)


def wrong_clocks(known: Mapping[str, MemberRecord], seen_ns: Mapping[str, int]) -> dict[str, str]:
    """Members whose clock differed from that of NATS when it stored their last record: text by name."""
    found = {}
    for name, record in known.items():
        ahead_ns = record.time_ns - seen_ns[name] if record.time_ns else 0
        if abs(ahead_ns) > CLOCK_SECONDS * 1e9:
            how = f"{ago(abs(ahead_ns))} {'ahead of' if ahead_ns > 0 else 'behind'}"
            found[name] = f"its clock is {how} that of NATS: times of its events are wrong"
    return found


class Directory:
    """The present members, and all that ever were. Methods raise ClusterError."""

    def __init__(self, connection: Connection) -> None:
        self.place = connection.settings.place
        self._living = Bucket(connection, connection.names.members)
        self._known = Bucket(connection, connection.names.known)
        self.bad: dict[str, str] = {}
        """Records that were invalid when last read: the reason by bucket and key."""
        self.seen_ns: dict[str, int] = {}
        """When the server stored the records that `known` last returned, ns since the epoch, by name."""

    def living(self, seconds: float = RUN_SECONDS) -> dict[str, MemberRecord]:
        """Present members by name: those whose record has not expired in the bucket (`member_seconds`)."""
        return self._read(self._living, seconds)

    def known(self, seconds: float = RUN_SECONDS) -> dict[str, MemberRecord]:
        """The last record of all members that ever were present, except forgotten ones, by name. It may be
        half a minute older than a member's end.
        """
        return self._read(self._known, seconds)

    def forget(self, name: str, *, force: bool = False) -> None:
        """Remove a member that is missing, or any with `force`. Raises ClusterError if there is none."""
        living, known = self._living.get(name), self._known.get(name)
        if living is None and known is None:
            raise ClusterError(f"{name}: the cluster has no such member")
        if living is not None:
            if not force:
                raise ClusterError(f"{name}: the member is running; stop it first")
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
    """Another process is already the member with this name."""


class Registration:
    """The record of one member in the buckets of living and of known members. Methods raise ClusterError.

    If a name's record is gone, as after an outage of NATS, the name stays reserved for `grace` seconds for
    the data folder that had it.
    """

    def __init__(self, connection: Connection, grace: float) -> None:
        self._living = Bucket(connection, connection.names.members)
        self._known = Bucket(connection, connection.names.known)
        self._revision = 0
        """Revision of our newest record; 0: there is none."""
        self._grace = grace
        self._free_at: float | None = None
        """When a name that another data folder had becomes free; monotonic."""

    def put(self, record: MemberRecord) -> None:
        """Create, renew or take over the record. Raises NameTakenError if another process has it."""
        value = record.encode()
        revision = self._living.change(record.name, value, self._revision) if self._revision else None
        if revision is None:  # it expired, an acknowledgement was lost, or it is not ours
            revision = self._living.change(record.name, value, self._before(record))
        if revision is None:
            raise NameTakenError(f"{record.name}: another process became this member just now")
        self._revision = revision

    def remember(self, record: MemberRecord) -> None:
        """Renew the record that stays when the member is gone."""
        self._known.put(record.name, record.encode())

    def leave(self, record: MemberRecord) -> None:
        """Remove the record from the living members; it stays among the known."""
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
                f"{record.name}: its record in NATS is invalid, and not from this process"
            ) from None
        if (other.incarnation, other.place) == (record.incarnation, record.place):
            return entry.revision  # of an earlier process on this folder, whose lock is ours
        where = other.address or "an unknown address"
        raise NameTakenError(
            f"{record.name}: a member with this name already runs, with another data folder at {where}; "
            "each needs a name of its own (setting `member`)"
        )

    def _leave_to_former(self, record: MemberRecord) -> None:
        """Keep a free name reserved for a while for the data folder that had it, which may be restarting."""
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
