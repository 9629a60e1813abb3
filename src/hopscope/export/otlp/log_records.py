"""Events as LogRecords of OTLP (opentelemetry/proto/logs/v1), made from columns.

Attributes have names from OpenTelemetry's semantic conventions if one fits; others begin with `hopscope.`.
An event takes 1.9 us; with the `opentelemetry-proto` package it takes 32 us (`bench/export_records.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...base.names import Names
from ...detect.places import UNKNOWN, ports_of_events
from ...detect.records import NO_NODE, OF_SOURCE, PATH_PART, ClearReason, Kind, Metric
from ...present.events import continues, long_paths, unit, with_queue
from ...present.severity import severity_of_kind
from ...wire.records import Records
from ..block import EventBlock
from ..protobuf import bytes_field, number_field, text_field
from ..rendering import Column, Lines, Mask, labels_by_code, path_columns, ports_of_nodes
from .client import attribute, key_value

CLOCK_NS = 60 * 10**9
"""A switch's clock counts as time of day if it differs by at most this from the time of reception."""
MAX_INTEGER = 2**63 - 1
"""Largest integer of OTLP; larger values are written as this one."""
TEXT = 256
"""Maximum length of a name."""
LOG_RECORDS = 2
"""Field of ScopeLogs."""
_TIME, _SEVERITY, _SEVERITY_TEXT, _BODY, _ATTRIBUTES, _OBSERVED, _EVENT_NAME = 1, 2, 3, 5, 6, 11, 12
"""Fields of LogRecord."""
_STRING, _INTEGER, _ARRAY = 1, 3, 5
"""Fields of AnyValue."""
_SEVERITIES = {"info": (9, "INFO"), "warning": (13, "WARN")}
_FIXED = 1
"""Wire type of eight bytes."""


def _of_kind(code: int, label: str) -> bytes:
    """The fields that depend on the kind of an event: severity, name, an attribute."""
    number, text = _SEVERITIES[severity_of_kind(code)]
    return (
        number_field(_SEVERITY, number)
        + text_field(_SEVERITY_TEXT, text)
        + text_field(_EVENT_NAME, f"hopscope.{label}")
        + attribute(_ATTRIBUTES, "hopscope.kind", label)
    )


def _of_metric(code: int, label: str) -> bytes:
    """The attributes that depend on the metric of an event."""
    if code == Metric.NONE:
        return b""
    found = attribute(_ATTRIBUTES, "hopscope.metric", label)
    return found + attribute(_ATTRIBUTES, "hopscope.unit", unit(code) or "") if unit(code) else found


_KIND_LABELS, _METRIC_LABELS, _REASON_LABELS = map(labels_by_code, (Kind, Metric, ClearReason))
_KINDS = [_of_kind(*each) for each in enumerate(_KIND_LABELS)]
_METRICS = [_of_metric(*each) for each in enumerate(_METRIC_LABELS)]
_METRIC_WORDS = ["" if code == Metric.NONE else f" {label}" for code, label in enumerate(_METRIC_LABELS)]
_REASONS = [attribute(_ATTRIBUTES, "hopscope.reason", label) for label in _REASON_LABELS]
_TRANSPORTS = [
    attribute(_ATTRIBUTES, "network.transport", name) if (name := {6: "tcp", 17: "udp"}.get(code)) else b""
    for code in range(256)
]
_NETWORKS = [attribute(_ATTRIBUTES, "network.type", name) for name in ("ipv4", "ipv6")]


