"""Events as lines of JSON: the objects of `present.events.event_object`, rendered from columns.

An event takes 2 us; `event_object` and `json.dumps` take 100 us (`bench/export_buses.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from ..detect.places import UNKNOWN, ports_of_events
from ..detect.records import NO_NODE, OF_SOURCE, PATH_PART, ClearReason, Kind, Metric
from ..present.events import NO_PATHS, SAFE_INTEGER, Naming, unit, with_queue
from ..wire.records import Records
from .rendering import Column, Lines, Mask, labels_by_code, path_columns, ports_of_nodes

_THOUSAND = [f"{number:03d}" for number in range(1000)]


_KINDS, _METRICS = (list(map(json.dumps, labels_by_code(known))) for known in (Kind, Metric))
_UNITS = [json.dumps(unit(code)) for code in range(256)]
_REASON_LABELS = {one.value: one.label for one in ClearReason}
_REASONS = [json.dumps(_REASON_LABELS.get(code, "unknown")) for code in range(256)]


def json_lines(
    events: Records, names: Naming, member: str, paths: Mapping[tuple[int, int], list[int]] = NO_PATHS
) -> list[bytes]:
    """A line, including its line end, for each EVENT that begins a path or has none. Every line has all keys,
    null if they do not apply.

    `paths` are the `long_paths` of the records around them.
    """
    kind, metric, node = (events[name] for name in ("kind", "metric", "node_id"))
    of_source = np.isin(kind, OF_SOURCE)
    with_node = ~of_source & (node != NO_NODE)
    lines = Lines(len(events))
    lines.text(f'{{"member":{json.dumps(member, ensure_ascii=False)},"id":"')
    lines.number(events["shard"])
    lines.text("-")
    lines.number(events["sequence"])
    lines.text('","time":"')
    _time(lines, events["time_ns"])
    lines.text('","kind":')
    lines.choice(_KINDS, kind)
    lines.text(',"metric":')
    lines.choice(_METRICS, metric)
    for name in ("value", "previous"):
        lines.text(f',"{name}":')
        _wide(lines, events[name])
    lines.text(',"unit":')
    lines.choice(_UNITS, metric)
    lines.text(',"reason":')
    cleared = kind == Kind.CLEARED
    lines.choice(_REASONS, events["reason"], cleared)
    lines.text("null", ~cleared)
    lines.text(',"switch_ns":')
    timed = events["switch_ns"] != 0
    _wide(lines, events["switch_ns"], timed)
    lines.text("null", ~timed)
    _flow(lines, events, ~of_source & (events["flow_id"] != 0))
    known, index = np.unique(node, return_inverse=True)
    nodes = _Named([(one, names.node(one)) for one in known.tolist()], index)
    lines.text(',"node":')
    nodes.put(lines, with_node)
    lines.text("null", ~with_node)
    lines.text(',"port":')
    port = ports_of_events(events)
    with_port = with_node & (port != UNKNOWN)
    places, index = ports_of_nodes(node, port)
    _Named([(one, names.port(at, one)) for at, one in places], index).put(lines, with_port)
    lines.text("null", ~with_port)
    _number(lines, "queue", events["ident"], with_queue(events))
    _number(lines, "hop", events["hop"], metric == Metric.HOP_LATENCY)
    _path(lines, events, names, paths)
    lines.text(',"source":')
    lines.text('{"address":"', of_source)
    lines.address(events["src_hi"], events["src_lo"], of_source)
    lines.text('","node":', of_source)
    nodes.put(lines, of_source & (node != NO_NODE))
    lines.text("null", of_source & (node == NO_NODE))
    lines.text(',"hw_id":', of_source)
    lines.number(events["ident"], of_source)
    lines.text("}", of_source)
    lines.text("null", ~of_source)
    lines.text("}\n")
    return lines.encoded().splitlines(keepends=True)


class _Named:
    """Nodes or ports as objects with number and name; `index`: that of each event."""

    def __init__(self, known: Sequence[tuple[int, str | None]], index: Column) -> None:
        self._index = index
        self._texts = [
            f'{{"id":{number},"name":{json.dumps(name, ensure_ascii=False)}}}' for number, name in known
        ]

    def put(self, lines: Lines, where: Mask) -> None:
        """The object of each event."""
        lines.choice(self._texts, self._index, where)


def _time(lines: Lines, time_ns: Column) -> None:
    """RFC 3339 with nanoseconds, UTC."""
    seconds, rest = np.divmod(time_ns, 10**9)
    known, index = np.unique(seconds, return_inverse=True)
    lines.choice([str(each) for each in known.astype("datetime64[s]")], index)
    lines.text(".")
    for divisor in (10**6, 10**3, 1):
        lines.choice(_THOUSAND, rest // divisor % 1000)
    lines.text("Z")


def _wide(lines: Lines, values: Column, where: Mask | None = None) -> None:
    """A number, as text if a reader's double would round it."""
    quoted = values > SAFE_INTEGER
    if where is not None:
        quoted &= where
    lines.text('"', quoted)
    lines.number(values, where)
    lines.text('"', quoted)


def _number(lines: Lines, name: str, values: Column, where: Mask) -> None:
    lines.text(f',"{name}":')
    lines.number(values, where)
    lines.text("null", ~where)


def _flow(lines: Lines, events: Records, where: Mask) -> None:
    lines.text(',"flow":')
    lines.text('{"id":"', where)
    lines.hexadecimal(events["flow_id"], where)
    for side in ("src", "dst"):
        lines.text(f'","{side}":"', where)
        lines.address(events[f"{side}_hi"], events[f"{side}_lo"], where)
    lines.text('"', where)
    for name in ("proto", "sport", "dport"):
        lines.text(f',"{name}":', where)
        lines.number(events[name], where)
    lines.text("}", where)
    lines.text("null", ~where)


def _path(lines: Lines, events: Records, names: Naming, whole: Mapping[tuple[int, int], list[int]]) -> None:
    """Nodes of paths, including all nodes of long ones."""
    where = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
    lengths = np.clip(events["hop_count"].astype(np.int64) - events["hop"], 0, PATH_PART)
    nodes, first, end = path_columns(events, lengths, where, whole)
    known, index = np.unique(nodes, return_inverse=True)
    texts = [
        f'{{"id":{number},"name":{json.dumps(names.node(number), ensure_ascii=False)}}}'
        for number in known.tolist()
    ]
    lines.text(',"path":')
    lines.text("[", where)
    lines.choices(texts, index, first, end, where)
    lines.text("]", where)
    lines.text("null", ~where)
