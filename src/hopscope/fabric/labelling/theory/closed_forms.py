"""Closed forms of INT-label, section 4: coverage of ports, labels per packet.

The paper's formulas, each with a variant for cases that it does not cover: `probe_probability` is about a gap
between two updates, `window_coverage` about a telemetry interval; `labels_base_b` is the paper's recurrence,
while in `mean_field`, ports remember labels written by probability. All times are in one unit, usually s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, comb, erfc, exp, floor, isfinite, pi, sqrt

import numpy as np
import numpy.typing as npt

from ....base.errors import HopscopeError

Floats = npt.NDArray[np.float64]
Chance = Callable[[int, int, float, float], float]
"""f(labels carried, MAX_hop, time since the port's last label, interval): probability of another label."""
Interval = Callable[[float, float], float]
"""g(f, T_s / T): probability of a label by the interval, if that by count is f."""

MAX_HOP = 5
"""The paper's MAX_hop."""


class TheoryError(HopscopeError, ValueError):
    """A parameter outside a formula's domain: value and expectation."""


# ----------------------------------------------------------------------------------- 4.2: delay and coverage


def probe_probability(interval: float, wait: float, telemetry: float, sigma: float, hops: int = 1) -> float:
    """P_t = 1 - Φ((T + T_p - T_i) / (√2 σ)): probability that a port's next update comes within T_i of its
    last.

    `wait` is T_p; `sigma` the standard deviation of the delay of one hop, `hops` of them to the controller.
    Delays of n hops add up to a variance of n σ², so that at T_i = T + T_p the probability is 1/2 for any n;
    the paper's 0.5^n would require every hop separately to be in time. sigma = 0: 0, 1/2 or 1.
    """
    _positive(interval=interval, telemetry=telemetry)
    spread = sigma * sqrt(2 * _hops(hops))
    late = interval + _not_negative(wait=wait) - telemetry
    if _not_negative(sigma=sigma) == 0:
        return 0.5 if late == 0 else float(late < 0)
    return 1 - phi(late / spread)


def window_coverage(
    interval: float, wait: float, telemetry: float, sigma: float = 0.0, hops: int = 1
) -> float:
    """Probability that a telemetry interval T_i has an update of a port: the coverage rate of section 6.

    An update gap is G = T + T_p + Q with Q ~ N(0, 2nσ²) (4.2). Windows start anywhere, so one of length w is
    empty with probability E[(G - w)+] / E[G] (the residual life of a stationary renewal process): coverage at
    T_i = T is near 1 - T_p / T, not below 1/2 as P_t is. Exact while updates keep their order.
    """
    _positive(interval=interval, telemetry=telemetry)
    mean = interval + _not_negative(wait=wait)
    spread = _not_negative(sigma=sigma) * sqrt(2 * _hops(hops))
    late = mean - telemetry
    if spread == 0:
        return 1 - max(0.0, late) / mean
    x = late / spread
    empty = late * phi(x) + spread * exp(-x * x / 2) / sqrt(2 * pi)
    return 1 - min(1.0, empty / mean)


def random_window_coverage(interval: float, gap: float, telemetry: float) -> float:
    """`window_coverage` of a port whose packets arrive at random, on average `gap` apart, without delays.

    T_p is exponential: at T_i = T a port misses 1 / (1 + T / gap) of the windows, and from there on
    exp(-(T_i - T) / gap) of that.
    """
    _positive(interval=interval, gap=gap, telemetry=telemetry)
    return 1 - random_excess(interval - telemetry, gap) / (interval + gap)


def random_excess(late: float, gap: float) -> float:
    """E[(late + E)+] for an exponential E of mean `gap`."""
    return late + gap if late >= 0 else gap * exp(late / gap)


def lossy_coverage(interval: float, wait: float, telemetry: float, loss: float) -> float:
    """Probability that a telemetry interval has an update of a port, if labels are lost with probability
    `loss`.

    A window has n or n + 1 labels, n = floor(T_i / (T + T_p)), n + 1 with the probability of the fraction.
    """
    _positive(interval=interval, telemetry=telemetry)
    labels = telemetry / (interval + _not_negative(wait=wait))
    whole = floor(labels)
    more = labels - whole
    lost = _share(loss=loss)
    return 1 - ((1 - more) * lost**whole + more * lost ** (whole + 1))


# --------------------------------------------------------------------------------- 4.3: labels of one packet


def hop_distribution(k: int) -> dict[int, float]:
    """P(H): switches on the path from a host of a k-ary fat tree to another, {1, 3, 5: probability}."""
    if k < 2 or k % 2:
        raise TheoryError(f"a fat tree's k is an even number from 2, not {k}")
    half, others = k // 2, k**3 // 4 - 1
    return {1: (half - 1) / others, 3: (half - 1) * half / others, 5: (k - 1) * half * half / others}


def label_share(ratio: float, arrivals: str = "poisson") -> float:
    """Share of a port's packets that Base A labels, for a mean packet gap of `ratio` T.

    `paper`: T_s / T (4.3), the limit of the other two for many packets in an interval. `poisson`: a gap
    between labels is T and the wait for a packet, r / (1 + r). `periodic`: the first packet later than T
    after the last label, one of floor(T / T_s) + 1. The paper's T_s is the longest gap; this is the mean.
    """
    _positive(ratio=ratio)
    if arrivals == "paper":
        return _share(ratio=ratio)
    if arrivals == "poisson":
        return ratio / (1 + ratio)
    if arrivals == "periodic":
        if ratio < 1e-12:  # one packet fewer makes no difference in float64
            return ratio
        return 1 / (floor(1 / ratio * (1 + 1e-12)) + 1)
    raise TheoryError(f"arrivals are paper, poisson or periodic, not {arrivals!r}")


def labels_base_a(hops: int | Mapping[int, float], ratio: float, arrivals: str = "paper") -> Floats:
    """P(Z_A = s), s = 0 … most hops: labels of a packet if every port decides independently (4.3).

    `hops` is k of a fat tree, or a distribution {switches: probability}; `ratio` is T_s / T.
    """
    chances = _distribution(hops)
    share = label_share(ratio, arrivals)
    labels = np.zeros(max(chances) + 1)
    for length, weight in chances.items():
        for s in range(length + 1):
            labels[s] += weight * comb(length, s) * share**s * (1 - share) ** (length - s)
    return labels


def linear_g(chance: float, ratio: float) -> float:
    """g(f) = T_s/T (1 - f), as in the published code (`Probability/poly_simplify.py`).

    f + g(f) is then 1 - (1 - f)(1 - T_s/T): a label by probability does not delay the one by interval.
    """
    return ratio * (1 - chance)


def renewal_g(chance: float, ratio: float) -> float:
    """g(f) = (1 - f) π(f), π the share of packets that find the interval expired; our choice.

    Packets arrive at random with mean gap r T, and each is labelled with probability f. A period between
    labels lasts all of T with probability exp(-f / r), and has a mean of (1 - exp(-f/r)) / f + exp(-f/r)
    packets; in a period of length T, one finds the interval expired. π is the quotient: r / (1 + r) at f = 0,
    decreasing with f, since every label by probability restarts the interval. The factor 1 - f excludes
    packets labelled by probability anyway. So g meets the paper's conditions: decreasing, T_s / T at 0 (up to
    r²), 0 at 1.
    """
    return (1 - chance) * run_out(chance, ratio)


def run_out(chance: float, ratio: float) -> float:
    """π: share of a port's packets that find the interval expired; `chance`: probability of a label for the
    others.

    exp(-a) / ((1 - exp(-a)) / f + exp(-a)) with a = f / r; see `renewal_g`.
    """
    _positive(ratio=ratio)
    rate = _share(chance=chance) / ratio
    last = exp(-rate)
    before = 1 / ratio if rate < 1e-12 else (1 - last) / chance
    return last / (before + last)


G: dict[str, Interval] = {"linear": linear_g, "renewal": renewal_g}
"""Choices for g, which the paper does not specify, by name."""


def chance_f1(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """F1: 1 for packets that carry a label (section 6, the default)."""
    return float(count > 0)


def chance_f2(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """F2: i / (MAX_hop - 1), at most 1 (3.1)."""
    return min(1.0, count / max(1, max_hop - 1))


def chance_listing(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """The listing's i / MAX_hop, and Figs. 15 and 16's i / 5 (section 5)."""
    return min(1.0, count / max_hop)


def chance_f3(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """F3: F2 times the elapsed share of the interval (section 6)."""
    return chance_f2(count, max_hop, elapsed, interval) * min(1.0, elapsed / interval)


CHANCES: dict[str, Chance] = {
    "f1": chance_f1, "f2": chance_f2, "f2-listing": chance_listing, "f3": chance_f3,
}  # fmt: skip
"""Probabilities of Base B by the names of the setting `label.labelling.chance`."""


def chance_of(chance: str | Chance) -> Chance:
    """A probability by name, or itself. Raises TheoryError for an unknown name."""
    if callable(chance):
        return chance
    if chance not in CHANCES:
        raise TheoryError(f"unknown chance {chance!r}; expected {', '.join(CHANCES)}, or a function")
    return CHANCES[chance]


def labels_base_b(
    hops: int | Mapping[int, float],
    ratio: float,
    chance: str | Chance = "f1",
    g: str | Interval = "renewal",
) -> Floats:
    """P(Z_B = s), s = 0 … most hops, by the paper's recurrence of W_n (4.3), for a g by name or a function.

    A further label has probability f(i) + g(f(i)) with i of the packet itself, so packets without labels
    always get one with g(0) = T_s / T. That is too high on every hop but the first, for any g, since labelled
    packets have restarted the interval. `mean_field.labels_on_fat_tree` accounts for that. A probability that
    depends on the time since the last label (F3) is averaged over the interval.
    """
    chances, function = _distribution(hops), chance_of(chance)
    by_interval = G.get(g) if isinstance(g, str) else g
    if by_interval is None:
        raise TheoryError(f"unknown g {g!r}; expected {', '.join(G)}, or a function of (f, T_s/T)")
    most = max(chances)
    step = np.empty(most)
    for i in range(most):
        f = float(np.mean([function(i, MAX_HOP, x, 1.0) for x in (np.arange(64) + 0.5) / 64]))
        step[i] = f + by_interval(f, ratio)
        if not 0 <= step[i] <= 1 + 1e-12:
            raise TheoryError(f"with {i} labels f + g(f) is {step[i]:.4g}, not a probability")
    labels, packet = np.zeros(most + 1), np.zeros(most + 1)
    packet[0] = 1.0
    for hop in range(1, most + 1):
        moved = packet[:most] * step
        packet[:most] -= moved
        packet[1:] += moved
        labels += chances.get(hop, 0.0) * packet
    return labels


def expected_labels(labels: npt.ArrayLike) -> float:
    """E[Z] of a distribution of labels per packet (Figs. 15 and 16)."""
    shares = np.asarray(labels, np.float64)
    return float(shares @ np.arange(len(shares)))


def labelled_packets(labels: npt.ArrayLike) -> float:
    """P(Z > 0): share of packets that carry labels to the last hop; each is an export."""
    return 1 - float(np.asarray(labels, np.float64)[0])


# --------------------------------------------------------------------------------------------------- checks


def _distribution(hops: int | Mapping[int, float]) -> dict[int, float]:
    chances = hop_distribution(hops) if isinstance(hops, int) else dict(hops)
    wrong = not chances or min(chances) < 1 or min(chances.values()) < 0
    if wrong or abs(sum(chances.values()) - 1) > 1e-9:
        raise TheoryError(f"hops are k, or {{switches: probability}} that add up to 1, not {hops!r}")
    return chances


def phi(x: float) -> float:
    """Φ(x), precise in the lower tail."""
    return erfc(-x / sqrt(2)) / 2


def _hops(hops: int) -> int:
    if hops < 1:
        raise TheoryError(f"hops are 1 or more, not {hops}")
    return ceil(hops)


def _positive(**values: float) -> float:
    for name, value in values.items():
        if not (isfinite(value) and value > 0):
            raise TheoryError(f"{name} is positive, not {value:g}")
    return next(iter(values.values()))


def _not_negative(**values: float) -> float:
    for name, value in values.items():
        if not (isfinite(value) and value >= 0):
            raise TheoryError(f"{name} is 0 or more, not {value:g}")
    return next(iter(values.values()))


def _share(**values: float) -> float:
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise TheoryError(f"{name} is between 0 and 1, not {value:g}")
    return next(iter(values.values()))
