"""Latency attribution as JSON objects of the API and the command line."""

from __future__ import annotations

from typing import Any

from ...base.names import Names
from ...detect.bottleneck.shares import Gauge, HopShare, LossShare, QuantileRange, QueueShare
from ...detect.distributions.quantiles import Distribution, Quantile
from ...detect.places import Place
from ..events import flow_object, node_object, port_object, when, wide
from .answer import FlowAttribution, NetworkAttribution

Object = dict[str, Any]


def network_object(found: NetworkAttribution, names: Names) -> Object:
    """The attribution of a network as JSON."""
    return {
        "source": found.source,
        "since": when(found.since_ns),
        "until": when(found.until_ns),
        "history_since": when(found.history_ns),
        "end_to_end": None if found.end_to_end is None else _end_to_end(found.end_to_end),
        "slow_above_ns": found.slow_above_ns,
        "slow_flows": found.slow_flows,
        "items": [queue_object(share, names) for share in found.items],
        "losses": [_loss(share, names) for share in found.losses],
        "truncated": found.truncated,
    }


def flow_object_of(found: FlowAttribution, names: Names) -> Object:
    """The attribution of a flow as JSON."""
    row = found.flow
    samples = 0 if row is None else int(row["latency_samples"])
    return {
        "source": found.source,
        "flow": None if row is None else flow_object(row),
        "latency_ns": None if row is None or not row["state"] & 2 else wide(int(row["latency_latest"])),
        "latency_mean_ns": None if row is None or not samples else int(row["latency_sum"]) / samples,
        "quantile": _quantile(found.quantile),
        "items": [hop_object(share, names) for share in found.items],
    }


def queue_object(share: QueueShare, names: Names) -> Object:
    """A place of a network as JSON."""
    return {
        **_place(share.place, names),
        "share": share.share,
        "latency_sum_ns": wide(share.latency_sum_ns),
        "packets": wide(share.packets),
        "mean_ns": share.mean_ns,
        "median_ns": _bounds(share.median_ns),
        "p99_ns": _bounds(share.p99_ns),
        "highest_ns": share.highest_ns,
        "occupancy": _gauge(share.occupancy),
        "utilization": _gauge(share.utilization),
        "slow_flows": share.slow_flows,
    }


def hop_object(share: HopShare, names: Names) -> Object:
    """A hop of a flow as JSON."""
    return {
        "hop": share.hop,
        **_place(share.place, names),
        "share": share.share_latest,
        "share_mean": share.share_mean,
        "latency_ns": share.latest_ns,
        "mean_ns": share.mean_ns,
        "samples": share.samples,
        "median_ns": _bounds(share.median_ns),
        "p99_ns": _bounds(share.p99_ns),
        "quantile": _quantile(share.quantile),
        "occupancy": _gauge(share.occupancy),
        "utilization": _gauge(share.utilization),
    }


def _place(place: Place, names: Names) -> Object:
    node, port, queue = place
    return {
        "node": node_object(names, node),
        "port": port_object(names, node, port),
        "queue": queue,
    }


def _loss(share: LossShare, names: Names) -> Object:
    return {**_place(share.place, names), "share": share.share, "drops": share.drops}


def _end_to_end(part: Distribution) -> Object:
    return {
        "packets": wide(part.count),
        "mean_ns": part.mean,
        "median_ns": _bounds(part.quantile(0.5)),
        "p99_ns": _bounds(part.quantile(0.99)),
    }


def _bounds(found: Quantile | None) -> Object | None:
    if found is None:
        return None
    return {"lower": wide(found.lower), "upper": wide(found.upper), "estimate": found.estimate}


def _quantile(found: QuantileRange | None) -> Object | None:
    return None if found is None else {"lower": found.lower, "upper": found.upper}


def _gauge(gauge: Gauge) -> Object:
    return {"latest": gauge.latest, "mean": gauge.mean, "highest": gauge.highest}
