"""What the API answers about distributions."""

from __future__ import annotations

from typing import Literal

from .common import ClusterModel, Model, Node, Port, Time, Wide

MeasureName = Literal["hop_latency", "queue_occupancy", "link_utilization", "end_to_end"]


class Quantile(Model):
    """Where a quantile lies."""

    q: float
    lower: Wide | None
    """It is at least this; null without values."""
    upper: Wide | None
    """It is at most this; null where that is not known."""
    estimate: float | None
    """By interpolation in its bin: off by at most the bin's width, 25 % where bins are logarithmic."""


class Bin(Model):
    """How many values were from `lower` to `upper`, both included."""

    lower: Wide
    upper: Wide | None
    """null: no end."""
    count: Wide


class Distribution(Model):
    """How often which value of a measure occurred, at a queue, a port, a switch, or everywhere."""

    measure: MeasureName
    unit: str | None
    """ns for latencies; null: as the switches send it."""
    node: Node | None
    port: Port | None
    queue: int | None
    since: Time | None
    """The window that is covered begins here."""
    until: Time | None
    count: Wide
    mean: float | None
    highest: int
    """No value is above it; in a window in which the maximum did not rise, it may be an older one."""
    quantiles: list[Quantile]
    bins: list[Bin] | None
    """Bins with values; null unless requested."""


class DistributionPage(ClusterModel):
    """Distributions, by measure and place."""

    total: int
    """As many match."""
    offset: int
    items: list[Distribution]
