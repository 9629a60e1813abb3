"""Settings of the INT sink: limits, quotas, adaptive thresholds, what goes on, distributions."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .section import Limit, PowerOfTwo, Seconds, Section, host_and_port


class SinkLimits(Section):
    """Limits of one measure."""

    change: Limit = None
    """C event: a value differs by more than this from that of the flow's previous packet; `never`: not at
    all."""
    above: Limit = None
    """T event: a value is above this, on every packet; `never`: not at all."""


class SinkThresholds(Section):
    """Limits by measure and class of events; times in ns, the others in the unit that the switches send."""

    hop_latency: SinkLimits = SinkLimits(change=20_000)
    """Latency of one hop of a flow."""
    queue_occupancy: SinkLimits = SinkLimits(change=500)
    """Occupancy of the queue that the packet waited in."""
    link_utilization: SinkLimits = SinkLimits(change=100)
    """Utilisation of the egress link."""


class SinkSwitch(Section):
    """Limits of one switch; those that are not given are those of all."""

    node: Annotated[int, Field(ge=0, le=2**32 - 2)]
    """Its node id."""
    hop_latency: SinkLimits | None = None
    """Latency of one hop of a flow."""
    queue_occupancy: SinkLimits | None = None
    """Occupancy of the queue that the packet waited in."""
    link_utilization: SinkLimits | None = None
    """Utilisation of the egress link."""


MOST_SWITCHES = 4096
"""Switches that can have limits of their own."""
MOST_EVENTS = 10**9
"""Events a second that a rate can ask for: more than any sink finds."""


class AdaptSettings(Section):
    """Thresholds that rise when there are more events than can be taken, and fall again."""

    enabled: bool = False
    """Whether thresholds follow the rate of events."""
    events_per_second: int = Field(default=200_000, ge=1)
    """Most events a second of one worker that the readers of its ring take."""
    factor: float = Field(default=1.25, gt=1, le=10)
    """One step: limits are multiplied or divided by this."""
    highest: float = Field(default=64.0, ge=1, le=1e6)
    """Limits are at most so many times those of the configuration."""
    seconds: Seconds = Field(default=1.0, gt=0)
    """Time between steps; thresholds fall again after ten of them with less than half of the rate."""


def _collector(value: str) -> str:
    if value:
        host_and_port(value, least=1)
    return value


class SinkReportSettings(Section):
    """Telemetry Reports that the sink sends to another collector."""

    to: Annotated[str, AfterValidator(_collector)] = ""
    """Collector, as `192.0.2.1:32766`; empty: none."""
    when: Literal["packet", "event", "flow"] = "event"
    """`packet`: of each packet with INT; `event`: of those that caused an event; `flow`: one of each flow as
    it leaves the table, and every `flow_seconds`, with means (SmartNIC INT sink, II-B)."""
    version: Literal["0.5", "1.0", "2.0"] = "2.0"
    """Version of the report."""
    node: int = Field(default=0, ge=0, le=2**32 - 1)
    """Node id of this sink."""
    flow_seconds: Seconds = 10.0
    """`flow`: period; 0: only as the flow leaves."""


class SinkSettings(Section):
    """The INT sink (`hopscope sink`): INT packets in, original packets, flows and events out."""

    enabled: bool = False
    """Whether workers are sinks; `hopscope sink` sets it."""
    strip: bool = True
    """Frames that go on have their INT removed; off: they go on as they came."""
    thresholds: SinkThresholds = SinkThresholds()
    """Limits of every switch."""
    end_to_end: SinkLimits = SinkLimits(change=50_000)
    """Limits of the sum of a packet's hop latencies."""
    switches: tuple[SinkSwitch, ...] = Field(default=(), max_length=MOST_SWITCHES)
    """Switches with limits of their own."""
    quota: int = Field(default=0, ge=0, le=10**9)
    """Most events a second of one type and worker; 0: no limit. What is held back is counted by type."""
    ring_events: PowerOfTwo = Field(default=65_536, ge=1024, le=2**26)
    """Events in a worker's event ring, a power of two."""
    ring_evictions: PowerOfTwo = Field(default=65_536, ge=1024, le=2**24)
    """Flows in a worker's eviction ring, a power of two; 512 bytes each."""
    journal_events: int = Field(default=10_000, ge=0, le=10**9)
    """Most events a second that one worker keeps in history; the rings have all, and the rest is counted."""
    adapt: AdaptSettings = AdaptSettings()
    """Thresholds that follow the rate of events."""
    report: SinkReportSettings = SinkReportSettings()
    """Telemetry Reports to another collector."""

    @model_validator(mode="after")
    def _once(self) -> SinkSettings:
        nodes = [switch.node for switch in self.switches]
        if len(set(nodes)) < len(nodes):
            twice = next(node for node in nodes if nodes.count(node) > 1)
            raise ValueError(f"found two switches with node = {twice}, expected one each")
        return self


def _edges(value: object) -> object:
    return () if value == "log" else value


Edge = Annotated[int, Field(ge=0, le=2**63 - 1)]
Edges = Annotated[tuple[Edge, ...], Field(max_length=127), BeforeValidator(_edges)]


class DistributionSettings(Section):
    """How often which value occurred, by switch, egress port and queue."""

    enabled: bool | None = None
    """On or off; without: on in a sink, off in a collector."""
    queues: PowerOfTwo = Field(default=4096, ge=16, le=2**20)
    """(Switch, egress port, queue) that can be kept, a power of two."""
    hop_latency: Edges = ()
    """Upper edges of the bins, rising; `log` or empty: four bins an octave."""
    queue_occupancy: Edges = ()
    """See hop_latency."""
    link_utilization: Edges = ()
    """See hop_latency."""
    end_to_end: Edges = ()
    """See hop_latency."""
    period_seconds: Seconds = Field(default=10.0, gt=0)
    """History has one distribution a period: the resolution of time windows."""

    @model_validator(mode="after")
    def _rising(self) -> DistributionSettings:
        for name in ("hop_latency", "queue_occupancy", "link_utilization", "end_to_end"):
            edges = getattr(self, name)
            if any(low >= high for low, high in pairwise(edges)):
                raise ValueError(f"{name}: found {list(edges)}, expected edges that rise")
        return self
