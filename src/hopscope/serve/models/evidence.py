"""Models of one event and the report that caused it."""

from __future__ import annotations

from typing import Any

from .alarms import Alarm
from .common import ClusterModel, Event, Model, OfMember, Time, Wide


class EventDetail(Event, ClusterModel):
    """An event with the events around it."""

    before: list[Event]
    """At most five earlier events at the same place, newest first."""
    after: list[Event]
    """At most five later ones, oldest first."""
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
    """Offset in the bytes, from 0."""
    length: int
    """Number of bytes of which it has bits."""
    value: Wide | None
    """Numeric value; null: none, as for a header."""
    text: str
    """Its value as text, or why decoding stopped here."""
    first_bit: int
    """Position of its first bit in the first byte; 0 is the most significant bit."""
    bits: int
    """Its width; 0: whole bytes."""
    about: str
    """Meaning and unit; for a header, the section that defines it."""
    fields: list[ByteField]


class Datagram(Model):
    """A datagram as it was received."""

    hop: int | None
    """Index of the hop whose postcard it carries, from 0; null: it carries the whole report."""
    received: Time
    source: str
    """Address that it came from."""
    dialect: str | None
    """The dialect by which it was decoded; null: unknown."""
    bytes: str
    """Hexadecimal."""
    fields: list[ByteField]
    """Its bytes as nested fields; each byte belongs to fields at the lowest level."""
    note: str | None
    """Why there are no fields."""


class Evidence(OfMember, ClusterModel):
    """The report that caused an event."""

    id: str
    """Id of the event."""
    received: Time
    source: str | None
    """Address that it came from; null for a path joined from postcards."""
    report: dict[str, Any]
    """The report as `hopscope decode` prints it, but numbers above 2^53 - 1 are decimal text. For a joined
    path, or without kept bytes, the report in the collector's own form, with times in ns.
    """
    datagrams: list[Datagram]
    """The datagram that carried it, or the postcards of a joined path in path order."""
    note: str | None
    """Which datagrams are not kept, and why."""
