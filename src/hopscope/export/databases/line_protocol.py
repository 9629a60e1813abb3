"""Events as line protocol of InfluxDB.

`LineEncoder`: an event is a point of the measurement `int_event` at its time in ns. Tags are bounded: kind,
metric, node, port, queue, collector, shard. The flow is a field. Points with the same tags and time would
replace each other, so the second and later ones get a tag `n`. A repeated block writes the same points, so no
point is duplicated.

`IntCollectorEncoder`: the measurements that INTCollector wrote, for dashboards that read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ...base.names import Names
from ...detect.places import UNKNOWN, ports_of_events
from ...detect.records import NO_NODE, PATH_PART, ClearReason, Kind, Metric
from ...present.events import continues, long_paths, with_queue
from ...wire.address import address
from ...wire.records import Records
from ..block import EventBlock
from ..rendering import Column, Lines, Mask, labels_by_code, path_columns, ports_of_nodes
from .duplicate_points import DuplicatePoints

_address = lru_cache(1 << 16)(address)
MAX_INTEGER = 2**63 - 1
"""Largest integer of a field; larger values are clamped to it."""
TEXT = 256
"""Maximum length of a name in a tag."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


def tag(text: str) -> str:
    """A tag's value, with separators escaped. Control characters and backslashes become spaces, since they
    cannot be escaped.
    """
    clean = _CONTROL.sub(" ", text[:TEXT]).strip() or "-"
    return clean.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


_KINDS, _METRICS, _REASONS = map(labels_by_code, (Kind, Metric, ClearReason))


class LineEncoder:
    """Events as lines."""

    def __init__(self, names: Names, member: str) -> None:
        self._names = names
        self._member = tag(member)
        self._twins: dict[int, DuplicatePoints] = {}

    def recall(self, block: EventBlock) -> None:
        """Note the events before those that are encoded next."""
        self._twins_of(block)

    def _twins_of(self, block: EventBlock) -> Column:
        """Twin numbers of the encoded events, counted before filtering, so that all destinations agree."""
        every = block.every[~continues(block.every)]
        twins = self._twins.setdefault(block.shard, DuplicatePoints()).of(block, every)
        return twins[np.isin(every["sequence"], block.records["sequence"])]

    def encode(self, block: EventBlock) -> bytes:
        """A line for each event; a long path is one event."""
        records = block.records[~continues(block.records)]
        lines = Lines(len(records))
        self._tags(lines, records, block)
        _values(lines, records)
        _flow(lines, records)
        kind, metric = records["kind"], records["metric"]
        _integer(lines, "hop", records["hop"], metric == Metric.HOP_LATENCY)
        pathed = (metric == Metric.FLOW_PATH) | (kind == Kind.LOOP)
        lines.text(',path="', pathed)
        lengths = np.minimum(records["hop_count"], PATH_PART)
        lines.numbers(*path_columns(records, lengths, pathed, long_paths(block.records)), pathed)
        lines.text('"', pathed)
        cleared = kind == Kind.CLEARED
        lines.text(',reason="', cleared)
        lines.choice(_REASONS, records["reason"], cleared)
        lines.text('"', cleared)
        _integer(lines, "switch_ns", records["switch_ns"], records["switch_ns"] != 0)
        lines.text(" ")
        lines.number(records["time_ns"])
        lines.text("\n")
        return lines.encoded()

    def _tags(self, lines: Lines, records: Records, block: EventBlock) -> None:
        """Measurement and tags."""
        node, port = records["node_id"], ports_of_events(records)
        with_node = node != NO_NODE
        with_port = with_node & (port != UNKNOWN)
        queued = with_queue(records)
        lines.text(f"int_event,collector={self._member},kind=")
        lines.choice(_KINDS, records["kind"])
        lines.text(",metric=")
        lines.choice(_METRICS, records["metric"])
        nodes, at = np.unique(node, return_inverse=True)
        names = [tag(self._names.node(one) or str(one)) for one in nodes.tolist()]
        lines.text(",node=", with_node)
        lines.choice(names, at, with_node)
        lines.text(",node_id=", with_node)
        lines.number(node, with_node)
        places, at = ports_of_nodes(node, port)
        names = [tag(self._names.port_label(*place)) for place in places]
        lines.text(",port=", with_port)
        lines.choice(names, at, with_port)
        lines.text(",port_id=", with_port)
        lines.number(port, with_port)
        lines.text(",queue=", queued)
        lines.number(records["ident"], queued)
        lines.text(f",shard={block.shard}")
        twin = self._twins_of(block)
        lines.text(",n=", twin > 0)
        lines.number(twin, twin > 0)


