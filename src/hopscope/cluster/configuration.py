"""The configuration of all members: one key of a bucket that keeps its last 64 revisions.

It has changes to each member's own limits, in the form of the control socket's `set_limits`. Anyone with
credentials for NATS can write it, so it is validated when it is read, and again when a member applies it, all
or nothing.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from .buckets import Bucket, Entry
from .connection import ClusterError, Connection
from .membership.members import Text, first_problem

KEY = "configuration"
MAX_BYTES = 512 * 1024
"""Longest configuration."""
CHANGED = "configuration"
"""Subject, below the cluster's, of the message that follows a change."""
Value = Annotated[int, Field(ge=0, lt=2**63)] | str | None
Metrics = dict[Text, dict[Text, Value]]


class ConflictError(ClusterError):
    """Somebody else made a change first; nothing was changed."""

    status = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """Changes of limits."""

    general: Metrics = field(default_factory=dict)
    """Limits of all switches by metric and limit; None: never."""
    switches: dict[Text, Metrics | None] = field(default_factory=dict)
    """Limits of single switches by node id; "general": inherit; None in place of metrics: no own limits."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The stored configuration."""

    limits: Limits = field(default_factory=Limits)
    by: Text = ""
    """Author of the change."""
    note: Text = ""
    """Purpose of the change."""

    def encode(self) -> bytes:
        """The stored form, JSON. Raises ClusterError if it is too long."""
        value = json.dumps(asdict(self), separators=(",", ":")).encode()
        if len(value) > MAX_BYTES:
            raise ClusterError(
                f"found a configuration of {len(value):,} bytes, expected at most {MAX_BYTES:,}"
            )
        return value


@dataclass(frozen=True, slots=True)
class Revision:
    """A configuration with its number, 0 if there is none yet."""

    number: int = 0
    time_ns: int = 0
    """When the server stored it."""
    configuration: Configuration = field(default_factory=Configuration)
    problem: str = ""
    """Why the stored configuration cannot be read; empty: it can."""


class Configurations:
    """The revisions of a cluster. Methods raise ClusterError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._bucket = Bucket(connection, connection.names.configuration)
        self._subject = connection.names.subject(CHANGED)

    def newest(self) -> Revision:
        """The newest revision."""
        entry = self._bucket.get(KEY)
        return Revision() if entry is None else _revision(entry)

    def history(self) -> list[Revision]:
        """The revisions that are kept, newest first."""
        return [_revision(entry) for entry in reversed(self._bucket.history(KEY))]

    def at(self, number: int) -> Revision:
        """A kept revision."""
        entry = self._bucket.at(KEY, number) if number > 0 else None
        if entry is None:
            raise ClusterError(
                f"revision {number} of the configuration is not kept; see `cluster config history`"
            )
        return _revision(entry)

    def put(self, configuration: Configuration, after: int) -> int:
        """Store a configuration as the revision that follows `after`; returns its number.

        Raises ConflictError if that is not the newest one.
        """
        number = self._bucket.change(KEY, configuration.encode(), after)
        if number is None:
            newest = self.newest()
            who = f" by {newest.configuration.by}" if newest.configuration.by else ""
            raise ConflictError(
                f"the configuration was changed{who} meanwhile, to revision {newest.number}: nothing was "
                "changed by this command; look at it, and try again"
            )
        self._connection.send(self._subject, b"%d" % number)
        return number

    def follow(self, changed: Any) -> None:
        """Call `changed` with no arguments after changes, in the loop of the connection."""

        async def take(_: Any) -> None:
            changed()

        self._connection.answer(self._subject, take)


def merged(before: Limits, changes: Limits, without: Limits) -> Limits:
    """Limits after `changes` were made, and the keys in `without` removed."""
    general = _merged(before.general, changes.general, without.general)
    switches = dict(before.switches)
    for node in {*changes.switches, *without.switches}:
        given = changes.switches.get(node, {})
        own = None if given is None else _merged(
            switches.get(node) or {}, given, without.switches.get(node) or {}
        )  # fmt: skip
        if own == {} and node not in changes.switches:
            switches.pop(node, None)
        else:
            switches[node] = own
    return Limits(general, {node: own for node, own in switches.items() if own != {}})


def _merged(before: Metrics, changes: Metrics, without: Metrics) -> Metrics:
    after = {metric: dict(limits) for metric, limits in before.items()}
    for metric, limits in changes.items():
        after.setdefault(metric, {}).update(limits)
    for metric, limits in without.items():
        for limit in limits:
            after.get(metric, {}).pop(limit, None)
    return {metric: limits for metric, limits in after.items() if limits}


def _revision(entry: Entry) -> Revision:
    try:
        if len(entry.value) > MAX_BYTES:
            raise ValueError(f"found {len(entry.value):,} bytes, expected at most {MAX_BYTES:,}")
        configuration = _form().validate_json(entry.value, strict=True)
    except ValidationError as error:
        return Revision(entry.revision, entry.time_ns, problem=first_problem(error))
    except ValueError as error:
        return Revision(entry.revision, entry.time_ns, problem=str(error))
    return Revision(entry.revision, entry.time_ns, configuration)


@cache
def _form() -> TypeAdapter[Any]:
    return TypeAdapter(Configuration)
