"""Labels per packet if ports remember: INT-label's section 4.3 for any routes and port rates.

Each port is a renewal process: packets arrive at random at its rate, and a label, by interval or by
probability, restarts its interval. It sees the packets of its routes with the labels that they carry by then.
The only remaining assumption is that ports are independent; `bench/label_theory.py` shows where it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from .closed_forms import MAX_HOP, Chance, Floats, TheoryError, chance_of, hop_distribution

CELLS = 256
"""Parts of the interval T in each of which a probability is constant (F3 and rest vary with time)."""
_TIMES = (np.arange(CELLS) + 0.5) / CELLS


@dataclass(frozen=True, slots=True)
class MeanField:
    """Labelling on a network: shares of packets, between 0 and 1."""

    labels: Floats
    """P(Z = s) of delivered packets, [most switches on a route + 1]."""
    label_share: Floats
    """Share of a port's packets that it labels, [ports]; 0 without packets."""
    by_interval: Floats
    """Share of a port's packets that find its interval expired, [ports]."""
    rate: Floats
    """Packets per second, [ports]."""

    @property
    def periods(self) -> Floats:
        """Mean time between the labels of a port, s [ports]; inf without packets."""
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.rate * self.label_share))


def labels_on_routes(
    routes: Sequence[Sequence[int]] | npt.NDArray[np.integer],
    rates: npt.ArrayLike,
    interval: float,
    chance: str | Chance | None = "f1",
    *,
    rest: float = 0.0,
    max_hop: int = MAX_HOP,
) -> MeanField:
    """Labels of packets on `routes`, port numbers in order (negative: none), at `rates` 1/s.

    `interval` is T in s; `chance` the probability of Base B, by name or a function, None: Base A; `rest` is
    T1 / T. Raises TheoryError for rates or intervals that are not positive and finite, a rest outside 0 to 1,
    or no result after 1,000 rounds, when routes depend on each other.
    """
    paths = _table(routes)
    rate = np.asarray(rates, np.float64)
    positive = rate.shape == paths.shape[:1] and bool(((rate > 0) & np.isfinite(rate)).all())
    if not (positive and interval > 0 and isfinite(interval)):
        raise TheoryError(f"{len(paths)} routes need as many positive rates, and a positive interval")
    if not 0 <= rest <= 1:
        raise TheoryError(f"rest is between 0 and 1, not {rest:g}")
    path_hops, ports = paths.shape[1], int(paths.max()) + 1
    used = paths >= 0
    load = np.zeros(ports)
    np.add.at(load, paths[used], np.broadcast_to(rate[:, None], paths.shape)[used])
    table = _chances(chance, path_hops, max_hop, rest)
    step = np.zeros((ports, path_hops + 1))  # probability of a label, by port and labels carried
    out, busy = np.zeros(ports), load > 0
    for _ in range(1000):
        carried, labels = _walk(paths, rate, step)
        seen = carried[busy] / load[busy, None]  # routes are weighted by rate
        packets = load[busy, None] * interval / CELLS  # packets in a cell
        hazard = seen @ table * packets  # expected labels by probability in a cell
        left = np.exp(-np.cumsum(hazard, axis=1))  # probability of no such label until the cell's end
        within = np.divide(-np.expm1(-hazard), hazard, out=np.ones_like(hazard), where=hazard > 1e-12)
        met = np.exp(hazard - np.cumsum(hazard, axis=1)) * within * packets  # packets per period
        found = left[:, -1] / (met.sum(axis=1) + left[:, -1])
        by_chance = met @ table.T / met.sum(axis=1, keepdims=True)
        new = np.zeros_like(step)
        new[busy] = found[:, None] + (1 - found[:, None]) * by_chance
        change = float(np.abs(new - step).max())
        step, out[busy] = new, found
        if change < 1e-12:
            share = np.zeros(ports)
            share[busy] = (seen * new[busy]).sum(axis=1)
            return MeanField(labels / rate.sum(), share, out, load)
    raise TheoryError("no convergence: labels on these routes depend on each other")


def labels_on_fat_tree(
    k: int,
    ratio: float,
    chance: str | Chance | None = "f1",
    *,
    rest: float = 0.0,
) -> MeanField:
    """Labels on a k-ary fat tree whose hosts send to random others; `ratio` is T_s / T at ports to hosts.

    Ports of one stage are equivalent; each stage has k³/4: edge up, aggregation up, core down, aggregation
    down, edge to host. Those towards the core carry fewer packets, with longer gaps.
    """
    hops = hop_distribution(k)
    routes = {1: (4,), 3: (0, 3, 4), 5: (0, 1, 2, 3, 4)}
    some = [length for length in routes if hops[length] > 0]
    return labels_on_routes(
        [routes[length] for length in some], [hops[length] / ratio for length in some], 1.0,
        chance, rest=rest,
    )  # fmt: skip


def _table(routes: Sequence[Sequence[int]] | npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    if len(routes) == 0:
        raise TheoryError("there are no routes")
    path_hops = max(len(route) for route in routes)
    paths = np.full((len(routes), path_hops), -1, np.int64)
    for row, route in enumerate(routes):
        paths[row, : len(route)] = route
    if (paths < 0).all():
        raise TheoryError("no route has a port")
    return paths


def _chances(chance: str | Chance | None, path_hops: int, max_hop: int, rest: float) -> Floats:
    """Probability by labels carried and time since the port's last label, [path_hops + 1, CELLS]."""
    table = np.zeros((path_hops + 1, CELLS))
    if chance is None:
        return table
    function = chance_of(chance)
    for count in range(path_hops + 1):
        table[count] = [function(count, max_hop, float(x), 1.0) for x in _TIMES]
    if not (np.isfinite(table).all() and table.min() >= 0 and table.max() <= 1):
        raise TheoryError(f"a probability is between 0 and 1, not {table.min():g} to {table.max():g}")
    table[:, rest > _TIMES] = 0.0
    return table


def _walk(paths: npt.NDArray[np.int64], rate: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Packets per second by port and labels carried on arrival, and by labels at the end of their routes."""
    ports, counts = step.shape
    carried = np.zeros((ports, counts))
    packet = np.zeros((len(paths), counts))
    packet[:, 0] = rate
    for hop in range(paths.shape[1]):
        at = paths[:, hop]
        on = np.flatnonzero(at >= 0)
        np.add.at(carried, at[on], packet[on])
        moved = packet[on, :-1] * step[at[on], :-1]
        packet[on, :-1] -= moved
        packet[on, 1:] += moved
    return carried, packet.sum(axis=0)
