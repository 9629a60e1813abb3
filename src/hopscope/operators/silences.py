"""Silences, for events that are expected for a while, for example during maintenance of the network.

A silence hides events in the console, and suppresses alerts. Nothing else changes: events are detected,
written and exported as before.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import lru_cache
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

from ..base.errors import HopscopeError
from ..memory.data_folder import OPERATORS_FILE
from .audit import Audit, Author
from .database import Database, Tables

MAX_SILENCES = 1000
LONGEST_NS = 30 * 86_400 * 10**9
"""Longest silence. A silence that has ended is kept for the same time, for late alerts."""
READ_SECONDS = 2.0
"""Interval, s, at which other processes check for changes."""
_TABLES = Tables(
    "silences",
    (
        """
        CREATE TABLE silences (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            kind TEXT NOT NULL,
            metric TEXT NOT NULL,
            node INTEGER,
            port INTEGER,
            prefix TEXT NOT NULL,
            until_ns INTEGER NOT NULL,
            note TEXT NOT NULL,
            who TEXT NOT NULL,
            time_ns INTEGER NOT NULL
        );
        """,
    ),
)
_COLUMNS = "id, kind, metric, node, port, prefix, until_ns, note, who, time_ns"
_FORGET = """
    DELETE FROM silences WHERE until_ns <= ? OR id IN
    (SELECT id FROM silences WHERE until_ns <= ? ORDER BY until_ns DESC LIMIT -1 OFFSET ?)
"""
_BEGINNINGS = {"cleared": "raised", "returned": "silent"}
"""The kind that begins an alarm, by the kind that ends it: a silence of the former also covers the latter."""


class SilenceError(HopscopeError):
    """A silence was refused; the message says why."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """Conditions on events; an empty or None field matches any event."""

    kind: str = ""
    metric: str = ""
    node: int | None = None
    """Node id of the event, or of its source."""
    port: int | None = None
    prefix: str = ""
    """Network that must contain an end of the flow, or the source."""

    def matches(self, event: Mapping[str, Any]) -> bool:
        """Whether an event, as a JSON object of the API, meets the conditions."""
        kind, source = event["kind"], event.get("source")
        if self.kind and self.kind not in (kind, _BEGINNINGS.get(kind)):
            return False
        if self.metric and self.metric != event["metric"]:
            return False
        node = source["node"] if source else event.get("node")
        if self.node is not None and (node is None or node["id"] != self.node):
            return False
        if self.port is not None and (event.get("port") is None or event["port"]["id"] != self.port):
            return False
        if not self.prefix:
            return True
        flow = event.get("flow")
        ends = [source["address"]] if source else [flow["src"], flow["dst"]] if flow else []
        return any(_is_in(address, self.prefix) for address in ends)

    @property
    def is_empty(self) -> bool:
        """Whether there are no conditions, so that every event would match."""
        return self == Matcher()


@dataclass(frozen=True, slots=True)
class Silence:
    """A silence: events that match are silent until `until_ns`."""

    id: int
    matcher: Matcher
    until_ns: int
    note: str
    who: str
    time_ns: int
    """When it was created, ns since the epoch."""


@lru_cache(MAX_SILENCES)
def _network(prefix: str) -> Any:
    return ip_network(prefix, strict=False)


def _is_in(address: str, prefix: str) -> bool:
    try:
        return ip_address(address) in _network(prefix)
    except ValueError:
        return False


def first_match(silences: Iterable[Silence], event: Mapping[str, Any]) -> Silence | None:
    """The first silence that covers an event, or None."""
    return next((silence for silence in silences if silence.matcher.matches(event)), None)


class Silences:
    """The silences in a database; changes are audited. Raises OperatorsError."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database, self._audit = database, audit
        database.declare(_TABLES)

    def all(self) -> list[Silence]:
        """The silences that have not ended, newest first; empty if there is no file yet."""
        if not self._database.path.exists():
            return []
        sql = f"SELECT {_COLUMNS} FROM silences WHERE until_ns > ? ORDER BY id DESC"
        return [_silence(row) for row in self._database.rows(sql, (time.time_ns(),))]

    def add(self, matcher: Matcher, until_ns: int, note: str, author: Author) -> Silence:
        """Add a silence. Raises SilenceError."""
        now_ns = time.time_ns()
        if matcher.is_empty:
            raise SilenceError("a silence of everything is refused: give kind, metric, node, port or prefix")
        if not now_ns < until_ns <= now_ns + LONGEST_NS:
            raise SilenceError("until: expected a time within the next 30 days")
        try:
            _network(matcher.prefix or "::/0")
        except ValueError:
            raise SilenceError(f"prefix: expected a network, found {matcher.prefix[:60]!r}") from None
        with self._database.transaction() as connection:
            connection.execute(_FORGET, (now_ns - LONGEST_NS, now_ns, MAX_SILENCES))
            ((many,),) = connection.execute(
                "SELECT count(*) FROM silences WHERE until_ns > ?", (now_ns,)
            ).fetchall()
            if many >= MAX_SILENCES:
                raise SilenceError(f"there are {MAX_SILENCES:,} silences: end some first")
            number = connection.execute(
                "INSERT INTO silences (kind, metric, node, port, prefix, until_ns, note, who, time_ns) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (matcher.kind, matcher.metric, matcher.node, matcher.port, matcher.prefix, until_ns, note,
                 author.name, now_ns),
            ).lastrowid  # fmt: skip
            self._audit.add(author, "silences.add", str(number), None, {**asdict(matcher), "note": note})
        return Silence(number or 0, matcher, until_ns, note, author.name, now_ns)

    def remove(self, number: int, author: Author) -> bool:
        """End a silence; returns whether there was one with this number."""
        with self._database.transaction() as connection:
            before = next((silence for silence in self.all() if silence.id == number), None)
            if before is not None:
                connection.execute("UPDATE silences SET until_ns = ? WHERE id = ?", (time.time_ns(), number))
                self._audit.add(author, "silences.end", str(number), asdict(before.matcher))
        return before is not None


