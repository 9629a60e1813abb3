"""Models of the collector itself: processes, disk, destinations, counters."""

from __future__ import annotations

from typing import Any, Literal

from .collector import Component, CounterValue
from .common import Model, Time, Wide


class Process(Model):
    """A process of the collector."""

    name: str
    pid: int | None
    alive: bool
    stopped: bool
    """It ended again and again, and is left stopped for a while."""
    restarts: int
    last_error: str | None
    """Why it ended last."""
    tick_seconds: float | None
    """How long ago its loop last showed that it turns; null: not yet, or it has none."""
    cpu_seconds: float | None
    """Time on processors since its last start."""
    cpu_ratio: float | None
    """Share of one processor over the last seconds; null: not known yet."""
    memory_bytes: int | None
    """Resident memory; what processes share counts in each."""


class Listener(Model):
    """Where reports, labels or packets come in."""

    kind: str
    url: str
    dialect: str
    output: str
    """Interface that a sink forwards to; empty: none."""


class SystemComponent(Component):
    """Health of one part."""

    needed: bool
    """Whether the collector is ready only if this is."""


class Destination(Model):
    """Where events or metrics are sent."""

    name: str
    kind: str
    place: str
    """Without a password."""
    ok: bool
    since: Time | None
    """Since when that is so; null: it has not answered yet."""
    problem: str
    waiting_events: Wide | None
    """Events that it has not confirmed, those that it does not want included; null: it takes no events."""
    lost: dict[str, Wide]
    """Events and samples that did not reach it, by reason."""
    counters: dict[str, Wide]


class Files(Model):
    """Files of a kind."""

    files: int
    bytes: int


class Retention(Model):
    """Size and extent of history."""

    keep_days: float
    keep_bytes: int
    keep_free: int | str


class HistoryState(Model):
    """History and its disk."""

    free_bytes: int
    total_bytes: int
    kept_bytes: int | None
    """Below this free space, the oldest files are deleted; at half of it, no events are written."""
    parts: dict[str, Files]
    """Journal, segments, distributions."""
    retention: Retention | None
    oldest: Time | None
    """Time of the oldest event."""
    failing: bool
    """The disk does not take events: they wait in memory."""
    waiting_events: Wide
    lost_events: Wide
    damaged_files: int


class System(Model):
    """The collector itself."""

    time: Time
    version: str
    running: bool
    """Whether a collector answers on the data folder; else what follows is of the last one."""
    started: Time | None
    data: str
    """The data folder."""
    listeners: list[Listener]
    labels: str | None
    """Where labels are received."""
    ready: bool
    processes: list[Process]
    components: list[SystemComponent]
    destinations: list[Destination]
    history: HistoryState | None
    """null: the data folder cannot be read."""
    cluster: dict[str, Any] | None
    """How this member sees its cluster, as `hopscope cluster status --format json`."""
    lake: dict[str, Any] | None
    """How far the lake has its events, as `hopscope lake status --format json`."""


class ProcessCounter(CounterValue):
    """A counter of a process."""

    process: str
    """`workers` are those of all workers together."""
    meaning: str
    """What the label's value means; empty: `help` says it."""
    gauge: bool
    """The value may fall; else it only rises."""
    advice: str
    """What to do if it rises; empty: nothing."""


class Counters(Model):
    """Every counter of every process."""

    time: Time
    items: list[ProcessCounter]


class SinkInterface(Model):
    """An interface of a sink."""

    name: str
    role: Literal["in", "out", "both"]
    ready: bool
    detail: str
    statistics: dict[str, Wide]
    """Its counters in the kernel: packets, bytes, drops and errors, in and out; empty: it is missing."""


class SinkSettings(Model):
    """How the sink works, from its settings."""

    strip: bool
    """Whether INT is removed."""
    forwarding: str
    """`auto`, `xdp` or `ring`."""
    bypass: bool
    """Whether the kernel passes frames while no worker does."""
    quota: int
    """Most events per second of one type and worker; 0: no limit."""
    journal_events: int
    """Most events per second that one worker writes to history; 0: none."""
    journal_flows: int
    """Most flow records per second that one worker writes to history; 0: none."""


class Sink(Model):
    """The INT sink."""

    enabled: bool
    """Whether this collector is a sink; if not, nothing else is set."""
    settings: SinkSettings | None
    interfaces: list[SinkInterface]
    threshold_increase: float
    """How far the adaptive thresholds are above the configured ones: 0.5 is half again as high."""
    counters: dict[str, list[ProcessCounter]]
    """Counters by what they are about: `in`, `out`, `int`, `kept` (not stripped), `dropped`, `kernel`,
    `events`, `throttled`, `report`."""
