"""Redis commands for a batch: keys, fields, and chunks.

With PREFIX = `hopscope`:

=============================== ============ ===========================================================
key                             type         what
=============================== ============ ===========================================================
`hopscope:flow:ID`              hash         latest state of a flow; `ended` is empty while it is live
`hopscope:flows`                sorted set   ids of live flows by the time of their last packet, us
`hopscope:flows:ended`          sorted set   ids of evicted flows, by the second in which they expire
`hopscope:events`               stream       events of detection, as in history
`hopscope:sink_events`          stream       events of the sink
`hopscope:distribution:N:M`     hash         measure M at switch N; `all:end_to_end`: of whole paths
`hopscope:distributions`        set          names of all distributions, as `N:M`
=============================== ============ ===========================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from ...base.names import Names
from ...detect.distributions.quantiles import Distribution
from ...detect.flows.flow_walk import FlowBlock
from ...detect.records import Kind, Metric
from ...settings.destinations.redis import RedisSettings
from ...wire.records import Records
from ..batch import ExportBatch
from .flat import (
    Fields,
    distribution_fields,
    event_fields,
    evicted_fields,
    flow_fields,
    left_fields,
    sink_event_fields,
)

T = TypeVar("T")
Command = list[str | int | float | bytes]
CHUNK = 512
"""Maximum events, flows or distributions per chunk."""


@dataclass(slots=True)
class Chunk:
    """Commands sent together."""

    commands: list[Command]
    counter: str = ""
    """Counter of its content; empty: none."""
    count: int = 0
    stream: str = ""
    """Key of the stream, if they are its entries; ids are set when they are sent."""
    gone: list[int] = field(default_factory=list)
    """Ids of the flows evicted with it."""


class Commands:
    """Makes the commands; `live_seconds`: lifetime of a flow without an eviction."""

    def __init__(
        self, settings: RedisSettings, names: Names, live_seconds: float, has_evictions: bool
    ) -> None:
        self._settings = settings
        self._names = names
        self._live = int(live_seconds) + settings.ttl_seconds
        self._has_evictions = has_evictions
        self._contents = frozenset(settings.contents)
        self._refilling = False
        self.flows, self.ended, self._next = (
            self.key("flows"),
            self.key("flows", "ended"),
            self.key("flows", "next"),
        )
        self.streams = (self.key("events"), self.key("sink_events"))

    def key(self, *parts: object) -> str:
        """A key with the prefix."""
        return ":".join([self._settings.prefix, *map(str, parts)])

    def of(self, batch: ExportBatch) -> Iterator[Chunk]:
        """All chunks of a batch, in order."""
        if "events" in self._contents:
            for key, blocks, fields in (
                (self.streams[0], batch.events.blocks, event_fields),
                (self.streams[1], batch.sink_events.blocks, sink_event_fields),
            ):
                for block in blocks:
                    for some in _in_parts(fields(block, self._names)):
                        entries = [self._entry(key, entry) for entry in some]
                        yield Chunk(entries, "events_total", len(entries), stream=key)
        if "flows" in self._contents:
            yield from self._ended(batch)
            if batch.begins:
                self._refilling = True
                yield Chunk([["DEL", self._next]])
            if batch.flows is not None:
                yield from self._flows(batch.flows)
            if batch.ends:
                self._refilling = False
                yield Chunk([["ZUNIONSTORE", self.flows, 1, self._next], ["DEL", self._next]])
        if batch.distributions is not None:
            yield from self._distributions(batch.distributions)

    def _entry(self, key: str, fields: Fields) -> Command:
        return ["XADD", key, "MAXLEN", "~", self._settings.stream_max, "*", *_flat(fields)]

    def _flows(self, block: FlowBlock) -> Iterator[Chunk]:
        scores = iter((block.flows["last_ns"] // 1000).tolist())
        for some in _in_parts(flow_fields(block, self._names)):
            scored = [value for flow in some for value in (next(scores), flow["id"])]
            commands: list[Command] = [["ZADD", self.flows, *scored]]
            if self._refilling:
                commands.append(["ZADD", self._next, *scored])
            commands.append(["ZREM", self.ended, *(flow["id"] for flow in some)])
            for flow in some:
                key = self.key("flow", flow["id"])
                commands += _expiring(key, flow, self._live)
            yield Chunk(commands, "flows_total", len(some))

    def _ended(self, batch: ExportBatch) -> Iterator[Chunk]:
        for block in batch.evicted.blocks:
            yield from self._left(evicted_fields(block, self._names), "evictions_total")
        if not self._has_evictions:
            for block in batch.events.blocks:
                yield from self._left(left_fields(_left(block), self._names), "")

    def _left(self, flows: Iterator[Fields], counter: str) -> Iterator[Chunk]:
        ttl = self._settings.ttl_seconds
        for some in _in_parts(flows):
            now = int(time.time())
            ids = [str(flow["id"]) for flow in some]
            commands: list[Command] = [
                ["ZREM", self.flows, *ids],
                ["ZREM", self._next, *ids],
                ["ZADD", self.ended, *(value for flow_id in ids for value in (now + ttl, flow_id))],
                ["ZREMRANGEBYSCORE", self.ended, "-inf", now],
            ]
            for flow in some:
                key = self.key("flow", flow["id"])
                commands += _expiring(key, flow, ttl)
            yield Chunk(commands, counter, len(some), gone=[int(flow_id, 16) for flow_id in ids])

    def _distributions(self, found: Sequence[Distribution]) -> Iterator[Chunk]:
        index, draft = self.key("distributions"), self.key("distributions", "next")
        yield Chunk([["DEL", draft]])
        for some in _in_parts(iter(found)):
            commands: list[Command] = []
            for distribution in some:
                node = "all" if distribution.node is None else distribution.node
                name = f"{node}:{distribution.measure.label}"
                key, next_ = self.key("distribution", name), self.key("distribution", name, "next")
                commands.append(["DEL", next_])
                commands += _expiring(next_, distribution_fields(distribution, self._names), self._live)
                commands.append(["RENAME", next_, key])  # atomically: no old bins remain
                commands.append(["SADD", draft, name])
            yield Chunk(commands, "distributions_total", len(some))
        yield Chunk([["SUNIONSTORE", index, draft], ["EXPIRE", index, self._live], ["DEL", draft]])


def _left(events: Records) -> Records:
    """EVENT records of flows evicted from the collector's table."""
    found: Records = events[
        (events["kind"] == Kind.FLOW_RECORD) & (events["metric"] == Metric.FLOW_PATH) & (events["hop"] == 0)
    ]
    return found


def _in_parts(items: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(items, CHUNK)):
        yield some


def _expiring(key: str, fields: Fields, seconds: int) -> list[Command]:
    """Commands that set a hash for some time."""
    return [["HSET", key, *_flat(fields)], ["EXPIRE", key, seconds]]


def _flat(fields: Fields) -> list[bytes]:
    """Alternating names and values as bytes, which the client passes through: 25 us per event, 34 with texts
    and numbers.  No value has a NUL: names are printable.
    """
    flat: list[bytes] = [b""] * (2 * len(fields))
    flat[::2] = _encoded(tuple(fields))
    flat[1::2] = "\0".join(map(str, fields.values())).encode().split(b"\0")
    return flat


@lru_cache(maxsize=64)
def _encoded(names: tuple[str, ...]) -> list[bytes]:
    return [name.encode() for name in names]
