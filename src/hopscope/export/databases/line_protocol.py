"""Events as line protocol of InfluxDB.

`LineEncoder`: an event is a point of the measurement `int_event` at its time in ns.  Tags are bounded: kind,
metric, node, port, queue, collector, shard.  The flow is a field.  Points with the same tags and time would
replace each other: the second and later ones in a block have a tag `n`.  A block that is sent again writes
the same points, so each is there once.

`IntCollectorEncoder`: the measurements that INTCollector wrote, for dashboards that read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from ...base.names import Names
from ...detect.records import NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ...present.events import continues, long_paths
from ...wire.address import address
from ..block import EventBlock

_address = lru_cache(1 << 16)(address)
MAX_INTEGER = 2**63 - 1
"""Largest integer of a field; larger values are written as this one."""
TEXT = 256
"""Most characters of a name in a tag."""
_QUEUED = (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION, Metric.BUFFER_OCCUPANCY)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_KINDS = {kind.value: kind.label for kind in Kind}
_METRICS = {metric.value: metric.label for metric in Metric}
_REASONS = {reason.value: reason.label for reason in ClearReason}


def tag(text: str) -> str:
    """A tag's value: separators escaped; control characters and backslashes are spaces, as no escape keeps
    them.
    """
    clean = _CONTROL.sub(" ", text[:TEXT]).strip() or "-"
    return clean.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


def text_field(text: str) -> str:
    """A text as a field's value, in quotes."""
    clean = _CONTROL.sub(" ", text)
    return '"' + clean.replace('"', '\\"') + '"'


class LineEncoder:
    """Events as lines."""

    def __init__(self, names: Names, member: str) -> None:
        self._names = names
        self._member = tag(member)
        self._heads: dict[tuple[int, ...], str] = {}

    def lines(self, block: EventBlock) -> Iterator[str]:
        """A line for each event; a long path is one event."""
        paths = long_paths(block.records)
        records = block.records[~continues(block.records)]
        columns = {name: records[name].tolist() for name in records.dtype.names or ()}
        seen: dict[tuple[str, int], int] = {}
        for row in zip(*(columns[name] for name in _COLUMNS), strict=True):
            (
                kind,
                metric,
                node,
                port,
                ident,
                value,
                previous,
                time_ns,
                sequence,
                switch_ns,
                reason,
                *rest,
            ) = row
            flow_id, version, src_hi, src_lo, dst_hi, dst_lo, sport, dport, proto, hop, hops, path = rest
            queue = ident if metric in _QUEUED else -1
            head = self._head(block.shard, kind, metric, node, port, queue)
            before = seen.get((head, time_ns), 0)
            seen[head, time_ns] = before + 1
            fields = [f"sequence={sequence}i"]
            if metric == Metric.FLOW_PATH and kind != Kind.FLOW_RECORD:
                fields.append(f'value_hash="{value:016x}",previous_hash="{previous:016x}"')
            else:
                fields.append(f"value={min(value, MAX_INTEGER)}i,previous={min(previous, MAX_INTEGER)}i")
            if flow_id:
                src, dst = _address(src_hi, src_lo), _address(dst_hi, dst_lo)
                fields.append(f'flow="{flow_id:016x}",src="{src}",dst="{dst}"')
                fields.append(f"sport={sport}i,dport={dport}i,proto={proto}i")
            elif version or src_lo:
                fields.append(f'source="{_address(src_hi, src_lo)}",hw_id={ident}i')
            if metric == Metric.HOP_LATENCY:
                fields.append(f"hop={hop}i")
            if metric == Metric.FLOW_PATH or kind == Kind.LOOP:
                whole = paths.get((block.shard, sequence)) or path[: min(PATH_PART, hops)]
                fields.append(f'path="{",".join(map(str, whole))}"')
            if kind == Kind.CLEARED:
                fields.append(f'reason="{_REASONS.get(reason, str(reason))}"')
            if switch_ns:
                fields.append(f"switch_ns={min(switch_ns, MAX_INTEGER)}i")
            number = f",n={before}" if before else ""
            yield f"{head}{number} {','.join(fields)} {time_ns}"

    def _head(self, shard: int, kind: int, metric: int, node: int, port: int, queue: int) -> str:
        """Measurement and tags."""
        key = shard, kind, metric, node, port, queue
        head = self._heads.get(key)
        if head is None:
            tags = [f"collector={self._member}", f"kind={_KINDS.get(kind, kind)}"]
            tags.append(f"metric={_METRICS.get(metric, metric)}")
            if node != NO_NODE:
                tags.append(f"node={tag(self._names.node(node) or str(node))},node_id={node}")
                if port != NO_PORT:
                    tags.append(f"port={tag(self._names.port(node, port) or str(port))},port_id={port}")
            if queue >= 0:
                tags.append(f"queue={queue}")
            head = f"int_event,{','.join(tags)},shard={shard}"
            if len(self._heads) > 100_000:
                self._heads.clear()
            self._heads[key] = head
        return head


_COLUMNS = (
    *("kind", "metric", "node_id", "port", "ident", "value", "previous", "time_ns", "sequence", "switch_ns"),
    *("reason", "flow_id", "ip_version", "src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto"),
    *("hop", "hop_count", "path"),
)


_VALUES = np.array([Kind.NEW_KEY, Kind.CHANGE, Kind.PATH_CHANGE, Kind.PUSH, Kind.VALUE], np.uint8)
"""Kinds of events that are new values; INTCollector has no others."""
_QUEUES = {Metric.QUEUE_OCCUPANCY: "queue_occupancy", Metric.QUEUE_CONGESTION: "queue_congestion"}


class IntCollectorEncoder:
    """New values as INTCollector's exporter writes them: keys are in the measurement's name, in full.

    Times are those of the receipt, not of the switches. Measurements are not bounded.
    """

    def lines(self, block: EventBlock) -> Iterator[str]:
        """A line for each new value of a flow, hop, queue or port."""
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
                name = f"port_tx_utilize,sw_id={node},port_id={row['port']}"
            elif metric in _QUEUES:
                name = f"{_QUEUES[Metric(metric)]},sw_id={node},queue_id={row['ident']}"
            else:
                continue
            yield " ".join((name.replace(",", "\\,"), text, str(row["time_ns"])))
