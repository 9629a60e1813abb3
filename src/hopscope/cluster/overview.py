"""A cluster at one moment, read from NATS: who is there, who is missing, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .configuration import Configurations, Revision
from .connection import Connection
from .members import Directory, MemberRecord


@dataclass(frozen=True, slots=True)
class Overview:
    """What NATS has of a cluster."""

    living: dict[str, MemberRecord]
    missing: dict[str, MemberRecord]
    """The last record of members that are known and not there; its lag is at most half a minute old."""
    seen_ns: dict[str, int]
    """When NATS stored the last record of a known member, ns since the epoch."""
    bad: dict[str, str]
    """Records that are no good, by bucket and key, and why."""
    newest: Revision
    """Of the configuration."""

    def problem(self, record: MemberRecord) -> str:
        """What is wrong with a member; empty: nothing."""
        return "; ".join(self._problems(record))

    def problems(self) -> list[str]:
        """All that is wrong, a line for each member."""
        found = [f"{name} is {gone(record)}" for name, record in sorted(self.missing.items())]
        for name, record in sorted(self.living.items()):
            found += [f"{name}: {problem}" for problem in self._problems(record)]
        found += [f"{key}: the record is not used: {problem}" for key, problem in sorted(self.bad.items())]
        if self.newest.problem:
            found.append(f"revision {self.newest.number} cannot be read: {self.newest.problem}")
        return found

    def _problems(self, record: MemberRecord) -> Iterator[str]:
        if record.state != "live":
            yield record.state
        if not record.ready:
            yield f"not ready: {record.reason}"
        if record.revision != self.newest.number:
            why = f": {record.revision_problem}" if record.revision_problem else ""
            yield f"it has revision {record.revision} of the configuration, not {self.newest.number}{why}"
        if record.lag_problem:
            yield f"lake: {record.lag_problem}"


def gone(record: MemberRecord) -> str:
    """How a member went that is not there."""
    return "stopped" if record.state == "stopped" else "missing"


def look(connection: Connection) -> Overview:
    """Read it. Raises ClusterError."""
    directory = Directory(connection)
    living, known = directory.living(), directory.known()
    missing = {name: record for name, record in known.items() if name not in living}
    newest = Configurations(connection).newest()
    return Overview(living, missing, directory.seen_ns(), directory.bad, newest)
