"""Labels of INT-label as they are read: those of one packet, and its flow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .layout import LabelItem, PublishedItem


class Form(IntEnum):
    """How a packet carries labels."""

    PAPER = 1
    """After the IP header."""
    PUBLISHED = 2
    """After an EtherType, with or without a source route before it."""
    EXPORT = 3
    """In a last hop's datagram, without the packet."""


@dataclass(frozen=True, slots=True)
class LabelFlow:
    """The flow of a packet, as its last hop reports it (LABEL_FLOW)."""

    source: int
    """128 bits, IPv4 as ::ffff:a.b.c.d."""
    destination: int
    protocol: int
    """Protocol of the header after the labels; in IPv6 it may be an extension header."""
    source_port: int = 0
    """0 for packets without ports, and for fragments."""
    destination_port: int = 0


@dataclass(frozen=True, slots=True)
class Labelled:
    """The labels of one packet."""

    form: Form
    next_header: int
    """The packet's original protocol; in the published form the option's first byte."""
    tracked: bool
    """Whether the flow is tracked, so that each switch labels the packet."""
    items: tuple[LabelItem | PublishedItem, ...]
    """Items in the order of the wire, newest first."""
    at: int
    """Offset of the option."""
    end: int
    """Offset after the items."""
    ip: int = 0
    """Offset of the IP header before the option."""
    flow: LabelFlow | None = None
    """The flow, if a last hop reported it."""

    def path(self) -> tuple[LabelItem, ...]:
        """The labels in path order: the source's side first."""
        return tuple(item.state() if isinstance(item, PublishedItem) else item for item in self.items[::-1])
