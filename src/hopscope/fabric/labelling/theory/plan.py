"""How a network should be labelled: the longest interval that keeps a coverage, and what it costs.

Theory is about the port that has the least traffic of those that count, and a path on which every port has as
little: others are covered better, as long as a hop takes far less than the telemetry interval.  Beyond,
labels on short ways overtake older ones on longer ways, which are then no news: a port that sends few of its
packets on short ways is covered worse than theory says.  `plan_check` simulates the same on a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, pi, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from ....base.errors import HopscopeError
from .closed_forms import phi
from .mean_field import labels_on_routes

Algorithm = Literal["base-a", "base-b"]
Chance = Literal["f1", "f2", "f2-listing", "f3"]
ITEM_BYTES, OPTION_BYTES = 32, 2
"""One label, and what stands before the first (INT-label, section 2)."""
TARGETS = (0.9, 0.99, 0.999, 0.9999)
"""Coverages for which alternatives are given."""
LONGER = np.linspace(0.05, 1, 39)
"""Intervals, in telemetry intervals, that bound the coverage of shorter ones."""
SHORTEST = 1e-6
"""Shortest interval that is proposed, s: every packet is labelled long before."""


class PlanError(HopscopeError):
    """What was asked for cannot be planned; the message says which value, and what is possible."""


@dataclass(frozen=True, slots=True)
class LabelDemand:
    """What labelling has to do, and where."""

    resolution: float
    """Telemetry resolution, 1/s: every port is to be heard of in every interval of 1 / resolution."""
    coverage: float
    """Share of the active ports that are heard of in an interval, below 1."""
    rate: float
    """Traffic of the active port that has least, bit/s of IP packets."""
    size: int = 1000
    """IP bytes of a packet."""
    delay: float = 0.0
    """Delay of one hop, s: mean."""
    jitter: float | None = None
    """Its standard deviation, s; None: as where it is spread evenly from 0 to twice the mean."""
    hops: int = 5
    """Switches on the longest path: MAX_hop."""
    algorithm: Algorithm = "base-b"
    chance: Chance = "f1"

    def __post_init__(self) -> None:
        limits = (
            ("resolution", self.resolution, 1e-6, 1e6),
            ("rate", self.rate, 1.0, 1e13),
            ("size", self.size, 20, 65535),
            ("delay", self.delay, 0, 1000.0),
            ("jitter", self.sigma, 0, 1000.0),
        )
        for name, value, least, most in limits:
            if not least <= value <= most:
                raise PlanError(f"{name} {value:g}: expected {least:g} to {most:g}")
        if not 0 < self.coverage < 1:
            raise PlanError(f"coverage {self.coverage:g}: expected a share between 0 and 1, as 0.999")
        if not 1 <= self.hops <= 100:
            raise PlanError(f"hops {self.hops}: expected 1 to 100")

    @property
    def telemetry(self) -> float:
        """Telemetry interval, T_i, s."""
        return 1 / self.resolution

    @property
    def gap(self) -> float:
        """Mean time between the packets of that port, s."""
        return 8 * self.size / self.rate

    @property
    def sigma(self) -> float:
        """Standard deviation of the delay of one hop, s."""
        return self.delay / sqrt(3) if self.jitter is None else self.jitter

    @property
    def apart(self) -> float:
        """How much later a label is that has the longest way before it, s: the shortest that leaves the edge
        has three switches.
        """
        return self.delay * max(0, self.hops - 3)


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """One labelling interval, and what follows from it."""

    target: float
    """Coverage that it was chosen for."""
    interval: float
    """T, s."""
    coverage: float
    """Of the port that has least traffic, in the mean over intervals."""
    labelled: float
    """Share of the packets of a longest path that arrive with labels: each is an export to the controller."""
    labels: float
    """Labels of such a packet, mean."""
    overhead: float
    """Bytes of labels on links over those of traffic, on that path."""
    port_labels: float
    """Labels a second of that port."""


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """What to choose, and alternatives."""

    demand: LabelDemand
    best: LabelChoice
    choices: tuple[LabelChoice, ...]
    """For other coverages too, by coverage; those that cannot be reached are missing."""
    most: float
    """Coverage where every packet is labelled: no interval reaches more."""
    late: float
    """Mean time from a label until the controller has it, on the longest path, without the export, s."""


def plan_labels(demand: LabelDemand) -> LabelPlan:
    """The longest interval that keeps the coverage. PlanError: none does, and what is possible."""
    most = expected_coverage(SHORTEST, demand)
    if most < demand.coverage:
        raise PlanError(
            f"coverage {demand.coverage:g} at {demand.resolution:g}/s: a port of {demand.rate / 1e6:g} "
            f"Mbit/s has a packet every {demand.gap * 1e3:.3g} ms, and is heard of in {100 * most:.4g} % of "
            f"intervals though all are labelled; with this coverage {_possible(demand):.3g}/s is possible"
        )
    targets = sorted({*TARGETS, demand.coverage})
    choices = tuple(choose(interval_for(one, demand), one, demand) for one in targets if one <= most)
    best = next(one for one in choices if one.target == demand.coverage)
    return LabelPlan(demand, best, choices, most, demand.delay * (demand.hops - 1) / 2)


def expected_coverage(interval: float, demand: LabelDemand) -> float:
    """Chance that a telemetry interval has an update of the port that has least traffic.

    An update gap is T + T_p + Q: T_p, the wait for a packet after T, is exponential (packets at random), and
    Q the difference of two delays, N(0, 2 n σ²) over n hops (INT-label, 4.2), and more where one label goes
    a longer way than the other (`apart`: with chance 1/4 each, later or sooner).  An interval of length T_i
    that begins anywhere is empty with E[(gap - T_i)+] / E[gap], while updates keep their order.  Where
    delays vary by many T they do not, and the better of two bounds holds: a longer interval's, since more
    labels cover no less; and that of updates at random, exp(-T_i / E[gap]), towards which delays that
    vary move regular ones.  Base B's chance only adds updates.
    """
    gap, telemetry, spread = demand.gap, demand.telemetry, demand.sigma * sqrt(2 * demand.hops)
    longer = LONGER * telemetry
    empty = exp(-telemetry / (interval + gap))
    for one in [interval, *longer[longer > interval].tolist()] if spread or demand.apart else [interval]:
        late = one - telemetry
        ways = ((late, 0.5), (late + demand.apart, 0.25), (late - demand.apart, 0.25))
        empty = min(empty, sum(share * _excess(by, gap, spread) for by, share in ways) / (one + gap))
    return 1 - empty


def interval_for(coverage: float, demand: LabelDemand) -> float:
    """The longest T with that coverage, s, rounded down to three digits."""
    low, high = SHORTEST, demand.telemetry + 10 * demand.gap
    while expected_coverage(high, demand) >= coverage:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_coverage(middle, demand) >= coverage else (low, middle)
    step = 10.0 ** (int(np.floor(np.log10(low))) - 2)
    return max(SHORTEST, float(np.floor(low / step + 1e-9)) * step)


def choose(interval: float, target: float, demand: LabelDemand) -> LabelChoice:
    """What follows from an interval, on a path whose ports all have the demand's rate."""
    chance = None if demand.algorithm == "base-a" else demand.chance
    field = labels_on_routes(
        [list(range(demand.hops))], [1 / demand.gap], interval, chance, max_hop=max(2, demand.hops)
    )
    carried = np.cumsum(field.label_share)[:-1]  # labels of a packet behind each switch but the last
    some = 1 - np.cumprod(1 - field.by_interval)[:-1]  # (a packet's first label is by the interval)
    on_links = ITEM_BYTES * carried.sum() + OPTION_BYTES * some.sum()
    labelled = 1 - float(field.labels[0])
    return LabelChoice(
        target=target,
        interval=interval,
        coverage=expected_coverage(interval, demand),
        labelled=labelled,
        labels=float(field.label_share.sum()) / labelled,
        overhead=float(on_links) / (demand.size * (demand.hops + 1)),
        port_labels=float(field.label_share[0]) / demand.gap,
    )


