"""Plans for labelling: the longest interval that reaches a coverage, and its cost.

Theory covers the relevant port with the least traffic, on a path whose ports all have as little. Others are
covered better, as long as hop delays are far below the telemetry interval. Otherwise labels on short paths
overtake older ones on long paths, which are then outdated: a port that sends few of its packets on short
paths is covered worse than theory predicts. `plan_check` simulates a plan on a fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, pi, sqrt
from typing import Literal

import numpy as np
import numpy.typing as npt

from ....base.errors import HopscopeError
from .closed_forms import phi, random_excess
from .mean_field import labels_on_routes

Algorithm = Literal["base-a", "base-b"]
Chance = Literal["f1", "f2", "f2-listing", "f3"]
ITEM_BYTES, OPTION_BYTES = 32, 2
"""Bytes of one label, and of the option before the first (INT-label, section 2)."""
TARGETS = (0.9, 0.99, 0.999, 0.9999)
"""Coverages for which alternatives are listed."""
LONGER_INTERVALS = np.linspace(0.05, 1, 39)
"""Intervals, as shares of the telemetry interval, that bound the coverage of shorter ones."""
MIN_INTERVAL = 1e-6
"""Shortest proposed interval, s; at this interval, every packet is labelled."""


class PlanError(HopscopeError):
    """An impossible demand; the message names the value, and what is possible."""


@dataclass(frozen=True, slots=True)
class LabelDemand:
    """Requirements for labelling, and the traffic."""

    resolution: float
    """Telemetry resolution, 1/s: every port should be updated in every interval of 1 / resolution."""
    coverage: float
    """Share of the active ports that are updated in an interval, below 1."""
    rate: float
    """Traffic of the active port with the least, bit/s of IP packets."""
    size: int = 1000
    """IP bytes of a packet."""
    delay: float = 0.0
    """Mean delay of one hop, s."""
    jitter: float | None = None
    """Its standard deviation, s; None: that of a uniform distribution from 0 to twice the mean."""
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
            raise PlanError(f"coverage {self.coverage:g}: expected a share between 0 and 1, such as 0.999")
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
    def path_skew(self) -> float:
        """Extra delay of a label with the longest path, s, compared with the shortest path between edge
        switches, which has three switches.
        """
        return self.delay * max(0, self.hops - 3)


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """One labelling interval and its consequences."""

    target: float
    """Requested coverage."""
    interval: float
    """T, s."""
    coverage: float
    """Mean coverage of the port with the least traffic."""
    labelled: float
    """Share of the packets on the longest path that arrive with labels; each is an
    export to the controller.
    """
    labels: float
    """Mean number of labels of such a packet."""
    overhead: float
    """Label bytes divided by traffic bytes, on the links of that path."""
    port_labels: float
    """Labels per second of that port."""


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """A recommendation, and alternatives."""

    demand: LabelDemand
    best: LabelChoice
    choices: tuple[LabelChoice, ...]
    """Choices by coverage; unreachable ones are missing."""
    max_coverage: float
    """Coverage if every packet is labelled."""
    delay: float
    """Mean age of a label at the last hop of the longest path, s."""


def plan_labels(demand: LabelDemand) -> LabelPlan:
    """The longest interval that reaches the coverage. Raises PlanError if none does."""
    max_coverage = expected_coverage(MIN_INTERVAL, demand)
    if max_coverage < demand.coverage:
        raise PlanError(
            f"coverage {demand.coverage:g} at {demand.resolution:g}/s: a port of {demand.rate / 1e6:g} "
            f"Mbit/s has a packet every {demand.gap * 1e3:.3g} ms; even if all are labelled, it is updated "
            f"in {100 * max_coverage:.4g} % of intervals; this coverage allows {_possible(demand):.3g}/s"
        )
    targets = sorted({*TARGETS, demand.coverage})
    choices = tuple(
        choose(interval_for(candidate, demand), candidate, demand)
        for candidate in targets
        if candidate <= max_coverage
    )
    best = next(candidate for candidate in choices if candidate.target == demand.coverage)
    return LabelPlan(demand, best, choices, max_coverage, demand.delay * (demand.hops - 1) / 2)


def expected_coverage(interval: float, demand: LabelDemand) -> float:
    """Probability that a telemetry interval has an update of the port with the least traffic.

    An update gap is T + T_p + Q: T_p, the wait for a packet after T, is exponential (packets at random), and
    Q the difference of two delays, N(0, 2 n σ²) over n hops (INT-label, 4.2), and more if the two labels take
    paths of different length (`path_skew`, with probability 1/4 each, later or earlier). An interval of
    length T_i that starts anywhere is empty with probability E[(gap - T_i)+] / E[gap], while updates keep
    their order. If delays vary by many T, they do not keep it; then the better of two bounds applies: that of
    a longer interval, since more labels never cover less, and that of random updates, exp(-T_i / E[gap]),
    which regular updates approach as delays vary. The probability of Base B only adds updates.
    """
    gap, telemetry, spread = demand.gap, demand.telemetry, demand.sigma * sqrt(2 * demand.hops)
    longer_intervals = LONGER_INTERVALS * telemetry
    empty = exp(-telemetry / (interval + gap))
    for candidate in (
        [interval, *longer_intervals[longer_intervals > interval].tolist()]
        if spread or demand.path_skew
        else [interval]
    ):
        late = candidate - telemetry
        cases = ((late, 0.5), (late + demand.path_skew, 0.25), (late - demand.path_skew, 0.25))
        empty = min(empty, sum(share * _excess(by, gap, spread) for by, share in cases) / (candidate + gap))
    return 1 - empty


def interval_for(coverage: float, demand: LabelDemand) -> float:
    """The longest T with this coverage, s, rounded down to three digits."""
    low, high = MIN_INTERVAL, demand.telemetry + 10 * demand.gap
    while expected_coverage(high, demand) >= coverage:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_coverage(middle, demand) >= coverage else (low, middle)
    step = 10.0 ** (int(np.floor(np.log10(low))) - 2)
    return max(MIN_INTERVAL, float(np.floor(low / step + 1e-9)) * step)


def choose(interval: float, target: float, demand: LabelDemand) -> LabelChoice:
    """Consequences of an interval, on a path whose ports all have the demand's rate."""
    chance = None if demand.algorithm == "base-a" else demand.chance
    field = labels_on_routes(
        [list(range(demand.hops))], [1 / demand.gap], interval, chance, max_hop=max(2, demand.hops)
    )
    carried = np.cumsum(field.label_share)[:-1]  # labels of a packet after each switch but the last
    some = 1 - np.cumprod(1 - field.by_interval)[:-1]  # a packet's first label is by the interval
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
    """Expected coverage by interval, float64 [intervals]."""
    return np.array(
        [expected_coverage(float(interval), demand) for interval in np.asarray(intervals)], np.float64
    )


def _possible(demand: LabelDemand) -> float:
    """The highest resolution at which labelling every packet reaches the coverage, 1/s."""
    low, high = 0.0, demand.resolution
    for _ in range(40):
        middle = (low + high) / 2
        reached = expected_coverage(MIN_INTERVAL, replace(demand, resolution=middle)) >= demand.coverage
        low, high = (middle, high) if reached else (low, middle)
    return low


def _excess(late: float, gap: float, spread: float) -> float:
    """E[(late + E + Q)+] for an exponential E of mean `gap` and a normal Q of standard deviation `spread`.

    Given Q, it is late + Q + gap if late + Q ≥ 0, else gap · exp((late + Q) / gap).
    """
    if spread == 0:
        return random_excess(late, gap)
    x, ratio = late / spread, spread / gap
    above = (late + gap) * phi(x) + spread * _density(x)
    y = x + ratio
    if y > 25:  # first term of the tail: the exponential would overflow
        return above + gap * _density(x) / y
    return above + gap * exp(late / gap + ratio * ratio / 2) * phi(-y)


def _density(x: float) -> float:
    return exp(-x * x / 2) / sqrt(2 * pi)
