"""Settings of the INT sink: quotas, adaptive thresholds, forwarding, distributions."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from .section import PowerOfTwo, Receiver, Seconds, Section


class AdaptSettings(Section):
    """Adaptive thresholds: they rise if readers cannot keep up with the events, and fall again later."""

    enabled: bool = False
    """Whether thresholds follow the rate of events."""
    events_per_second: int = Field(default=200_000, ge=1)
    """Events per second of one worker above which thresholds rise."""
    factor: float = Field(default=1.25, gt=1, le=10)
    """Factor by which one step multiplies or divides the limits."""
    max_factor: float = Field(default=64.0, ge=1, le=1e6)
    """Highest multiple of the configured limits."""
    step_seconds: Seconds = Field(default=1.0, gt=0)
    """Time between steps; thresholds fall after ten steps with less than half of that rate."""


class SinkReportSettings(Section):
    """Telemetry Reports that the sink sends to another collector."""

    to: Receiver = ""
    """Address of the collector, such as `192.0.2.1:32766`; empty: none."""
    when: Literal["packet", "event", "flow"] = "event"
    """`packet`: for each packet with INT or IFA; `event`: for packets that caused an event; `flow`: for each
    flow when it leaves the table, and every `flow_seconds`, with means (SmartNIC INT sink, II-B)."""
    version: Literal["0.5", "1.0", "2.0"] = "2.0"
    """Version of the report."""
    node: int = Field(default=0, ge=0, le=2**32 - 1)
    """Node id of this sink."""
    flow_seconds: Seconds = 10.0
    """`flow`: time between reports of a live flow; 0: only when it leaves the table."""


class SinkSettings(Section):
    """The INT sink (`hopscope sink`): INT packets in, original packets, flows and events out."""

    enabled: bool = False
    """Whether workers are sinks; `hopscope sink` sets it."""
    strip: bool = True
    """Remove INT, IFA and IOAM from forwarded frames; if off, they are forwarded unchanged."""
    forwarding: Literal["auto", "xdp", "ring"] = "auto"
    """What forwards plain frames. `xdp`: a program in the kernel, which also removes their INT and passes all
    other frames to the workers. `ring`: the workers alone. `auto`: the program where it forwards the same
    frames as the workers, else the workers; the log has the reason. The program needs root, or CAP_BPF with
    CAP_NET_ADMIN and CAP_PERFMON.
    """
    bypass: bool = True
    """While no worker forwards (the sink was stopped, is being upgraded, hangs, or was killed), the kernel
    forwards frames unchanged. This stays on after the sink ends, until it is started with `false`. It needs
    Linux 5.8 and root, or CAP_BPF with CAP_NET_ADMIN.
    """
    bypass_seconds: Seconds = Field(default=0.5, ge=0.05, le=60)
    """How long a worker may stand still before frames bypass it."""
    quota: int = Field(default=0, ge=0, le=10**9)
    """Most events per second of one type and worker; 0: no limit. Suppressed events are counted by type."""
    ring_events: PowerOfTwo = Field(default=65_536, ge=1024, le=2**26)
    """Events in a worker's event ring, a power of two."""
    ring_evictions: PowerOfTwo = Field(default=65_536, ge=1024, le=2**24)
    """Flows in a worker's eviction ring, a power of two; 512 bytes each."""
    journal_events: int = Field(default=10_000, ge=0, le=10**9)
    """Most events per second that one worker writes to history. The rings have all events; events missing in
    history are counted.
    """
    journal_flows: int = Field(default=2000, ge=0, le=10**9)
    """Most flows per second that one worker writes to history when they leave the table; a flow record has
    packets, path and means per hop. When the sink ends, it writes all flows that remain. The eviction ring
    has all flows; flows missing in history are counted.
    """
    adapt: AdaptSettings = AdaptSettings()
    """Adaptive thresholds."""
    report: SinkReportSettings = SinkReportSettings()
    """Telemetry Reports to another collector."""


def _edges(value: object) -> object:
    return () if value in ("log", ["log"]) else value


Edge = Annotated[int, Field(ge=0, le=2**63 - 1)]
Edges = Annotated[tuple[Edge, ...], Field(max_length=127), BeforeValidator(_edges)]


class DistributionSettings(Section):
    """Histograms of metric values by switch, egress port and queue."""

    enabled: bool | None = None
    """Whether to count distributions; by default, a sink does and a collector does not."""
    queues: PowerOfTwo = Field(default=4096, ge=16, le=2**20)
    """Combinations of switch, egress port and queue that can be counted, a power of two."""
    hop_latency: Edges = ()
    """Upper edges of the bins, in ascending order; `log` or empty: four bins per octave."""
    queue_occupancy: Edges = ()
    """See hop_latency."""
    link_utilization: Edges = ()
    """See hop_latency."""
    end_to_end: Edges = ()
    """See hop_latency."""
    period_seconds: Seconds = Field(default=10.0, ge=0.1)
    """Time between distributions in history: the resolution of time ranges."""

    @model_validator(mode="after")
    def _rising(self) -> DistributionSettings:
        for name in ("hop_latency", "queue_occupancy", "link_utilization", "end_to_end"):
            edges = getattr(self, name)
            if any(low >= high for low, high in pairwise(edges)):
                raise ValueError(f"{name}: found {list(edges)}, expected edges in ascending order")
        return self
