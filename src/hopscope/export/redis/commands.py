"""Redis commands for the state, in parts that are sent together.

With PREFIX = `hopscope`:

=============================== ============ ===========================================================
key                             type         what
=============================== ============ ===========================================================
`hopscope:flow:ID`              hash         latest state of a flow; `ended` is empty while it is live
`hopscope:flows`                sorted set   ids of live flows by the time of their last packet, us
`hopscope:flows:ended`          sorted set   ids of ended flows, by the second in which they expire
`hopscope:distribution:N:M`     hash         measure M at switch N; `all:end_to_end`: of whole paths
`hopscope:distributions`        set          names of all distributions, as `N:M`
=============================== ============ ===========================================================
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TypeVar

from ...base.names import Names
from ...detect.distributions.quantiles import Distribution
from ...detect.flows.reading.flow_walk import FlowBlock
from ...settings.destinations.redis import RedisStateSettings
from ...wire.records import Records
from .fields import Fields, distribution_fields, ended_fields, flow_fields

T = TypeVar("T")
Command = list[str | int | float | bytes]
PART = 512
"""Maximum flows or distributions per part."""


class Commands:
    """Makes the commands; `live_seconds`: maximum time between two states of a live flow."""

    def __init__(self, settings: RedisStateSettings, names: Names, live_seconds: float) -> None:
        self._prefix = settings.prefix
        self._ttl = settings.ttl_seconds
        self._live = int(live_seconds) + settings.ttl_seconds
        self._names = names
        self._live_flows, self._ended_flows = self._key("flows"), self._key("flows", "ended")
        self._newest_us = 0

    def flows(self, block: FlowBlock) -> Iterator[list[Command]]:
        """Live flows; a flow not updated for so long that its hash has expired is no longer live."""
        scores = (block.flows["last_ns"] // 1000).tolist()
        self._newest_us = max(self._newest_us, *scores)
        expired = self._newest_us - self._live * 1_000_000
        left = iter(scores)
        for some in _in_parts(flow_fields(block, self._names)):
            scored = [value for flow in some for value in (next(left), flow["id"])]
            commands: list[Command] = [
                ["ZADD", self._live_flows, *scored],
                ["ZREMRANGEBYSCORE", self._live_flows, "-inf", f"({expired}"],
                ["ZREM", self._ended_flows, *(flow["id"] for flow in some)],
            ]
            for flow in some:
                commands += _expiring(self._key("flow", flow["id"]), flow, self._live)
            yield commands

    def ended(self, records: Records) -> Iterator[list[Command]]:
        """Flows that have left the table, from their flow records (EVENT of metric FLOW_PATH)."""
        for some in _in_parts(ended_fields(records, self._names)):
            now = int(time.time())
            ids = [str(flow["id"]) for flow in some]
            commands: list[Command] = [
                ["ZREM", self._live_flows, *ids],
                ["ZADD", self._ended_flows, *(value for each in ids for value in (now + self._ttl, each))],
                ["ZREMRANGEBYSCORE", self._ended_flows, "-inf", now],
            ]
            for flow in some:
                commands += _expiring(self._key("flow", flow["id"]), flow, self._ttl)
            yield commands

    def distributions(self, found: Sequence[Distribution]) -> Iterator[list[Command]]:
        """All distributions; any others are removed from the set."""
        index, draft = self._key("distributions"), self._key("distributions", "next")
        yield [["DEL", draft]]
        for some in _in_parts(iter(found)):
            commands: list[Command] = []
            for distribution in some:
                node = "all" if distribution.node is None else distribution.node
                name = f"{node}:{distribution.measure.label}"
                key, next_ = self._key("distribution", name), self._key("distribution", name, "next")
                commands.append(["DEL", next_])
                commands += _expiring(next_, distribution_fields(distribution, self._names), self._live)
                commands.append(["RENAME", next_, key])  # atomically: no old bins remain
                commands.append(["SADD", draft, name])
            yield commands
        yield [["SUNIONSTORE", index, draft], ["EXPIRE", index, self._live], ["DEL", draft]]

    def _key(self, *parts: object) -> str:
        return ":".join([self._prefix, *map(str, parts)])


def _in_parts(items: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(items, PART)):
        yield some


def _expiring(key: str, fields: Fields, seconds: int) -> list[Command]:
    """Commands that set a hash which expires."""
    return [["HSET", key, *_flat(fields)], ["EXPIRE", key, seconds]]


def _flat(fields: Fields) -> list[bytes]:
    """Alternating names and values as bytes, which the client passes through: 25 us for 20 fields, instead of
    34 with texts and numbers. No value contains NUL, since names are printable.
    """
    flat: list[bytes] = [b""] * (2 * len(fields))
    flat[::2] = _encoded(tuple(fields))
    flat[1::2] = "\0".join(map(str, fields.values())).encode().split(b"\0")
    return flat


@lru_cache(maxsize=64)
def _encoded(names: tuple[str, ...]) -> list[bytes]:
    return [name.encode() for name in names]
