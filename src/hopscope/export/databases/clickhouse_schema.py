"""Tables of ClickHouse, as numbered migrations, and the binary rows of `int_event`.

Two sets of types have the same bytes in RowBinary: current types, and plain types for servers before MODERN,
such as Debian's 18.16, which lack DateTime64, IPv6, codecs and deduplication tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

import numpy as np

from ...base.names import Names
from ...detect.records import NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ..block import EventBlock
from .packed import packed

MODERN = (22, 3)
"""First version with the current types and `insert_deduplication_token`."""
WINDOW = 10_000
"""How many blocks a table remembers to recognise copies."""


def _enum(codes: Iterable[IntEnum]) -> str:
    labels = ", ".join(f"'{code.name.lower()}' = {code.value}" for code in codes)
    return f"Enum8({labels})"


_KIND, _METRIC, _REASON = _enum(list(Kind)[:17]), _enum(Metric), _enum(ClearReason)
_KIND_2 = _enum(Kind)
"""Enumeration of kinds since migration 2."""
_STEADY = " CODEC(Delta, ZSTD(1))"
_SMALL = " CODEC(ZSTD(1))"
COLUMNS = (
    ("time", "DateTime64(9, 'UTC')" + _STEADY, "Int64"),
    ("kind", _KIND, _KIND),
    ("metric", _METRIC, _METRIC),
    ("node_id", "UInt32" + _SMALL, "UInt32"),
    ("port", "UInt16" + _SMALL, "UInt16"),
    ("ident", "UInt32" + _SMALL, "UInt32"),
    ("value", "UInt64" + _SMALL, "UInt64"),
    ("previous", "UInt64" + _SMALL, "UInt64"),
    ("reason", _REASON, _REASON),
    ("switch_ns", "UInt64" + _STEADY, "UInt64"),
    ("flow_id", "UInt64" + _SMALL, "UInt64"),
    ("src", "IPv6" + _SMALL, "FixedString(16)"),
    ("dst", "IPv6" + _SMALL, "FixedString(16)"),
    ("sport", "UInt16" + _SMALL, "UInt16"),
    ("dport", "UInt16" + _SMALL, "UInt16"),
    ("proto", "UInt8" + _SMALL, "UInt8"),
    ("ip_version", "UInt8" + _SMALL, "UInt8"),
    ("path", "Array(UInt32)" + _SMALL, "Array(UInt32)"),
    ("hop", "UInt8" + _SMALL, "UInt8"),
    ("hop_count", "UInt8" + _SMALL, "UInt8"),
    ("collector", "LowCardinality(String)", "String"),
    ("shard", "UInt16" + _SMALL, "UInt16"),
    ("sequence", "UInt64" + _STEADY, "UInt64"),
)
"""Columns of `int_event` in order: name, current type, plain type."""


def migrations(database: str, modern: bool) -> list[list[str]]:
    """The statements of every migration, numbered from 1; each can be repeated, and none drops data.

    A released migration never changes; later changes are new migrations.
    """
    columns = ", ".join(f"{name} {today if modern else plain}" for name, today, plain in COLUMNS)
    seconds = "time" if modern else "intDiv(time, 1000000000)"
    window = f" SETTINGS non_replicated_deduplication_window = {WINDOW}" if modern else ""
    key = "kind, metric, node_id, port"
    view = (
        f"CREATE VIEW IF NOT EXISTS {database}.int_minute AS SELECT minute, {key},"
        " countMerge(events) AS events, maxMerge(highest) AS highest,"
        " quantilesTDigestMerge(0.5, 0.9, 0.99)(quantiles) AS quantiles"
        f" FROM {database}.int_event_minute GROUP BY minute, {key}"
    )
    return [
        [
            f"CREATE TABLE IF NOT EXISTS {database}.int_event ({columns})"
            f" ENGINE = ReplacingMergeTree PARTITION BY toDate(toDateTime({seconds}, 'UTC'))"
            " ORDER BY (metric, kind, node_id, time, collector, shard, sequence)" + window,
            f"CREATE TABLE IF NOT EXISTS {database}.int_event_minute (minute DateTime, kind {_KIND},"
            f" metric {_METRIC}, node_id UInt32, port UInt16, events AggregateFunction(count),"
            " highest AggregateFunction(max, UInt64),"
            " quantiles AggregateFunction(quantilesTDigest(0.5, 0.9, 0.99), UInt64))"
            f" ENGINE = AggregatingMergeTree PARTITION BY toYYYYMM(minute) ORDER BY (minute, {key})" + window,
            f"CREATE MATERIALIZED VIEW IF NOT EXISTS {database}.int_event_to_minute"
            f" TO {database}.int_event_minute AS"
            f" SELECT toStartOfMinute(toDateTime({seconds})) AS minute, {key}, countState() AS events,"
            " maxState(value) AS highest, quantilesTDigestState(0.5, 0.9, 0.99)(value) AS quantiles"
            f" FROM {database}.int_event GROUP BY minute, {key}",
            view,
            f"CREATE TABLE IF NOT EXISTS {database}.int_name"
            " (node_id UInt32, port UInt16, name String, written DateTime)"
            " ENGINE = ReplacingMergeTree(written) ORDER BY (node_id, port)",
        ],
        [
            f"ALTER TABLE {database}.int_event_minute MODIFY COLUMN kind {_KIND_2}",
            f"ALTER TABLE {database}.int_event MODIFY COLUMN kind {_KIND_2}",
            f"DROP TABLE IF EXISTS {database}.int_minute",  # a view, which remembers its types
            view,
        ],
    ]


class RowEncoder:
    """Events of one collector as RowBinary rows of `int_event`, for both sets of types."""

    def __init__(self, member: str) -> None:
        self._collector = np.void(_string(member))
        self._row = np.dtype(
            [
                *(("time_ns", "<i8"), ("kind", "i1"), ("metric", "i1"), ("node_id", "<u4"), ("port", "<u2")),
                *(("ident", "<u4"), ("value", "<u8"), ("previous", "<u8"), ("reason", "i1")),
                *(("switch_ns", "<u8"), ("flow_id", "<u8")),
                *((f"{side}_{half}", ">u8") for side in ("src", "dst") for half in ("hi", "lo")),
                *(("sport", "<u2"), ("dport", "<u2"), ("proto", "u1"), ("ip_version", "u1")),
                *(("nodes", "u1"), ("path", "<u4", (PATH_PART,)), ("hop", "u1"), ("hop_count", "u1")),
                *(("collector", self._collector.dtype), ("shard", "<u2"), ("sequence", "<u8")),
            ]
        )

    def rows(self, block: EventBlock) -> bytes:
        """The rows of a block, each at most 155 bytes plus the collector's name."""
        events = block.records
        rows = np.empty(len(events), self._row)
        for name in self._row.names or ():
            if name in (events.dtype.names or ()):
                rows[name] = events[name]
        has_path = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
        left = events["hop_count"].astype(np.int16) - events["hop"]
        nodes = np.where(has_path, np.clip(left, 0, PATH_PART), 0)
        rows["nodes"], rows["collector"] = nodes, self._collector
        return packed(rows, {"path": 4 * nodes})


def name_rows(names: Names, now: int) -> bytes:
    """RowBinary rows of `int_name`, written at `now` (s): names of ports that `int_event` has room for, and
    of nodes with NO_PORT.
    """
    return b"".join(
        node.to_bytes(4, "little") + port.to_bytes(2, "little") + _string(name) + now.to_bytes(4, "little")
        for node, port, name in _all(names)
    )


def _all(names: Names) -> Iterator[tuple[int, int, str]]:
    for node, name in names.nodes.items():
        yield node, NO_PORT, name
    for (node, port), name in names.ports.items():
        if port < NO_PORT:
            yield node, port, name


def _string(text: str) -> bytes:
    """A String of RowBinary: its length as LEB128, and its bytes."""
    raw = text.encode("utf-8", "replace")
    left, length = len(raw), bytearray()
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*length, left]) + raw
