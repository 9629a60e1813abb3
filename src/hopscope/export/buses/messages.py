"""Splits a block into messages, whole or per event, binary or JSON, none too long for the bus."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.records import EVENT
from ...present.events import continues, long_paths
from ...settings.destinations.buses import BusSettings
from ..block import EventBlock
from ..destination import Context
from ..json_lines import json_lines
from .format import SCHEMA_VERSION, write_block

NAME = 256
"""Most characters of a node's or port's name."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Message:
    """One message."""

    id: str
    """`MEMBER-SHARD-FIRST-LAST-TIME` (`EventBlock.id`): letters, digits, `.`, `_` and `-`."""
    key: str
    """Messages with the same key stay in order: a flow's id, or `MEMBER-SHARD` for a block or without a flow.
    """
    body: bytes


class Encoder:
    """Messages of the blocks of one destination."""

    def __init__(self, settings: BusSettings, context: Context) -> None:
        self._json = settings.format == "json"
        self._single = settings.messages == "events"
        self._limit = settings.message_bytes
        self._names = ShortNames(context.names)
        self.content_type = "avro/binary" if not self._json else "application/x-ndjson"
        if self._json and self._single:
            self.content_type = "application/json"

    def messages(self, block: EventBlock, limit: int | None = None) -> Iterator[Message]:
        """The messages of a block, in order, of at most `limit` bytes unless a single event is longer.

        A long path stays in one message, however many records it has.
        """
        heads = ~continues(block.records)
        heads[:1] = True
        starts = np.flatnonzero(heads)
        ends = np.append(starts[1:], len(block.records))
        lines = self._lines(block, starts) if self._json else []
        sizes = np.array([len(line) for line in lines]) if self._json else (ends - starts) * EVENT.itemsize
        member = f"{safe(block.member)}-{block.shard}"
        if self._single:
            cuts = np.arange(len(starts) + 1)
        else:
            cuts = _cuts(sizes, min(limit or self._limit, self._limit) - _HEADER)
        position = block.first
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            records = block.records[starts[begin] : ends[end - 1]]
            first, last, key = int(records["sequence"][0]), int(records["sequence"][-1]), member
            if self._single:
                flow = int(records["flow_id"][0])
                key = f"{flow:016x}" if flow else member
            else:
                first, last = position, block.last if end == len(starts) else last
                position = last + 1
            part = replace(block, first=first, last=last, records=records)
            body = b"".join(lines[begin:end]) if self._json else write_block(part)
            yield Message(f"{member}-{first}-{last}-{records['time_ns'][0]}", key, body)

    def _lines(self, block: EventBlock, starts: Places) -> list[bytes]:
        """One `present.events.event_object` per line, with the name of the collector."""
        return json_lines(block.records[starts], self._names, block.member, long_paths(block.records))


_HEADER = 512
"""Bytes of a body reserved for fields other than events."""


def _cuts(sizes: Places, limit: int) -> Places:
    """Indices at which runs of whole events of at most `limit` bytes begin, and the number of events."""
    ends = np.cumsum(sizes)
    found, before = [0], 0
    while found[-1] < len(sizes):
        found.append(max(found[-1] + 1, int(np.searchsorted(ends, before + limit, "right"))))
        before = int(ends[found[-1] - 1])
    return np.array(found)


class ShortNames:
    """Names of nodes and ports, truncated to NAME characters."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def node(self, node_id: int) -> str | None:
        """Name of a node, or None."""
        name = self._names.node(node_id)
        return name and name[:NAME]

    def port(self, node_id: int, port: int) -> str | None:
        """Name of a port, or None."""
        name = self._names.port(node_id, port)
        return name and name[:NAME]


def safe(member: str) -> str:
    """A collector's name for ids, topics and streams: at most 64 letters, digits, `.`, `_` and `-`."""
    return _UNSAFE.sub("_", member)[:64] or "_"


def place(prefix: str, member: str, shard: int, separator: str) -> str:
    """Subject, topic or stream of a shard: `PREFIX.v1.events.MEMBER.SHARD`, with the bus's separator."""
    return separator.join((prefix, f"v{SCHEMA_VERSION}", "events", safe(member), str(shard)))
