"""The part of the process that publishes this member's record, and reads those of others."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from pathlib import Path

from ...base.errors import HopscopeError
from ...base.version import VERSION
from ...history.errors import HistoryError
from ...history.follow import ends_of
from ..buckets import Bucket
from ..connection import ClusterError
from ..process import Context, Part
from .members import Directory, MemberRecord, NameTakenError, Registration, wrong_clocks

REMEMBER_SECONDS = 30.0
"""How often the persistent record is renewed, in addition to every change of the member's state."""
KNOWN_SECONDS = 10.0
"""How often the records of all known members are read."""
READ_SECONDS = 0.05
"""Minimum time between two readings of the living members, per member: 100 are read every 5 s."""


class Membership(Part):
    """`members`: the heartbeat."""

    name = "members"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.seconds = context.settings.cluster.heartbeat_seconds
        self._place = place_of(context.data)
        self._registration = Registration(context.connection, context.settings.cluster.member_seconds)
        self._directory = Directory(context.connection)
        self._read_at = self._known_at = self._remember_at = 0.0
        self._remembered = ""

    def start(self) -> None:
        """Check that heartbeats are frequent enough for the bucket."""
        kept = Bucket(self.context.connection, self.context.connection.names.members).seconds()
        if kept and kept < 2 * self.seconds:
            raise ClusterError(
                f"cluster.heartbeat_seconds: found {self.seconds:g}, but NATS keeps records of members for "
                f"{kept:g} s (member_seconds at the last `hopscope cluster init`)"
            )
        self._read_at = self._known_at = self._remember_at = 0.0

    def turn(self) -> None:
        """Renew the record, and read those of others."""
        context, now = self.context, time.monotonic()
        record = self._record()
        try:
            self._registration.put(record)
            if now >= self._remember_at or record.state != self._remembered:
                self._registration.remember(record)
                self._remember_at, self._remembered = now + REMEMBER_SECONDS, record.state
        except NameTakenError as error:
            context.counts["refusals"] += 1
            context.refused, context.joined = str(error), False
            self._read(now)
            raise
        context.counts["heartbeats"] += 1
        context.record, context.refused, context.heartbeat_at = record, "", now
        self._read(now)
        if not context.joined:
            context.joined = True
            context.wake_all()

    def stop(self) -> None:
        """Leave, so that others see at once that this member has stopped, and what its last events are."""
        joined, self.context.joined = self.context.joined, False
        if joined and self.context.connected:
            drained = self.context.own.get("state") == "drained"  # it left on purpose, and is not missing
            ends: dict[int, int] | None = None
            with suppress(HistoryError):  # a file is damaged: its end is not known
                ends = ends_of(self.context.data)  # all processes that write events have ended
            self._registration.leave(self._record(state="drained" if drained else "stopped", ends=ends))

    def _read(self, now: float) -> None:
        """Read the present and the known members."""
        context = self.context
        if now < self._read_at:
            return
        living = self._directory.living()
        if now >= self._known_at or living.keys() != context.living.keys():
            context.known = self._directory.known()
            context.clocks = wrong_clocks(context.known, self._directory.seen_ns)
            self._known_at = now + KNOWN_SECONDS
        if {name: _mark(record) for name, record in living.items()} != {
            name: _mark(record) for name, record in context.living.items()
        }:
            context.changed = True
        context.living, context.bad = living, self._directory.bad
        self._read_at = now + READ_SECONDS * len(living)

    def _record(self, **more: object) -> MemberRecord:
        context = self.context
        condition = context.condition()
        own = {
            "name": context.name,
            "incarnation": context.incarnation,
            "place": self._place,
            "version": VERSION,
            "time_ns": time.time_ns(),
            **condition.fields(),
            **context.own,
            **more,
        }
        return MemberRecord(**own)  # type: ignore[arg-type]


def _mark(record: MemberRecord) -> tuple[object, ...]:
    """The parts of a record whose changes are published at once."""
    return record.incarnation, record.state, record.revision, record.revision_problem, record.ready


def place_of(data: Path) -> str:
    """Hash of a data folder's location; it differs for any copy, on this machine or another. Raises
    HopscopeError.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        state = data.stat()
    except OSError as error:
        raise HopscopeError(f"{error.filename}: {error.strerror}") from error
    where = b"%s %d %d" % (boot, state.st_dev, state.st_ino)
    return hashlib.blake2b(where, digest_size=12).hexdigest()
