"""PINT: a flow's path is decoded from digests of a few bits (Ben Basat et al., SIGCOMM 2020).

Path tracing (§4.2): decisions are global hashes of the packet's number, known to switches and receiver. A
packet belongs to the baseline with probability τ: switch i overwrites the digest with probability 1/i
(reservoir sampling), so it holds h(id, packet) of one random switch of the path. Else it belongs to the XOR
layer: each switch XORs its h(id, packet) into the digest with probability p. The receiver knows which
switches acted, and all ids: a baseline digest leaves the ids with this hash; an XOR digest becomes like one
when all but one of the acting switches are known. Several digests in a packet are independent (PINT's `2 x (b
= 8)`).  τ = 1/2 and p = 1/10 are those of the published code (ProbabilisticINT/Mininet-PINT:
`decider_hash_pint`, `xor_hash`); PINT's text has p = 1/d for a typical path of d = 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ports import FabricError, Ints

BASELINE = 0.5
XOR = 0.1
LIMIT = 20_000
"""Packets after which a path counts as not decoded."""


@dataclass(frozen=True, slots=True)
class TraceResult:
    """How many packets the receiver needs to know every switch of a path."""

    packets: npt.NDArray[np.int64]
    """By trial; `limit` + 1 if `limit` was not enough."""
    bits: int
    """Bits carried by each packet."""

    @property
    def mean(self) -> float:
        """Mean number of packets."""
        return float(self.packets.mean())

    @property
    def extra_bits(self) -> float:
        """Mean number of bits that a flow's packets carry until its path is known."""
        return self.bits * self.mean


def trace(
    hops: int,
    *,
    bits: int = 16,
    digests: int = 2,
    universe: int | None = None,
    trials: int = 100,
    baseline: float = BASELINE,
    seed: int = 1,
) -> TraceResult:
    """Packets needed to decode a path of `hops` switches, by simulation.

    `bits` of a packet are shared equally by `digests`; `universe`: number of candidate switches, None: only
    those of the path, as in the published code. Raises FabricError for impossible parameters.
    """
    switches = hops if universe is None else universe
    width = bits // max(digests, 1)
    if hops < 1 or switches < hops or digests < 1 or not 1 <= width <= 32 or trials < 1:
        raise FabricError(
            f"found {width} bits and {hops} switches, expected digests of 1 to 32 bits and 1 to {switches} "
            "switches"
        )
    if not 0 < baseline <= 1:
        raise FabricError(f"the probability of the baseline is above 0 and at most 1, not {baseline:g}")
    rng = np.random.default_rng(seed)
    found = [
        _trial(rng, hops, switches, 1 << width, digests, baseline) for _ in range(trials)
    ]  # fmt: skip
    return TraceResult(np.array(found, np.int64), width * digests)


def _trial(
    rng: np.random.Generator,
    hops: int,
    universe: int,
    values: int,
    digests: int,
    baseline: float,
) -> int:
    """Packets of one trial; without loss of generality the path's ids are 0 to hops - 1."""
    possible = np.ones((hops, universe), bool)
    decoded = possible.sum(axis=1) == 1
    unresolved: list[tuple[set[int], Ints]] = []

    def learn(hop: int, agrees: npt.NDArray[np.bool_]) -> None:
        possible[hop] &= agrees
        decoded[hop] = possible[hop].sum() == 1

    for packet in range(1, LIMIT + 1):
        for _ in range(digests):
            hashes = rng.integers(values, size=universe)
            if rng.random() < baseline:
                hop = int(rng.integers(hops))
                learn(hop, hashes == hashes[hop])
                continue
            acted = set(np.flatnonzero(rng.random(hops) < XOR).tolist())
            if acted:
                # Once all other acting switches are known, the rest of the digest is the hash of this one
                unresolved.append((acted, hashes))
        progress = True
        while progress:
            progress, remaining = False, []
            for acted, hashes in unresolved:
                acted = {hop for hop in acted if not decoded[hop]}
                if len(acted) == 1:
                    (hop,) = acted
                    learn(hop, hashes == hashes[hop])
                    progress = progress or bool(decoded[hop])
                elif acted:
                    remaining.append((acted, hashes))
            unresolved = remaining
        if decoded.all():
            return packet
    return LIMIT + 1