class SilenceReader:
    """Reads the silences of a data folder, for a process that does not change them. It notices changes within
    READ_SECONDS.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path, self._clock = folder / OPERATORS_FILE, clock
        self._due = 0.0
        self._known: list[Silence] = []
        self.problem = ""
        """Why the last read failed; the silences read before stay in use. Empty: it succeeded."""

    def match(self, event: Mapping[str, Any], at_ns: int) -> Silence | None:
        """A silence, valid now or at `at_ns`, that covers an event of the time `at_ns`, or None."""
        if self._clock() >= self._due:
            self._due = self._clock() + READ_SECONDS
            self._read()
        now_ns = time.time_ns()
        known = (
            silence
            for silence in self._known
            if silence.until_ns > now_ns or silence.time_ns <= at_ns < silence.until_ns
        )
        return first_match(known, event)

    def _read(self) -> None:
        if not self._path.exists():
            self._known = []
            return
        try:
            address = f"{self._path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True)) as connection:
                rows = connection.execute(f"SELECT {_COLUMNS} FROM silences").fetchall()
            self._known, self.problem = list(map(_checked, rows)), ""
        except Exception as error:  # alerts must go on, whatever a damaged file contains
            if "no such table" in str(error):
                self._known = []
            else:
                self.problem = f"{self._path}: {error}"


def _silence(row: tuple[Any, ...]) -> Silence:
    number, kind, metric, node, port, prefix, until_ns, note, who, time_ns = row
    return Silence(number, Matcher(kind, metric, node, port, prefix), until_ns, note, who, time_ns)


def _checked(row: tuple[Any, ...]) -> Silence:
    """The silence in a row, whose file may be damaged. Raises ValueError if it is."""
    found = _silence(row)
    matcher = found.matcher
    if matcher.is_empty or not all(isinstance(time_ns, int) for time_ns in (found.until_ns, found.time_ns)):
        raise ValueError(f"silence {found.id} is damaged")
    _network(matcher.prefix or "::/0")
    return found
