"""Identity of an alarm: the event that begins it and the event that ends it have the same key."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..wire.address import address
from .records import NO_NODE, NO_PORT, Kind, Metric

ENDS = {Kind.CLEARED: Kind.RAISED, Kind.RETURNED: Kind.SILENT}
"""For each kind that ends an alarm, the kind that begins it."""
Event = np.void | Mapping[str, int]
"""An EVENT record, or its fields by name."""
_LABELS = {metric.value: metric.label for metric in Metric}
# as plain numbers, because Python takes long to compare members of an enum
_OF_SOURCE = frozenset(int(kind) for pair in ENDS.items() if Kind.SILENT in pair for kind in pair)
_OF_FLOW = frozenset(map(int, (Metric.FLOW_PATH, Metric.FLOW_LATENCY)))
_OF_QUEUE = frozenset(map(int, (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION)))
_OF_HOP, _OF_LINK = int(Metric.HOP_LATENCY), int(Metric.LINK_UTILIZATION)
_OF_BUFFER, _OF_LABELS = int(Metric.BUFFER_OCCUPANCY), int(Metric.LABEL_COVERAGE)


def alarm_key(row: Event, queue_by_port: bool) -> str:
    """Key of the alarm that an EVENT record begins or ends; `queue_by_port`: queue keys include the port."""
    kind, metric = int(row["kind"]), int(row["metric"])
    if kind in _OF_SOURCE:
        source = [int(row[name]) for name in ("src_hi", "src_lo", "node_id", "ident")]
        return f"{int(row['shard'])} source {source}"
    node, port, ident = (int(row[name]) for name in ("node_id", "port", "ident"))
    flow = int(row["flow_id"])
    parts: tuple[int, ...]
    if metric in _OF_FLOW:
        parts = (flow,)
    elif metric == _OF_HOP:
        parts = (flow, node)
    elif metric in _OF_QUEUE:
        parts = (node, ident, port) if queue_by_port else (node, ident)
    elif metric in (_OF_LINK, _OF_BUFFER):
        parts = (node, ident)
    else:
        parts = (node, port)
    return f"{int(row['shard'])} {metric} {parts}"


def alarmed_hop(row: Event) -> int:
    """Index of the hop whose alarm an EVENT record begins or ends; 0: the metric has one alarm per key.

    A looping flow passes a switch several times, and each pass has an alarm with the same key. The index of
    an alarm changes with the path; a report of a part of the path counts from its own first hop.
    """
    return int(row["hop"]) if row["metric"] == _OF_HOP else 0


def place_key(row: Event, queue_by_port: bool) -> str:
    """Metric and place of an EVENT record as `METRIC/NODE/PORT`, the same for all shards and members.

    Hop-latency alarms of all flows at one port share a place; the place of a flow-latency alarm is its flow.
    """
    kind, metric = int(row["kind"]), int(row["metric"])
    node, port, ident = (int(row[name]) for name in ("node_id", "port", "ident"))
    if kind in _OF_SOURCE:
        source = address(int(row["src_hi"]), int(row["src_lo"]))
        return f"silent/{source}/{'-' if node == NO_NODE else node}/{ident}"
    label = _LABELS.get(metric, str(metric))
    if metric in _OF_FLOW:
        ends = [address(int(row[f"{side}_hi"]), int(row[f"{side}_lo"])) for side in ("src", "dst")]
        return f"{label}/{','.join(ends)},{int(row['proto'])},{int(row['sport'])},{int(row['dport'])}"
    if metric == _OF_LABELS:
        return label
    if metric in _OF_QUEUE:
        return f"{label}/{node}/{port if queue_by_port else '-'}/{ident}"
    if metric == _OF_BUFFER:
        return f"{label}/{node}/-/{ident}"
    if metric == _OF_LINK:
        port = ident
    return f"{label}/{node}/{'-' if port == NO_PORT else port}"