class LogEncoder:
    """Events as log records."""

    def __init__(self, names: Names, member: str) -> None:
        self._names, self._member = names, member

    def encode(self, block: EventBlock) -> bytes:
        """The records, as fields of a ScopeLogs; a long path is one record."""
        events = block.records[~continues(block.records)]
        kind, metric = events["kind"], events["metric"]
        of_source = np.isin(kind, OF_SOURCE)
        lines = Lines(len(events))
        with lines.message(LOG_RECORDS):
            _times(lines, events)
            lines.choice(_KINDS, kind)
            lines.choice(_METRICS, metric)
            self._body_and_place(lines, events)
            self._identity(lines, events, block.shard)
            _values(lines, events)
            _flow(lines, events, ~of_source & (events["flow_id"] != 0))
            with _text(lines, "hopscope.source.address", of_source):
                lines.address(events["src_hi"], events["src_lo"], of_source)
            _integer(lines, "hopscope.source.hw_id", events["ident"], of_source)
            _integer(lines, "hopscope.queue.id", events["ident"], with_queue(events))
            _integer(lines, "hopscope.hop", events["hop"], metric == Metric.HOP_LATENCY)
            lines.choice(_REASONS, events["reason"], kind == Kind.CLEARED)
            _integer(lines, "hopscope.switch_ns", events["switch_ns"], events["switch_ns"] != 0)
            _path(lines, events, block)
        return lines.encoded()

    def _body_and_place(self, lines: Lines, events: Records) -> None:
        """The body, and attributes of node and port."""
        node, port = events["node_id"], ports_of_events(events)
        with_node = node != NO_NODE
        with_port = with_node & (port != UNKNOWN)
        nodes, at = np.unique(node, return_inverse=True)
        names = [self._names.node(each) for each in nodes.tolist()]
        with lines.message(_BODY), lines.message(_STRING):
            lines.choice(_KIND_LABELS, events["kind"])
            lines.choice(_METRIC_WORDS, events["metric"])
            lines.text(" at ", with_node)
            known = [(name or str(each))[:TEXT] for each, name in zip(nodes.tolist(), names, strict=True)]
            lines.choice(known, at, with_node)
        found = [_place("node", *each) for each in zip(nodes.tolist(), names, strict=True)]
        lines.choice(found, at, with_node)
        places, at = ports_of_nodes(node, port)
        found = [_place("port", number, self._names.port(one, number)) for one, number in places]
        lines.choice(found, at, with_port)

    def _identity(self, lines: Lines, events: Records, shard: int) -> None:
        """Shard and sequence number, and an id by which copies of the record can be recognised."""
        lines.text(key_value(_ATTRIBUTES, "hopscope.shard", number_field(_INTEGER, shard)))
        _integer(lines, "hopscope.sequence", events["sequence"])
        with _text(lines, "log.record.uid"):
            lines.text(f"{self._member}-{shard}-")
            lines.number(events["sequence"])
            lines.text("-")
            lines.number(events["time_ns"])


def _times(lines: Lines, events: Records) -> None:
    """Time of the event: by the switch's clock if it shows the time of day, otherwise time of reception."""
    received, switch = events["time_ns"].astype(np.uint64), events["switch_ns"]
    apart = np.maximum(received, switch) - np.minimum(received, switch)
    for field, times in ((_TIME, np.where(apart < CLOCK_NS, switch, received)), (_OBSERVED, received)):
        lines.text(bytes((field << 3 | _FIXED,)))
        lines.fixed(times)


@contextmanager
def _value(lines: Lines, key: str, where: Mask | None) -> Iterator[None]:
    """An attribute; parts added within the context are the content of its AnyValue."""
    with lines.message(_ATTRIBUTES, where):
        lines.text(text_field(1, key), where)
        with lines.message(2, where):
            yield


@contextmanager
def _text(lines: Lines, key: str, where: Mask | None = None) -> Iterator[None]:
    """An attribute; parts added within the context are its text."""
    with _value(lines, key, where), lines.message(_STRING, where):
        yield


def _integer(lines: Lines, key: str, values: Column, where: Mask | None = None) -> None:
    """An attribute with an integer, clamped to MAX_INTEGER."""
    with _value(lines, key, where):
        lines.text(bytes((_INTEGER << 3,)), where)
        lines.varint(np.minimum(values, np.uint64(MAX_INTEGER)), where)


def _place(kind: str, number: int, name: str | None) -> bytes:
    """Attributes of a node or a port."""
    found = key_value(_ATTRIBUTES, f"hopscope.{kind}.id", number_field(_INTEGER, number))
    return found + (attribute(_ATTRIBUTES, f"hopscope.{kind}.name", name[:TEXT]) if name else b"")


def _values(lines: Lines, events: Records) -> None:
    """Value attributes; hashes of changed paths are text."""
    hashed = (events["metric"] == Metric.FLOW_PATH) & (events["kind"] != Kind.FLOW_RECORD)
    for name in ("value", "previous"):
        _integer(lines, f"hopscope.{name}", events[name], ~hashed)
        with _text(lines, f"hopscope.{name}_hash", hashed):
            lines.hexadecimal(events[name], hashed)


def _flow(lines: Lines, events: Records, where: Mask) -> None:
    with _text(lines, "hopscope.flow.id", where):
        lines.hexadecimal(events["flow_id"], where)
    for side, port, name in (("src", "sport", "source"), ("dst", "dport", "destination")):
        with _text(lines, f"{name}.address", where):
            lines.address(events[f"{side}_hi"], events[f"{side}_lo"], where)
        _integer(lines, f"{name}.port", events[port], where)
    _integer(lines, "hopscope.flow.protocol", events["proto"], where)
    lines.choice(_TRANSPORTS, events["proto"], where)
    lines.choice(_NETWORKS, events["ip_version"] == 6, where)


def _path(lines: Lines, events: Records, block: EventBlock) -> None:
    """Nodes of paths, including all nodes of long ones, as an array of integers."""
    where = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
    lengths = np.minimum(events["hop_count"], PATH_PART)
    nodes, first, end = path_columns(events, lengths, where, long_paths(block.records))
    known, index = np.unique(nodes, return_inverse=True)
    values = [bytes_field(1, number_field(_INTEGER, node)) for node in known.tolist()]
    with _value(lines, "hopscope.path", where), lines.message(_ARRAY, where):
        lines.joined(values, index, first, end, where)
