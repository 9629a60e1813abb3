"""Tables of PostgreSQL, as numbered migrations, and the binary rows of `int_event` for COPY.

The layout of each type is that of its `…_recv` function in the server (numeric_recv, inet_recv, array_recv);
NULL has length -1 and no bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...detect.places import UNKNOWN, ports_of_events
from ...detect.records import NO_NODE, PATH_PART, ClearReason, Kind, Metric
from ...wire.records import Records
from ..block import EventBlock
from .packed import packed

Mask = npt.NDArray[np.bool_]
COLUMNS = (
    *(("time", "timestamptz NOT NULL"), ("time_ns", "bigint NOT NULL"), ("kind", "text NOT NULL")),
    *(("metric", "text"), ("node_id", "bigint"), ("port", "integer"), ("ident", "bigint NOT NULL")),
    *(("value", "numeric(20) NOT NULL"), ("previous", "numeric(20) NOT NULL"), ("reason", "text")),
    *(("switch_ns", "numeric(20)"), ("flow_id", "numeric(20)"), ("src", "inet"), ("dst", "inet")),
    *(("sport", "integer"), ("dport", "integer"), ("proto", "smallint"), ("path", "bigint[]")),
    *(("hop", "smallint NOT NULL"), ("hop_count", "smallint NOT NULL"), ("ip_version", "smallint NOT NULL")),
    *(("collector", "text NOT NULL"), ("shard", "integer NOT NULL"), ("sequence", "bigint NOT NULL")),
)
"""Columns of `int_event` in order: name and type."""
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_EPOCH_US = 946_684_800 * 10**6
_INT8 = 20
"""Object id of the type bigint."""
_ARRAY_HEADER, _EMPTY_ARRAY = 20, 12


def migrations(schema: str, hypertable: bool) -> list[list[str]]:
    """The statements of every migration, numbered from 1; none drops anything.

    `hypertable`: the server has TimescaleDB. A released migration never changes; later changes are new
    migrations.
    """
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
    table = f"CREATE TABLE IF NOT EXISTS {schema}.int_event ({columns})"
    if hypertable:
        events = [
            table,
            f"SELECT create_hypertable('{schema}.int_event', 'time',"
            " chunk_time_interval => INTERVAL '1 day')",
        ]
    else:
        events = [
            f"{table} PARTITION BY RANGE (time)",
            f"CREATE INDEX IF NOT EXISTS int_event_time ON {schema}.int_event USING brin (time)",
        ]
    return [
        [
            *events,
            f"CREATE TABLE IF NOT EXISTS {schema}.int_block (collector text, shard integer, first bigint,"
            " last bigint, time_ns bigint, written timestamptz NOT NULL DEFAULT now(),"
            " PRIMARY KEY (collector, shard, first, last, time_ns))",
            f"CREATE TABLE IF NOT EXISTS {schema}.int_name (node_id bigint, port integer,"
            " name text NOT NULL, PRIMARY KEY (node_id, port))",
        ]
    ]


def days(events: Records) -> list[str]:
    """The UTC days of events, such as `2026-11-23`."""
    return [str(np.datetime64(day, "D")) for day in np.unique(events["time_ns"] // (86_400 * 10**9)).tolist()]


class _Column(NamedTuple):
    """A column of n rows."""

    body: npt.NDArray[Any]
    """Values [n] of fixed size in bytes."""
    length: npt.NDArray[np.integer[Any]] | int
    """How many of these bytes are used, by row [n] (-1: NULL) or for all rows."""


def copy_rows(block: EventBlock) -> bytes:
    """The rows of a block, as COPY … WITH (FORMAT binary) reads them."""
    events = block.records
    columns = _columns(block)
    layout: list[tuple[str, Any]] = [("columns", ">i2")]
    for name, column in columns.items():
        layout += [(f"{name} length", ">i4"), (name, column.body.dtype)]
    rows = np.empty(len(events), layout)
    rows["columns"] = len(columns)
    lengths = {}
    for name, (body, length) in columns.items():
        rows[name], rows[f"{name} length"] = body, length
        if not isinstance(length, int):
            lengths[name] = np.maximum(length, 0)
    return _HEADER + packed(rows, lengths) + _TRAILER


def _columns(block: EventBlock) -> Mapping[str, _Column]:
    events = block.records
    kind, metric, port = events["kind"], events["metric"], ports_of_events(events)
    no_flow = events["ip_version"] == 0
    name = np.array(block.member.encode(), "S")
    found = {
        "time": _integer(events["time_ns"] // 1000 - _EPOCH_US, ">i8"),
        "time_ns": _integer(events["time_ns"], ">i8"),
        "kind": _label(Kind, kind),
        "metric": _label(Metric, metric, metric == Metric.NONE),
        "node_id": _integer(events["node_id"], ">i8", events["node_id"] == NO_NODE),
        "port": _integer(port, ">i4", port == UNKNOWN),
        "ident": _integer(events["ident"], ">i8"),
        "value": _numeric(events["value"]),
        "previous": _numeric(events["previous"]),
        "reason": _label(ClearReason, events["reason"], kind != Kind.CLEARED),
        "switch_ns": _numeric(events["switch_ns"], events["switch_ns"] == 0),
        "flow_id": _numeric(events["flow_id"], events["flow_id"] == 0),
        "src": _inet(events["src_hi"], events["src_lo"]),
        "dst": _inet(events["dst_hi"], events["dst_lo"]),
        "sport": _integer(events["sport"], ">i4", no_flow),
        "dport": _integer(events["dport"], ">i4", no_flow),
        "proto": _integer(events["proto"], ">i2", no_flow),
        "path": _path(events, (metric != Metric.FLOW_PATH) & (kind != Kind.LOOP)),
        "hop": _integer(events["hop"], ">i2"),
        "hop_count": _integer(events["hop_count"], ">i2"),
        "ip_version": _integer(events["ip_version"], ">i2"),
        "collector": _Column(np.broadcast_to(name, len(events)), name.itemsize),
        "shard": _integer(events["shard"], ">i4"),
        "sequence": _integer(events["sequence"], ">i8"),
    }
    assert tuple(found) == tuple(column for column, _ in COLUMNS)
    return found


def _integer(values: npt.NDArray[Any], layout: str, null: Mask | None = None) -> _Column:
    """smallint, integer, bigint and timestamptz."""
    body = values.astype(layout)
    return _Column(body, body.itemsize if null is None else np.where(null, -1, body.itemsize))


def _numeric(values: npt.NDArray[np.uint64], null: Mask | None = None) -> _Column:
    """numeric: number of digits, weight, sign, scale, and five digits of base 10,000."""
    body = np.zeros(len(values), [("head", ">i2", (4,)), ("digits", ">i2", (5,))])
    body["head"][:, :2] = 5, 4
    left = values
    for at in range(4, -1, -1):
        left, body["digits"][:, at] = np.divmod(left, np.uint64(10_000))
    return _Column(body, body.itemsize if null is None else np.where(null, -1, body.itemsize))


def _label(codes: type[IntEnum], values: npt.NDArray[np.uint8], null: Mask | None = None) -> _Column:
    """text: the label of a code, or the code."""
    known = {code.value: code.name.lower() for code in codes}
    labels = np.array([known.get(code, str(code)).encode() for code in range(256)])
    length = np.strings.str_len(labels)[values]
    return _Column(labels[values], length if null is None else np.where(null, -1, length))


def _inet(hi: npt.NDArray[np.uint64], lo: npt.NDArray[np.uint64]) -> _Column:
    """inet: family, bits of the prefix, 0, bytes of the address, and these."""
    short = (hi == 0) & (lo >> np.uint64(32) == 0xFFFF)
    body = np.zeros(len(hi), [("head", "u1", (4,)), ("hi", ">u8"), ("lo", ">u8")])
    body["head"] = np.where(short[:, None], (2, 32, 0, 4), (3, 128, 0, 16))
    body["hi"], body["lo"] = np.where(short, lo << np.uint64(32), hi), lo
    return _Column(body, np.where((hi == 0) & (lo == 0), -1, np.where(short, 8, 20)))


def _path(events: Records, null: Mask) -> _Column:
    """bigint[]: dimensions, 0, type of the elements, their number, lower bound, and elements with lengths."""
    nodes = np.clip(events["hop_count"].astype(np.int16) - events["hop"], 0, PATH_PART)
    element = np.dtype([("length", ">i4"), ("node", ">i8")])
    body = np.zeros(len(events), [("head", ">i4", (5,)), ("nodes", element, (PATH_PART,))])
    body["head"][:, 0] = nodes > 0
    body["head"][:, 2] = _INT8
    body["head"][:, 3] = nodes
    body["head"][:, 4] = 1
    body["nodes"]["length"], body["nodes"]["node"] = 8, events["path"]
    length = np.where(nodes > 0, _ARRAY_HEADER + element.itemsize * nodes, _EMPTY_ARRAY)
    return _Column(body, np.where(null, -1, length))
