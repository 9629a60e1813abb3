"""INT-label's section 4: each closed form against an enumeration or a simulation that is written out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from math import sqrt

import numpy as np
import pytest

from hopscope.fabric.labelling.theory import closed_forms as theory
from hopscope.fabric.labelling.theory.mean_field import labels_on_fat_tree, labels_on_routes
from hopscope.fabric.topology import FatTree


@pytest.mark.parametrize("k", [4, 6])
def test_hops_are_those_of_every_pair_of_hosts(k: int) -> None:
    """Switches on the path between all pairs of hosts of a real fat tree have the stated distribution."""
    topology = FatTree(k)
    src, dst = (grid.ravel() for grid in np.meshgrid(range(topology.hosts), range(topology.hosts)))
    apart = src != dst
    paths = topology.paths(src[apart], dst[apart], np.zeros(int(apart.sum()), np.uint64))
    counts = np.bincount((paths[:, 1:] >= 0).sum(axis=1), minlength=6)
    for hops, share in theory.hop_distribution(k).items():
        assert counts[hops] / counts.sum() == pytest.approx(share)


def brute(chances: dict[int, float], label: object) -> np.ndarray:
    """Labels by packet, by every pattern of labelled and passed switches; `label(i)` is a label's chance."""
    found = np.zeros(max(chances) + 1)
    for hops, weight in chances.items():
        for pattern in product((0, 1), repeat=hops):
            count, chance = 0, weight
            for labelled in pattern:
                step = label(count)  # type: ignore[operator]
                chance *= step if labelled else 1 - step
                count += labelled
            found[count] += chance
    return found


def test_base_a_is_the_sum_over_all_patterns() -> None:
    """The binomial form equals an enumeration, for a fat tree and for a given distribution of hops."""
    ways = theory.hop_distribution(8)
    assert theory.labels_base_a(8, 0.07) == pytest.approx(brute(ways, lambda _: 0.07))
    assert theory.labels_base_a({2: 1.0}, 0.5, "poisson") == pytest.approx([4 / 9, 4 / 9, 1 / 9])


@pytest.mark.parametrize(("chance", "g"), [("f1", "renewal"), ("f2", "linear"), ("f2-listing", "renewal")])
def test_base_b_is_the_sum_over_all_patterns(chance: str, g: str) -> None:
    """The recurrence of W_n equals an enumeration with f(i) + g(f(i)) as the chance of each label."""
    ratio, f, by_interval = 0.05, theory.CHANCES[chance], theory.G[g]

    def step(count: int) -> float:
        own = f(count, 5, 0.5, 1.0)
        return own + by_interval(own, ratio)

    expected = brute(theory.hop_distribution(6), step)
    assert theory.labels_base_b(6, ratio, chance, g) == pytest.approx(expected)


def test_g_is_what_the_paper_asks_of_it() -> None:
    """Both g fall from T_s / T (to second order) at 0 to 0 at 1, and leave f + g(f) a probability."""
    for g in theory.G.values():
        values = [g(f, 0.02) for f in np.linspace(0, 1, 41)]
        assert values[0] == pytest.approx(0.02, rel=0.02)
        assert values[-1] == 0
        assert all(a > b for a, b in pairwise(values))


def one_port(chance: float, ratio: float, packets: int, seed: int) -> float:
    """Share of packets at random that find the interval run out, one packet after the other."""
    rng = np.random.default_rng(seed)
    since, found = 2.0, 0
    gaps, draws = rng.exponential(ratio, packets), rng.random(packets)
    for gap, draw in zip(gaps, draws, strict=True):
        since += gap
        if since > 1:
            found += 1
        if since > 1 or draw < chance:
            since = 0.0
    return found / packets


@pytest.mark.parametrize(("chance", "ratio"), [(0.0, 0.1), (0.1, 0.1), (0.05, 0.3), (0.5, 0.5)])
def test_share_that_finds_the_interval_run_out(chance: float, ratio: float) -> None:
    """The renewal argument after g agrees with a port that is simulated packet by packet."""
    form, packets = theory.run_out(chance, ratio), 100_000
    assert one_port(chance, ratio, packets, 7) == pytest.approx(form, abs=5 * sqrt(form / packets))


def test_share_labelled_by_base_a() -> None:
    """T_s / T, r / (1 + r), and one packet in floor(T / T_s) + 1: 11 packets where 10 fit into T exactly."""
    assert theory.label_share(0.1, "paper") == 0.1
    assert theory.label_share(0.1) == theory.run_out(0.0, 0.1) == pytest.approx(1 / 11)
    assert theory.label_share(0.1, "periodic") == pytest.approx(1 / 11)
    assert theory.label_share(0.15, "periodic") == pytest.approx(1 / 7)


@pytest.mark.parametrize(("sigma", "hops"), [(0.002, 1), (0.004, 3)])
def test_coverage_with_delay_against_a_train_of_updates(sigma: float, hops: int) -> None:
    """P_t is the share of gaps within T_i, the coverage that of windows with an update: both drawn."""
    interval, wait, telemetry, updates = 0.05, 0.002, 0.05, 200_000
    rng = np.random.default_rng(3)
    times = np.arange(updates) * (interval + wait) + rng.normal(0, sigma, (hops, updates)).sum(axis=0)
    times.sort()
    gaps = np.diff(times)
    chance = theory.probe_probability(interval, wait, telemetry, sigma, hops)
    assert (gaps <= telemetry).mean() == pytest.approx(chance, abs=0.005)
    starts = rng.uniform(times[0], times[-1] - telemetry, 200_000)
    heard = np.searchsorted(times, starts + telemetry) > np.searchsorted(times, starts)
    assert heard.mean() == pytest.approx(
        theory.window_coverage(interval, wait, telemetry, sigma, hops), abs=0.003
    )


