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
    """Whether it ended repeatedly, and is left stopped for a while."""
    restarts: int
    last_error: str | None
    """Why it ended last."""
    tick_seconds: float | None
    """Time since the last sign of life from its loop; null: none yet, or it has no loop."""
    cpu_seconds: float | None
    """CPU time since its last start."""
    cpu_ratio: float | None
    """Share of one processor used in the last seconds; null: not known yet."""
    memory_bytes: int | None
    """Resident memory; shared memory counts in each process."""


class Listener(Model):
    """An address or interface that receives reports, labels or packets."""

    kind: str
    url: str
    dialect: str
    output: str
    """Interface to which a sink forwards; empty: none."""


class SystemComponent(Component):
    """Health of one part."""

    needed: bool
    """Whether the collector is only ready if this component is."""


class Destination(Model):
    """A destination of events or metrics."""

    name: str
    kind: str
    place: str
    """Address, without a password."""
    ok: bool
    since: Time | None
    """Since when it has been in this state; null: it has not answered yet."""
    problem: str
    waiting_events: Wide | None
    """Events not confirmed yet, including those filtered out for it; null: it takes no events."""
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
    """Below this free space, the oldest files are deleted; below half of it, no events are written."""
    parts: dict[str, Files]
    """Files of the journal, of segments, and of distributions."""
    retention: Retention | None
    oldest: Time | None
    """Time of the oldest event."""
    failing: bool
    """Whether the disk accepts no events, which then wait in memory."""
    waiting_events: Wide
    lost_events: Wide
    damaged_files: int


class System(Model):
    """The collector itself."""

    time: Time
    version: str
    running: bool
    """Whether a collector runs on the data folder; if not, the rest is about the last one."""
    started: Time | None
    data: str
    """The data folder."""
    listeners: list[Listener]
    labels: str | None
    """Address on which labels are received."""
    ready: bool
    processes: list[Process]
    components: list[SystemComponent]
    destinations: list[Destination]
    history: HistoryState | None
    """null: the data folder cannot be read."""
    cluster: dict[str, Any] | None
    """The cluster as this member sees it, like `hopscope cluster status --format json`."""
    lake: dict[str, Any] | None
    """How far its events have reached the lake, like `hopscope lake status --format json`."""


class ProcessCounter(CounterValue):
    """A counter of a process."""

    process: str
    """`workers` stands for the sum of all workers."""
    meaning: str
    """Meaning of the label's value; empty: see `help`."""
    gauge: bool
    """Whether the value may fall; otherwise it only rises."""
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
    """Its counters in the kernel: packets, bytes, drops and errors, in and out; empty if it is missing."""


class SinkSettings(Model):
    """Settings of the sink."""

    strip: bool
    """Whether INT is removed."""
    forwarding: str
    """`auto`, `xdp` or `ring`."""
    bypass: bool
    """Whether the kernel passes frames while no worker does."""
    quota: int
    """Maximum number of events per second of one type in one worker; 0: no limit."""
    journal_events: int
    """Maximum number of events per second that one worker writes to history; 0: none."""
    journal_flows: int
    """Maximum number of flow records per second that one worker writes to history; 0: none."""


class Sink(Model):
    """The INT sink."""

    enabled: bool
    """Whether this collector is a sink; if not, the other fields are not set."""
    settings: SinkSettings | None
    interfaces: list[SinkInterface]
    threshold_increase: float
    """How far the adaptive thresholds exceed the configured ones: 0.5 means 1.5 times as high."""
    counters: dict[str, list[ProcessCounter]]
    """Counters by group: `in`, `out`, `int`, `kept` (not stripped), `dropped`, `kernel`, `events`,
    `throttled`, `report`.
    """
