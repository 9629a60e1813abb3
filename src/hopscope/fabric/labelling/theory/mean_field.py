"""Labels by packet where ports remember: INT-label's section 4.3 for any routes, ports at different rates.

Each port is a renewal process of its own: packets come at random at its rate, and a label, by interval or by
chance, begins its interval anew.  What it sees are the packets of its routes with the labels that they have
by then.  That ports are independent of each other is the only assumption left; `bench/label_theory.py` says
where it breaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from .closed_forms import MAX_HOP, Chance, Floats, TheoryError, chance_of, hop_distribution

CELLS = 256
"""Parts of the time since a label, from 0 to T, in each of which a chance is constant (F3, rest vary)."""
_TIMES = (np.arange(CELLS) + 0.5) / CELLS


@dataclass(frozen=True, slots=True)
class MeanField:
    """What labelling does on a network: shares of packets, all between 0 and 1."""

    labels: Floats
    """P(Z = s) of delivered packets, [most switches on a route + 1]."""
    label_share: Floats
    """Share of a port's packets that it labels, [ports]; 0 where none pass."""
    by_interval: Floats
    """Share of a port's packets that find its interval run out, [ports]."""
    rate: Floats
    """Packets a second by port, [ports]."""

    @property
    def periods(self) -> Floats:
        """Mean time between the labels of a port, s [ports]; inf where none pass."""
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
    """Labels of packets that take `routes`, port numbers in their order (negative: none), at `rates` 1/s.

    `interval` is T in s; `chance` that of Base B by name or a function, None: Base A; `rest` T1 / T.
    TheoryError: a rate, or an interval, that is not positive and finite; a rest beyond 0 to 1; more than
    1,000 rounds, where routes feed back.
    """
    ways = _table(routes)
    rate = np.asarray(rates, np.float64)
    positive = rate.shape == ways.shape[:1] and bool(((rate > 0) & np.isfinite(rate)).all())
    if not (positive and interval > 0 and isfinite(interval)):
        raise TheoryError(f"{len(ways)} routes take as many positive rates, and a positive interval")
    if not 0 <= rest <= 1:
        raise TheoryError(f"rest is between 0 and 1, not {rest:g}")
    most, ports = ways.shape[1], int(ways.max()) + 1
    used = ways >= 0
    load = np.zeros(ports)
    np.add.at(load, ways[used], np.broadcast_to(rate[:, None], ways.shape)[used])
    table = _chances(chance, most, max_hop, rest)
    step = np.zeros((ports, most + 1))  # chance of a label, by port and labels carried
    out, busy = np.zeros(ports), load > 0
    for _ in range(1000):
        carried, labels = _walk(ways, rate, step)
        seen = carried[busy] / load[busy, None]  # (routes are counted by rate)
        packets = load[busy, None] * interval / CELLS  # of a cell
        hazard = seen @ table * packets  # labels by chance that a cell would have
        left = np.exp(-np.cumsum(hazard, axis=1))  # no label by chance until the cell's end
        within = np.divide(-np.expm1(-hazard), hazard, out=np.ones_like(hazard), where=hazard > 1e-12)
        met = np.exp(hazard - np.cumsum(hazard, axis=1)) * within * packets  # packets, by period
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
    raise TheoryError("labels on these routes feed back on each other without end")


def labels_on_fat_tree(
    k: int,
    ratio: float,
    chance: str | Chance | None = "f1",
    *,
    rest: float = 0.0,
    max_hop: int = MAX_HOP,
) -> MeanField:
    """Labels on a k-ary fat tree whose hosts all send to random others, T_s / T = `ratio` at ports to hosts.

    Ports of one stage are alike, and each stage has k³/4 of them: edge up, aggregation up, core down,
    aggregation down, edge to host.  Those towards the core see fewer packets, so theirs are further apart.
    """
    hops = hop_distribution(k)
    routes = {1: (4,), 3: (0, 3, 4), 5: (0, 1, 2, 3, 4)}
    some = [length for length in routes if hops[length] > 0]
    return labels_on_routes(
        [routes[length] for length in some], [hops[length] / ratio for length in some], 1.0,
        chance, rest=rest, max_hop=max_hop,
    )  # fmt: skip


def _table(routes: Sequence[Sequence[int]] | npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    if len(routes) == 0:
        raise TheoryError("there are no routes")
    most = max(len(route) for route in routes)
    ways = np.full((len(routes), most), -1, np.int64)
    for row, route in enumerate(routes):
        ways[row, : len(route)] = route
    if (ways < 0).all():
        raise TheoryError("no route has a port")
    return ways


def _chances(chance: str | Chance | None, most: int, max_hop: int, rest: float) -> Floats:
    """Chance by labels carried and time since the port's last label, [most + 1, CELLS]."""
    table = np.zeros((most + 1, CELLS))
    if chance is None:
        return table
    function = chance_of(chance)
    for count in range(most + 1):
        table[count] = [function(count, max_hop, float(x), 1.0) for x in _TIMES]
    if not (np.isfinite(table).all() and table.min() >= 0 and table.max() <= 1):
        raise TheoryError(f"a chance is between 0 and 1, not {table.min():g} to {table.max():g}")
    table[:, rest > _TIMES] = 0.0
    return table


def _walk(ways: npt.NDArray[np.int64], rate: Floats, step: Floats) -> tuple[Floats, Floats]:
    """Packets a second by port and labels carried on arrival, and by labels at the end of their routes."""
    ports, counts = step.shape
    carried = np.zeros((ports, counts))
    packet = np.zeros((len(ways), counts))
    packet[:, 0] = rate
    for hop in range(ways.shape[1]):
        at = ways[:, hop]
        on = np.flatnonzero(at >= 0)
        np.add.at(carried, at[on], packet[on])
        moved = packet[on, :-1] * step[at[on], :-1]
        packet[on, :-1] -= moved
        packet[on, 1:] += moved
    return carried, packet.sum(axis=0)