def test_several_hops_do_not_halve_the_chance_each() -> None:
    """At T_i = T + T_p the chance is 1/2 over any number of hops, where the paper has 0.5^n."""
    assert theory.probe_probability(0.05, 0.01, 0.06, 0.003, 5) == pytest.approx(0.5)
    assert theory.probe_probability(0.05, 0.01, 0.07, 0.0) == 1
    assert theory.window_coverage(0.05, 0.0, 0.04) == pytest.approx(0.8)


def test_coverage_with_lost_labels() -> None:
    """Windows of two labels and of two and a half: all of them have to be lost."""
    assert theory.lossy_coverage(0.05, 0.0, 0.1, 0.6) == pytest.approx(1 - 0.6**2)
    assert theory.lossy_coverage(0.04, 0.0, 0.1, 0.5) == pytest.approx(1 - (0.5**2 + 0.5**3) / 2)


def fabric(k: int, ratio: float, chance: str | None, packets: int, rest: float = 0.0) -> np.ndarray:
    """Labels by packet on a fat tree without delay, packet by packet: hosts send at random to any other."""
    topology, rng = FatTree(k), np.random.default_rng(5)
    src = rng.integers(topology.hosts, size=packets)
    dst = (src + rng.integers(1, topology.hosts, size=packets)) % topology.hosts
    paths = topology.paths(src, dst, rng.integers(0, 2**63, packets).astype(np.uint64))
    times = np.cumsum(rng.exponential(ratio / topology.hosts, packets))
    last, found = np.full(len(topology.ports), -9.0), np.zeros(6)
    f = theory.CHANCES[chance] if chance else None
    draws = rng.random((packets, 6))
    for packet in range(packets):
        count = 0
        for port in paths[packet, 1:]:
            since = times[packet] - last[port]
            chosen = f is not None and since > rest and draws[packet, count] < f(count, 5, since, 1.0)
            if port >= 0 and (since > 1 or chosen):
                last[port], count = times[packet], count + 1
        found[count] += packet >= packets // 10
    return np.asarray(found / found.sum())


@pytest.mark.parametrize(("chance", "rest"), [(None, 0.0), ("f1", 0.0), ("f1", 0.5), ("f3", 0.0)])
def test_mean_field_against_a_fabric(chance: str | None, rest: float) -> None:
    """On k = 4 every share is within 0.015; what is left is that ports are not independent."""
    measured = fabric(4, 0.04, chance, 40_000, rest)
    assert labels_on_fat_tree(4, 0.04, chance, rest=rest).labels == pytest.approx(measured, abs=0.015)


def test_mean_field_without_memory_is_the_papers_binomial() -> None:
    """Ports of one rate under Base A: the binomial with r / (1 + r)."""
    ways = [[0, 1, 2], [3], [4, -1, 5]]
    form = labels_on_routes(ways, [100.0, 100.0, 100.0], 0.1, None)
    expected = theory.labels_base_a({1: 1 / 3, 2: 1 / 3, 3: 1 / 3}, 0.1, "poisson")
    assert form.labels == pytest.approx(expected)
    assert form.periods == pytest.approx(np.full(6, 0.11))


def always_twice(count: int, max_hop: int, elapsed: float, interval: float) -> float:
    """No chance."""
    return 2.0


def test_invalid_values_are_rejected() -> None:
    """One line that says what was given, for each kind of parameter."""
    wrong: list[Callable[[], object]] = [
        lambda: theory.hop_distribution(5),
        lambda: theory.labels_base_a({3: 0.5}, 0.1),
        lambda: theory.labels_base_a(4, 1.5),
        lambda: theory.label_share(0.1, "bursts"),
        lambda: theory.labels_base_b(4, 0.1, "f9"),
        lambda: theory.labels_base_b(4, 0.1, g="none"),
        lambda: theory.labels_base_b(4, 0.1, g=lambda f, r: 2.0),
        lambda: theory.window_coverage(0.0, 0.0, 0.1),
        lambda: theory.probe_probability(0.05, 0.0, 0.1, float("nan")),
        lambda: theory.lossy_coverage(0.05, 0.0, 0.1, 1.1),
        lambda: labels_on_routes([], [], 0.1),
        lambda: labels_on_routes([[0]], [0.0], 0.1),
        lambda: labels_on_routes([[0]], [1.0], 0.1, always_twice),
        lambda: labels_on_routes([[0], [0]], [1.0, float("inf")], 0.1),
        lambda: labels_on_routes([[0]], [1.0], float("inf")),
        *(
            lambda rest=rest: labels_on_routes([[0]], [1.0], 0.1, rest=rest)
            for rest in (-0.1, 5.0, float("nan"))
        ),
    ]
    for attempt in wrong:
        with pytest.raises(theory.TheoryError):
            attempt()
