"""Converts events to data records of IPFIX, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...detect.records import OF_SOURCE, PATH_PART, Kind, Metric
from ...wire.records import Records
from ..rendering import Column, Mask
from .templates import (
    DELAYED_FLOW_4,
    DELAYED_FLOW_6,
    EVENT_4,
    EVENT_6,
    EVENT_OTHER,
    FLOW_4,
    FLOW_6,
    Template,
    ntp,
)

_MILLION = np.uint64(10**6)


def data_records(events: Records) -> Iterator[tuple[Template, Records]]:
    """EVENT records [n] as data records, by template.

    The path and the latency of a flow record form one data record. Path nodes beyond the eighth are in
    separate event records, as in history.
    """
    latency, latency_of = _latencies(events)
    flow_record = (events["kind"] == Kind.FLOW_RECORD) & (events["metric"] == Metric.FLOW_PATH)
    flow_record &= events["hop"] == 0
    delayed = latency >= 0
    with_flow = ~np.isin(events["kind"], OF_SOURCE) & (events["flow_id"] != 0)
    ipv4 = events["ip_version"] == 4
    event = ~flow_record & ~latency_of
    for template, chosen in (
        (FLOW_4, flow_record & ~delayed & ipv4),
        (FLOW_6, flow_record & ~delayed & ~ipv4),
        (DELAYED_FLOW_4, flow_record & delayed & ipv4),
        (DELAYED_FLOW_6, flow_record & delayed & ~ipv4),
        (EVENT_4, event & with_flow & ipv4),
        (EVENT_6, event & with_flow & ~ipv4),
        (EVENT_OTHER, event & ~with_flow),
    ):
        if chosen.any():
            rows = events[chosen]
            known = events["value"][latency[chosen]]
            made = np.empty(len(rows), template.layout)
            for name in template.layout.names or ():
                made[name] = _column(name, rows, known)
            yield template, made


def _latencies(events: Records) -> tuple[Column, Mask]:
    """(index of the record with each flow record's latency, -1: none; mask of these latency records).

    The latency follows the records of the path.
    """
    count = len(events)
    latency = np.full(count, -1)
    parts = np.maximum(1, -(-events["hop_count"].astype(np.int64) // PATH_PART))
    heads = np.flatnonzero(
        (events["kind"] == Kind.FLOW_RECORD) & (events["metric"] == Metric.FLOW_PATH) & (events["hop"] == 0)
    )
    after = heads + parts[heads]
    heads, after = heads[after < count], after[after < count]
    same = (events["kind"][after] == Kind.FLOW_RECORD) & (events["metric"][after] == Metric.FLOW_LATENCY)
    same &= events["flow_id"][after] == events["flow_id"][heads]
    same &= events["time_ns"][after] == events["time_ns"][heads]
    latency[heads[same]] = after[same]
    found = np.zeros(count, bool)
    found[after[same]] = True
    return latency, found


def _column(name: str, events: Records, latency: Column) -> Any:
    """Values of an element; `latency` is that of flow records, ns."""
    if name in _FIELDS:
        return events[_FIELDS[name]]
    if side := _SIDES.get(name):
        high, low = events[f"{side}_hi"], events[f"{side}_lo"]
        return np.column_stack([high, low]) if "IPv6" in name else low & np.uint64(2**32 - 1)
    if name == "pathDelayMeanDeltaMicroseconds":
        return np.minimum(latency // np.uint64(1000), np.uint64(2**32 - 1))
    if name == "hopscopeFlowLatencyNanoseconds":
        return latency
    times = events["previous" if name.startswith("flowStart") else "time_ns"].astype(np.uint64)
    return times // _MILLION if name.endswith("Milliseconds") else ntp(times)


_SIDES = {
    "sourceIPv4Address": "src",
    "sourceIPv6Address": "src",
    "exporterIPv6Address": "src",
    "destinationIPv4Address": "dst",
    "destinationIPv6Address": "dst",
}
"""Side of the flow in EVENT, by element; `src` is also the address of a source of reports."""
_FIELDS = {
    "sourceTransportPort": "sport",
    "destinationTransportPort": "dport",
    "protocolIdentifier": "proto",
    "flowId": "flow_id",
    "packetDeltaCount": "value",
    "hopscopeSequence": "sequence",
    "hopscopeHopCount": "hop_count",
    "hopscopePath": "path",
    "hopscopeKind": "kind",
    "hopscopeMetric": "metric",
    "hopscopeReason": "reason",
    "hopscopeHop": "hop",
    "hopscopeValue": "value",
    "hopscopePrevious": "previous",
    "hopscopeSwitchTime": "switch_ns",
    "hopscopeNode": "node_id",
    "hopscopePort": "port",
    "hopscopeIdentifier": "ident",
}
"""Field of EVENT by element."""
