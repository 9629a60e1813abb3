"""Models of distributions."""

from __future__ import annotations

from typing import Literal

from .common import ClusterModel, Model, Node, Page, Port, Time, Wide

MeasureName = Literal["hop_latency", "queue_occupancy", "link_utilization", "end_to_end"]


class Quantile(Model):
    """Where a quantile lies."""

    q: float
    lower: Wide | None
    """Lower bound; null without values."""
    upper: Wide | None
    """Upper bound; null if unknown."""
    estimate: float | None
    """Interpolated in its bin: the error is at most the bin's width, 25 % for logarithmic bins."""


class Bin(Model):
    """The number of values from `lower` to `upper`, both inclusive."""

    lower: Wide
    upper: Wide | None
    """null: unbounded."""
    count: Wide


class Distribution(Model):
    """The distribution of a measure at a queue, a port, a switch, or in the whole network."""

    measure: MeasureName
    unit: str | None
    """ns for latencies; null: the unit that the switches send."""
    node: Node | None
    port: Port | None
    queue: int | None
    since: Time | None
    """Start of the covered window."""
    until: Time | None
    count: Wide
    mean: float | None
    highest: int
    """Upper bound of all values; if the maximum did not rise in the window, it is an older maximum."""
    quantiles: list[Quantile]
    bins: list[Bin] | None
    """Bins with values; null unless requested."""


class DistributionPage(Page, ClusterModel):
    """Distributions, by measure and place."""

    items: list[Distribution]
