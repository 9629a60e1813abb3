"""State and events."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .limits import MAX_SWITCHES, LimitSettings, SwitchLimits, ThresholdSettings
from .section import PowerOfTwo, Seconds, Section


class DetectSettings(Section):
    """State and events."""

    enabled: bool = True
    """If off, every value of every report becomes an event."""
    flow_rows: PowerOfTwo = Field(default=8192, ge=1, le=2**30)
    """Rows of the flow table, of 12 flows each; a power of two."""
    hop_pool: int = Field(default=1024, ge=0, le=2**30)
    """Number of flows with more than 8 hops whose hops are all kept. Each takes 3.5 KiB of shared memory from
    the start. Further such flows keep only their first 8 hops, and their reports take two to three times as
    long.
    """
    ports: PowerOfTwo = Field(default=65_536, ge=16, le=2**30)
    """Queues, buffers and egress ports that can be tracked, a power of two."""
    sources: PowerOfTwo = Field(default=4096, ge=16, le=2**30)
    """Sequence spaces (source, node, hw id) that can be tracked, a power of two."""
    push_seconds: Seconds = 10.0
    """How often live values are stored even if they did not change; 0: never."""
    idle_seconds: Seconds = Field(default=60.0, gt=0)
    """A flow, queue or port expires after this time without reports."""
    silent_seconds: Seconds = 5.0
    """A source is silent after this time without reports; 0: never."""
    queue_reports: int = Field(default=65_536, ge=1024, le=2**30)
    """With several workers: reports of one worker that can wait for the detector, with four hops each on
    average.
    """
    queue_key: Literal["switch-port-queue", "switch-queue"] = "switch-port-queue"
    """What identifies a queue: (switch, egress port, queue id), or (switch, queue id) as in Table I of the
    INTCollector paper.
    """
    thresholds: ThresholdSettings = ThresholdSettings()
    """Limits by metric, of a collector and of a sink."""
    switches: tuple[SwitchLimits, ...] = Field(default=(), max_length=MAX_SWITCHES)
    """Switches with limits of their own, which replace those of `detect.thresholds`."""

    @property
    def queue_by_port(self) -> bool:
        """Whether keys of queues include the port."""
        return self.queue_key == "switch-port-queue"

    @property
    def limits(self) -> LimitSettings:
        """Limits of all switches, and of single ones."""
        return LimitSettings(general=self.thresholds, switches=self.switches)
