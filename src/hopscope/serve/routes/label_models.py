"""What the API answers about labels."""

from __future__ import annotations

from typing import Literal

from .models import Model, Node, Port, Time, Wide


class LabelPort(Model):
    """An egress port that labels packets, and its newest label (INT-label, Algorithm 4)."""

    node: Node
    port: Port
    heard: Time | None
    """When the newest label arrived; null: none ever did."""
    age_ns: Wide | None
    """How long ago that was."""
    label_time_ns: Wide | None
    """When the switch wrote it, by its own clock."""
    latency_ns: int | None
    """Of the labelled packet in the switch."""
    occupancy: int | None
    """Of the egress queue then, bytes."""
    ingress_port: Port | None
    """Where the labelled packet had come in."""
    labels: Wide
    late: Wide
    """Of these, older than one that was there already: discarded."""
    labels_per_second: float
    """Over the last whole second."""
    active: bool | None
    """Whether it sent packets in the last whole telemetry interval; null: nobody counts them."""
    s: int
    """Reg2: the port labels every T / 2^S; with mode `one-bit` 1 means every packet."""


class LabelPage(Model):
    """Ports that label."""

    mode: Literal["off", "shift", "one-bit"] | None
    """How the controller changes intervals; null: no labels are taken."""
    interval_ns: Wide | None
    """T."""
    patience_ns: Wide | None
    """k T: a port that is not heard of for so long is late."""
    total: int
    """As many match."""
    offset: int
    items: list[LabelPort]


class TrackedHop(Model):
    """A switch on a tracked flow's way."""

    node: Node
    ingress_port: Port
    egress_port: Port
    label_time_ns: Wide
    """When it wrote its newest label, by its own clock."""
    latency_ns: int
    """Of the newest packet in the switch."""
    highest_latency_ns: int
    """Since the way was first told."""
    occupancy: int
    """Of the egress queue then, bytes."""
    highest_occupancy: int
    """Since the way was first told."""


class TrackedTuple(Model):
    """A tracked flow's 5-tuple."""

    src: str
    dst: str
    proto: int
    """IP protocol number; of IPv6 it may be that of an extension header."""
    sport: int
    """0 without ports, and of fragments."""
    dport: int


class TrackedFlow(Model):
    """A tracked flow, with its newest way (INT-label, 3.3)."""

    flow: TrackedTuple
    first: Time
    """When its first packet was heard of."""
    heard: Time
    """When the newest was."""
    age_ns: Wide
    """How long ago that was."""
    packets: Wide
    """Tracked packets heard of."""
    late: Wide
    """Of these, overtaken by a newer one: not looked at."""
    partial: Wide
    """Of these, without the labels of some switches of the way."""
    packets_per_second: float
    """Tracked packets, over the last whole five seconds."""
    latency_ns: Wide
    """Sum of the latencies in the switches of the way."""
    hop_count: int
    """Hops of the way; `way` has the first 32 at most."""
    way: list[TrackedHop]
    """The source's side first."""
    changes: Wide
    """Of the way."""
    changed: Time | None
    """When the way was first heard of; null: it is the first one."""
    previous: list[TrackedHop] | None
    """The way before, as it was last heard of."""


class TrackedPage(Model):
    """Tracked flows."""

    total: int
    """As many match."""
    offset: int
    items: list[TrackedFlow]


class CoverageInterval(Model):
    """One telemetry interval."""

    begin: Time
    active: int
    """Ports with traffic; without switches' counters, ports heard of in the last ten seconds."""
    heard: int
    """Of these, ports that labelled a packet in it whose labels arrived."""
    coverage: float | None
    """heard / active; null where no port was active."""
    labels: int
    packets: int
    """Packets that brought them."""
    raised: int
    """Ports whose Reg2 was not 0."""


class CoverageSeries(Model):
    """Coverage by telemetry interval, the oldest first."""

    telemetry_ns: Wide | None
    """Length of an interval; null: no labels are taken."""
    mean: float | None
    """Coverage of all intervals shown in which a port was active, each counting alike."""
    told: int
    """Intervals shown."""
    of: int
    """Intervals from the first shown to the last: more than `told` where some were left out."""
    items: list[CoverageInterval]