def _integer(lines: Lines, name: str, values: Column, where: Mask | None = None) -> None:
    """A further field with an integer, clamped to MAX_INTEGER."""
    lines.text(f",{name}=", where)
    lines.number(np.minimum(values, np.uint64(MAX_INTEGER)), where)
    lines.text("i", where)


def _values(lines: Lines, records: Records) -> None:
    """Sequence number and values; hashes of changed paths are text."""
    hashed = (records["metric"] == Metric.FLOW_PATH) & (records["kind"] != Kind.FLOW_RECORD)
    lines.text(" sequence=")
    lines.number(records["sequence"])
    lines.text("i")
    for name in ("value", "previous"):
        _integer(lines, name, records[name], ~hashed)
        lines.text(f',{name}_hash="', hashed)
        lines.hexadecimal(records[name], hashed)
        lines.text('"', hashed)


def _flow(lines: Lines, records: Records) -> None:
    """The flow, or the source of reports that an event without a flow is about."""
    flow = records["flow_id"] != 0
    source = ~flow & ((records["ip_version"] != 0) | (records["src_lo"] != 0))
    lines.text(',flow="', flow)
    lines.hexadecimal(records["flow_id"], flow)
    lines.text('",src="', flow)
    lines.text(',source="', source)
    lines.address(records["src_hi"], records["src_lo"], flow | source)
    lines.text('",dst="', flow)
    lines.address(records["dst_hi"], records["dst_lo"], flow)
    lines.text('"', flow | source)
    for name in ("sport", "dport", "proto"):
        _integer(lines, name, records[name], flow)
    _integer(lines, "hw_id", records["ident"], source)


_VALUES = np.array([Kind.NEW_KEY, Kind.CHANGE, Kind.PATH_CHANGE, Kind.PUSH, Kind.VALUE], np.uint8)
"""Kinds of events with a new value; INTCollector has no others."""
_QUEUES = {Metric.QUEUE_OCCUPANCY: "queue_occupancy", Metric.QUEUE_CONGESTION: "queue_congestion"}


class IntCollectorEncoder:
    """New values as INTCollector's exporter writes them: the measurement's name contains the whole key.

    Times are times of reception, not those of the switches. The number of measurements is not bounded.
    """

    def encode(self, block: EventBlock) -> bytes:
        """A line for each new value of a flow, hop, queue or port."""
        return "".join(f"{line}\n" for line in self._lines(block)).encode("utf-8", "replace")

    def _lines(self, block: EventBlock) -> Iterator[str]:
        paths = long_paths(block.records)
        events = block.records
        for row in events[np.isin(events["kind"], _VALUES) & ~continues(events)]:
            metric, value = int(row["metric"]), min(int(row["value"]), MAX_INTEGER)
            flow = (
                f"{_address(int(row['src_hi']), int(row['src_lo']))}:{row['sport']}->"
                f"{_address(int(row['dst_hi']), int(row['dst_lo']))}:{row['dport']},proto={row['proto']}"
            )
            node, text = int(row["node_id"]), f"value={value}i"
            if metric == Metric.FLOW_PATH:
                path = paths.get((block.shard, int(row["sequence"])))
                nodes = path or row["path"][: min(PATH_PART, int(row["hop_count"]))]
                name, text = f"flow_stat,{flow}", f'path="{":".join(map(str, nodes))}"'
            elif metric == Metric.FLOW_LATENCY:
                name, text = f"flow_stat,{flow}", f"flow_latency={value}i"
            elif metric == Metric.HOP_LATENCY:
                name = f"flow_hop_latency,{flow},sw_id={node}"
            elif metric == Metric.LINK_UTILIZATION:
                name = f"port_tx_utilize,sw_id={node},port_id={ports_of_events(row)}"
            elif metric in _QUEUES:
                name = f"{_QUEUES[Metric(metric)]},sw_id={node},queue_id={row['ident']}"
            else:
                continue
            yield " ".join((name.replace(",", "\\,"), text, str(row["time_ns"])))
