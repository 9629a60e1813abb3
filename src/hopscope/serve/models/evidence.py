"""Answers of the API about one event and the report that caused it."""

from __future__ import annotations

from typing import Any

from .alarms import Alarm
from .common import ClusterModel, Event, Model, OfMember, Time, Wide


class EventDetail(Event, ClusterModel):
    """An event with those around it."""

    before: list[Event]
    """At most five at the same place, the newest first."""
    after: list[Event]
    """At most five, the oldest first."""
    alarm: Alarm | None
    """The open alarm of its metric at its place."""
    live: bool
    """Whether its flow is live."""
    evidence: bool
    """Whether the report that caused it is kept."""


class ByteField(Model):
    """A field of a report, or a header with its fields."""

    name: str
    offset: int
    """In the bytes, from 0."""
    length: int
    """Bytes that it touches."""
    value: Wide | None
    """Its number; null: it has none, as a header."""
    text: str
    """Its value for people, or why it was not read further."""
    first_bit: int
    """Where it begins in its first byte; 0 is the most significant bit."""
    bits: int
    """Its width; 0: whole bytes."""
    about: str
    """Meaning and unit; of a header, the section that defines it."""
    fields: list[ByteField]


class Datagram(Model):
    """A datagram as it was received."""

    hop: int | None
    """The hop of the path whose postcard is in it, from 0; null: it has the whole report."""
    received: Time
    source: str
    """Address that it came from."""
    dialect: str | None
    """The dialect that it was decoded by; null: not known."""
    bytes: str
    """Hexadecimal."""
    fields: list[ByteField]
    """Its bytes, field by field: each is in one field that has no fields."""
    note: str | None
    """Why there are no fields."""


class Evidence(OfMember, ClusterModel):
    """The report that caused an event."""

    id: str
    """Of the event."""
    received: Time
    source: str | None
    """Address that it came from; null: a path that was joined from postcards."""
    report: dict[str, Any]
    """As `hopscope decode` prints it, but numbers above 2^53 - 1 are decimal text; of a joined path, and
    without bytes, as the collector had it: times are ns.
    """
    datagrams: list[Datagram]
    """What it came in: one, or the postcards of a joined path in its order."""
    note: str | None
    """Which datagrams are not kept, and why."""
