"""Models of labels (INT-label)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .common import Body, ClusterModel, Model, Node, OfMember, OfMembers, Page, Port, Time, Wide


class LabelPort(OfMembers):
    """An egress port that labels packets, and its newest label (INT-label, Algorithm 4)."""

    node: Node
    port: Port
    last_seen: Time | None
    """When the newest label arrived; null: none yet."""
    age_ns: Wide | None
    """Time since then, ns."""
    label_time_ns: Wide | None
    """When the switch wrote it, by the switch's clock."""
    latency_ns: int | None
    """Latency of the labelled packet in the switch."""
    occupancy: int | None
    """Occupancy of the egress queue at that time, bytes."""
    ingress_port: Port | None
    """Ingress port of the labelled packet."""
    labels: Wide
    late: Wide
    """Labels discarded because a newer one had overtaken them."""
    labels_per_second: float
    """Over the last whole second."""
    active: bool | None
    """Whether it sent packets in the last whole telemetry interval; null: not counted."""
    silent: bool
    """Whether it has sent no label for `label.silent_seconds`: its alarm is raised."""
    s: int
    """Reg2: the port labels every T / 2^S; with mode `one-bit` 1 means every packet."""


class LabelPage(Page, ClusterModel):
    """Ports that label."""

    mode: Literal["off", "shift", "one-bit"] | None
    """How the controller changes intervals; null: this collector takes no labels."""
    interval_ns: Wide | None
    """T."""
    timeout_ns: Wide | None
    """k T: a port without a label for this long is late."""
    items: list[LabelPort]


class TrackedHop(Model):
    """A switch on a tracked flow's path."""

    node: Node
    ingress_port: Port
    egress_port: Port
    label_time_ns: Wide
    """When the switch wrote its newest label, by its own clock."""
    latency_ns: int
    """Latency of the newest packet in the switch."""
    highest_latency_ns: int
    """Highest value since the path was first reported."""
    occupancy: int
    """Occupancy of the egress queue at that time, bytes."""
    highest_occupancy: int
    """Highest value since the path was first reported."""


class TrackedTuple(Model):
    """A tracked flow's 5-tuple."""

    src: str
    dst: str
    proto: int
    """IP protocol number; with IPv6 it may be that of an extension header."""
    sport: int
    """0 for protocols without ports, and for fragments."""
    dport: int


class TrackedFlow(OfMember):
    """A tracked flow, with its newest path (INT-label, 3.3)."""

    flow: TrackedTuple
    first_seen: Time
    """When its first packet arrived."""
    last_seen: Time
    """When its newest packet arrived."""
    age_ns: Wide
    """Time since then, ns."""
    packets: Wide
    """Tracked packets received."""
    late: Wide
    """Packets skipped because a newer one had already arrived."""
    partial: Wide
    """Packets that lacked labels of some switches on the path."""
    packets_per_second: float
    """Tracked packets, over the last whole five seconds."""
    latency_ns: Wide
    """Sum of the latencies in the switches on the path."""
    hop_count: int
    """Hops of the path; `path` has the first 32 at most."""
    path: list[TrackedHop]
    """From the source to the sink."""
    changes: Wide
    """Path changes."""
    changed: Time | None
    """When the path changed last; null: never."""
    previous_path: list[TrackedHop] | None
    """The previous path, as last received."""


class TrackedPage(Page, ClusterModel):
    """Tracked flows."""

    items: list[TrackedFlow]


class TrackedRule(Body):
    """A flow that the switches track."""

    src: str = Field(max_length=60)
    """Address of the sender."""
    dst: str = Field(max_length=60)
    """Address of the receiver, of the same version."""
    every: int = Field(default=100, ge=1, lt=2**31)
    """All switches label one of this many packets."""


class LabelRecord(OfMember):
    """Labels of a port in a period."""

    time: Time
    """End of the period."""
    node: Node
    port: Port
    labels: int
    latency_ns: Wide | None
    """Mean latency of the labelled packets in the switch; null, here and below: the event with it is lost."""
    highest_latency_ns: Wide | None
    occupancy: Wide | None
    """Mean of the egress queue, bytes."""
    highest_occupancy: Wide | None


class LabelHistory(ClusterModel):
    """Labels by port and period, the newest first."""

    items: list[LabelRecord]
    truncated: bool
    """There are more than `limit`."""


class CoverageRecord(OfMember):
    """Coverage of a period."""

    time: Time
    """End of the period."""
    intervals: int
    """Telemetry intervals with traffic."""
    coverage: float
    """Mean coverage of these intervals."""
    lowest: float


class CoverageHistory(ClusterModel):
    """Coverage by period, the newest first."""

    items: list[CoverageRecord]
    truncated: bool
    """There are more than `limit`."""


class CoverageInterval(Model):
    """One telemetry interval."""

    begin: Time
    active: int
    """Ports with traffic; without switches' counters, ports with labels in the last ten seconds."""
    reported: int
    """Active ports of which labels arrived."""
    coverage: float | None
    """reported / active; null where no port was active."""
    labels: int
    packets: int
    """Packets that carried the labels."""
    raised: int
    """Ports whose Reg2 is not 0."""


class CoverageSeries(Model):
    """Coverage by telemetry interval, the oldest first."""

    telemetry_ns: Wide | None
    """Length of an interval; null: no labels are taken."""
    mean: float | None
    """Unweighted mean of all intervals shown in which a port was active."""
    intervals: int
    """Intervals shown."""
    expected_intervals: int
    """Intervals from the first shown to the last: more than `intervals` if some were skipped."""
    items: list[CoverageInterval]
