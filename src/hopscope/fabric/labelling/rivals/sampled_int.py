"""Ingress-sampled INT: the first switch samples packets, and every switch on the path writes into them.

Sel-INT (Tang et al., TNSM 2019) samples at the ingress. Headers of INT-MD 2.1 over TCP or UDP: shim 4 and
header 12 bytes; the item is INT-label's, so that only the scheme differs. A round covers a port if one of
its sampled packets passes it. Samples hit ports at random, some often and some never, so coverage is 1 -
exp(-m) for a mean of m samples per port.
"""

from __future__ import annotations

import numpy as np

from ...ports import FabricError, Topology
from .rival import ITEM, Rival, Round, Stages, no_generators, stages

HEADERS = 16
"""Shim and INT-MD header, bytes."""
COVERAGE = 0.99
"""Mean coverage of a round."""


def _coverage(traffic: Stages, samples: float) -> float:
    passing = samples * traffic.share / np.maximum(traffic.ports, 1)
    weights = np.where(traffic.inner, traffic.ports, 0)
    return float(weights @ (1 - np.exp(-passing)) / weights.sum())


def samples_for(topology: Topology, coverage: float) -> float:
    """Number of packets to sample per round in the whole network for this mean coverage."""
    if not 0 < coverage < 1:
        raise FabricError(f"sampling needs a coverage between 0 and 1, not {coverage:g}")
    traffic = stages(topology)
    low, high = 0.0, 1.0
    while _coverage(traffic, high) < coverage:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _coverage(traffic, middle) < coverage else (low, middle)
    return high


def cost(topology: Topology, *, samples: float | None = None) -> Round:
    """A round with `samples` packets, or as many as COVERAGE needs."""
    if samples is None:
        samples = samples_for(topology, COVERAGE)
    traffic = stages(topology)
    links = ((traffic.paths >= 0).sum(axis=1) - 1).astype(np.float64)  # between switches; the last hop strips
    bits = 8 * samples * float((HEADERS * links + ITEM * links * (links + 1) / 2).mean())
    return Round(
        0, 0.0, samples, bits, _coverage(traffic, samples),
        note=f"{samples:,.0f} packets sampled per round, {HEADERS} B and {ITEM} B per hop",
    )  # fmt: skip


RIVAL = Rival("sampled-int", "ingress-sampled INT", "Sel-INT; headers of INT-MD 2.1", cost, no_generators)
