"""Main of the export process: rings to destinations."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..base.names import Names
from ..base.stop import Stop
from ..detect.records import EVENT, EVENT_VERSION, PATH_PART
from ..detect.sink.records import EVICTED, EVICTED_VERSION, SINK_EVENT_VERSION
from ..detect.sink.rings import EVENT_RING, EVICTION_RING
from ..history.files import HistoryError
from ..history.journal_file import read_range
from ..memory.region import Region
from ..memory.rings import LIMIT, Rings
from ..present.collector_state import CollectorState
from ..settings.collector import Settings
from ..settings.destinations.shown import shown
from ..wire.records import Records
from .batch import ExportBatch, RingRead
from .counters import RINGS, DestinationRow, Place, open_counters
from .delivery import stop_all
from .destination import Context
from .exporter import Exporter
from .kinds import METRICS, check_exports, destination_class, places
from .metrics.families import Families
from .metrics.sender import MetricsSender
from .positions import FOLDER
from .redis.destination import Redis
from .sender import Sender
from .state import StateFeed

TURN_SECONDS = 0.1
CLOSE_SECONDS = 5.0
"""Maximum time for destinations to deliver their queues at the end."""
KINDS = {
    "events": ("events", EVENT_VERSION),
    "sink_events": (EVENT_RING, SINK_EVENT_VERSION),
    "evicted": (EVICTION_RING, EVICTED_VERSION),
}
"""Kinds of rings by field of ExportBatch, in the order of `counters.RINGS`."""


def destinations(settings: Settings) -> list[Place]:
    """Every destination. Raises HopscopeError if one lacks a requirement."""
    check_exports(settings)
    return [
        *(Place("redis", shown(item.url)) for item in settings.redis),
        *places(settings),
    ]


def run(settings: Settings, folder: Path, stop: Stop, *, sink_rings: bool = False) -> None:
    """Export until `stop` is set; then deliver the rest for at most CLOSE_SECONDS.

    `sink_rings`: workers write sink events and evicted flows to rings of their own.
    """
    region = open_counters(folder, destinations(settings))
    exporters = list(exporters_of(settings, folder / "regions", region["destinations"], sink_rings))
    wanted = frozenset[str]().union(*(exporter.reads for exporter in exporters))
    source = RingSource(folder / "regions", region, wanted, folder)
    rows = region["destinations"][len(exporters) :]
    senders: list[Sender | MetricsSender] = [
        *senders_of(settings, folder, rows),
        *metrics_senders_of(settings, folder, rows[len(settings.export) :]),
    ]
    for exporter in exporters:
        exporter.start()
    for sender in senders:
        sender.start()
    full = False
    try:
        while not stop.wait(0.0 if full else TURN_SECONDS):
            full = _turn(source, exporters)
    finally:
        until = time.monotonic() + CLOSE_SECONDS
        while _turn(source, exporters) and time.monotonic() < until:
            pass
        stop_all([*exporters, *senders], until - time.monotonic())


def senders_of(settings: Settings, folder: Path, rows: Records) -> Iterator[Sender]:
    """Every destination of `settings.export`, with its DESTINATION."""
    names = Names.load(settings.names)
    member = settings.member or socket.gethostname()
    for at, (name, export) in enumerate(settings.export.items()):
        row = DestinationRow(rows[at : at + 1])
        state = folder / FOLDER / f"{name}.state"
        by_port = settings.detect.queue_key == "switch-port-queue"
        context = Context(name, member, names, row.count, state, by_port)
        yield Sender(destination_class(export.kind)(export, context), folder, row)


def metrics_senders_of(settings: Settings, folder: Path, rows: Records) -> Iterator[MetricsSender]:
    """Every destination of `settings.metrics`, with its DESTINATION."""
    names = Names.load(settings.names)
    member = settings.member or socket.gethostname()
    for at, (name, metrics) in enumerate(settings.metrics.items()):
        row = DestinationRow(rows[at : at + 1])
        destination = METRICS[metrics.kind](metrics, Context(name, member, names, row.count))
        families = Families(
            CollectorState(folder), names, folder, settings.stores_folder, settings.serve.top_flows
        )
        yield MetricsSender(destination, families.collect, row)


def exporters_of(
    settings: Settings, regions: Path, rows: Records, sink_rings: bool
) -> Iterator[Exporter[Any]]:
    """Every destination, in the order of `destinations`, with its DESTINATION."""
    names = Names.load(settings.names)
    for at, redis in enumerate(settings.redis):
        state = None
        if {"flows", "distributions"} & set(redis.contents):
            state = StateFeed(
                regions,
                redis.flush_seconds,
                "flows" in redis.contents,
                "distributions" in redis.contents,
            )
        yield Redis(redis, names, rows[at : at + 1], state, settings.detect.idle_seconds, sink_rings)


def _turn(source: RingSource, exporters: list[Exporter[Any]]) -> bool:
    """Export new records of the rings once; returns whether there may be more."""
    batch = source.read()
    if batch.count or batch.lost:
        for exporter in exporters:
            exporter.export(batch)
    return any(len(block) >= LIMIT for kind in KINDS for block in getattr(batch, kind).blocks)


class RingSource:
    """Reads the rings of these kinds; the positions are in the region of the counters. Events that their ring
    has overwritten come from the journals of the data folder `folder`.
    """

    def __init__(
        self, regions: Path, counters: Region, kinds: frozenset[str], folder: Path | None = None
    ) -> None:
        self._folder = folder
        missed = {} if folder is None else {"events": self._journalled}
        self._rings = {
            kind: Rings(regions, *KINDS[kind], following=counters[name], missed=missed.get(kind))
            for kind, name in zip(KINDS, RINGS, strict=True)
            if kind in kinds
        }
        self._parts: dict[int, Records] = {}

    def read(self) -> ExportBatch:
        """Records since the last call."""
        found: dict[str, Any] = {kind: RingRead(*rings.read()) for kind, rings in self._rings.items()}
        if "evicted" in found:
            blocks = [whole for block in found["evicted"].blocks if len(whole := self._whole(block))]
            found["evicted"] = RingRead(blocks, found["evicted"].lost)
        return ExportBatch(**found)

    def _journalled(self, shard: int, first: int, end: int) -> Records:
        assert self._folder is not None
        try:
            return read_range(self._folder, shard, first, end)
        except HistoryError:  # its writer reports it
            return np.empty(0, EVENT)

    def _whole(self, block: Records) -> Records:
        """The block without an incomplete flow at its end, which is kept for the next block."""
        shard = int(block["shard"][0])
        waiting = self._parts.pop(shard, np.empty(0, EVICTED))
        if len(waiting) and waiting["sequence"][-1] + np.uint64(1) != block["sequence"][0]:
            # the rest of the kept flow is lost: the next parts belong to another one
            block = block[np.logical_or.accumulate(block["first_hop"] == 0)]
        block = np.concatenate([waiting, block])
        heads = np.flatnonzero(block["first_hop"] == 0)
        if len(heads) and int(block["hop_count"][heads[-1]]) > (len(block) - heads[-1]) * PATH_PART:
            self._parts[shard] = block[heads[-1] :]
            return block[: heads[-1]]
        return block