def coverages(intervals: npt.ArrayLike, demand: LabelDemand) -> npt.NDArray[np.float64]:
    """Expected coverage for some intervals, float64 [intervals]."""
    return np.array([expected_coverage(float(one), demand) for one in np.asarray(intervals)])


def _possible(demand: LabelDemand) -> float:
    """The highest resolution at which labelling every packet reaches the coverage, 1/s."""
    low, high = 0.0, demand.resolution
    for _ in range(40):
        middle = (low + high) / 2
        reached = expected_coverage(SHORTEST, replace(demand, resolution=middle)) >= demand.coverage
        low, high = (middle, high) if reached else (low, middle)
    return low


def _excess(late: float, gap: float, spread: float) -> float:
    """E[(late + E + Q)+] for an exponential E of mean `gap` and a normal Q of standard deviation `spread`.

    Given Q, it is late + Q + gap where late + Q ≥ 0, and gap · exp((late + Q) / gap) below.
    """
    if spread == 0:
        return late + gap if late >= 0 else gap * exp(late / gap)
    x, ratio = late / spread, spread / gap
    above = (late + gap) * phi(x) + spread * _density(x)
    y = x + ratio
    if y > 25:  # the tail by its first term, where the exponential would be too large
        return above + gap * _density(x) / y
    return above + gap * exp(late / gap + ratio * ratio / 2) * phi(-y)


def _density(x: float) -> float:
    return exp(-x * x / 2) / sqrt(2 * pi)
