"""The state of a cluster, read from NATS: present and missing members, and problems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..configuration import Configurations, Revision
from ..connection import Connection
from ..owners.table import read_owners
from ..setup import lacking
from .members import Directory, MemberRecord, wrong_clocks


@dataclass(frozen=True, slots=True)
class Overview:
    """The state of a cluster in NATS."""

    living: dict[str, MemberRecord]
    missing: dict[str, MemberRecord]
    """The last record of known members that are not present; its lag is at most half a minute old."""
    left: dict[str, MemberRecord]
    """Drained members that are no longer present."""
    seen_ns: dict[str, int]
    """When NATS stored the last record of a known member, ns since the epoch."""
    bad: dict[str, str]
    """Invalid records: the reason by bucket and key."""
    newest: Revision
    """Newest revision of the configuration."""
    shares: dict[str, int]
    """Number of shares of the keys, by owner."""
    lacking: list[str]
    """Buckets that are missing or full."""
    clocks: dict[str, str]
    """Known members whose clock is wrong: text by name."""

    def problem(self, record: MemberRecord) -> str:
        """What is wrong with a member; empty: nothing."""
        return "; ".join(self._problems(record))

    def problems(self) -> list[str]:
        """All problems, one line each."""
        found = [
            f"{name} is {last_state(record)}: start it, or remove it for good by: "
            f"hopscope cluster forget {name}{self._still_owns(name)}"
            for name, record in sorted(self.missing.items())
        ]
        for name, record in sorted(self.living.items()):
            found += [f"{name}: {problem}" for problem in self._problems(record)]
        found += [f"{key}: the record is not used: {problem}" for key, problem in sorted(self.bad.items())]
        found += self.lacking
        if self.newest.problem:
            found.append(f"revision {self.newest.number} cannot be read: {self.newest.problem}")
        return found

    def _still_owns(self, name: str) -> str:
        if not (shares := self.shares.get(name)):
            return ""
        return f"; until then it keeps its {shares} of {sum(self.shares.values())} shares of the keys"

    def _problems(self, record: MemberRecord) -> Iterator[str]:
        if record.state == "stopped":
            yield record.state
        if not record.ready and record.state == "live":
            yield f"not ready: {record.reason}"
        if record.revision != self.newest.number:
            why = f": {record.revision_problem}" if record.revision_problem else ""
            yield f"it has revision {record.revision} of the configuration, not {self.newest.number}{why}"
        if record.name in self.clocks:
            yield self.clocks[record.name]
        if record.route_problem:
            yield f"route: {record.route_problem}"
        if record.lag_problem:
            yield f"lake: {record.lag_problem}"


def last_state(record: MemberRecord) -> str:
    """How a member that is not present ended."""
    return record.state if record.state in ("stopped", "drained") else "missing"


def read_overview(connection: Connection) -> Overview:
    """Read the state of a cluster. Raises ClusterError."""
    directory = Directory(connection)
    living, known = directory.living(), directory.known()
    away = {name: record for name, record in known.items() if name not in living}
    missing = {name: record for name, record in away.items() if not record.left}
    left = {name: record for name, record in away.items() if record.left}
    newest = Configurations(connection).newest()
    owners, _ = read_owners(connection)
    shares = {} if owners is None else owners.current.counts()
    seen_ns, bad = directory.seen_ns, directory.bad
    clocks = wrong_clocks(known, seen_ns)
    return Overview(living, missing, left, seen_ns, bad, newest, shares, lacking(connection), clocks)
