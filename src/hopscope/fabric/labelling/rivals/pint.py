"""PINT: a digest of few bits, from which a flow's path is put together (Ben Basat et al., SIGCOMM 2020).

Path tracing (§4.2): global hashes of the packet's number decide, the same at switches and at the
receiver.  A packet is of the baseline with chance τ: switch i overwrites the digest with chance 1/i
(reservoir sampling), so that it holds h(id, packet) of one switch of the way at random.  Else it is of the
XOR layer: each switch XORs its h(id, packet) onto the digest with chance p.  The receiver knows who acted,
and all ids: a baseline digest leaves the ids whose hash it is; an XOR digest becomes one as soon as all
but one of those who acted are known.  Several digests in one packet decide independently (PINT's `2 x (b =
8)`).  τ = 1/2 and p = 1/10 are those of the published code (ProbabilisticINT/Mininet-PINT:
`decider_hash_pint`, `xor_hash`); PINT's text has p = 1/d for a typical path of d = 10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...ports import FabricError, Ints

BASELINE = 0.5
XOR = 0.1


@dataclass(frozen=True, slots=True)
class Tracing:
    """Packets until the receiver knows every switch of a way."""

    packets: npt.NDArray[np.int64]
    """By trial; `limit` + 1 where that was not enough."""
    bits: int
    """That each packet carries."""

    @property
    def mean(self) -> float:
        """Packets in the mean."""
        return float(self.packets.mean())

    @property
    def extra_bits(self) -> float:
        """Bits that a flow's packets carry until its way is known, in the mean."""
        return self.bits * self.mean


def trace(
    hops: int,
    *,
    bits: int = 16,
    digests: int = 2,
    universe: int | None = None,
    trials: int = 100,
    limit: int = 20_000,
    baseline: float = BASELINE,
    xor: float = XOR,
    seed: int = 1,
) -> Tracing:
    """Packets that a way over `hops` switches takes, by simulation.

    `bits`: of a packet, for `digests` digests of as many bits each; `universe`: switches that it may lead
    over, None: the ways' own, as in the published code.  FabricError says what is wrong.
    """
    known = hops if universe is None else universe
    each = bits // max(digests, 1)
    if hops < 1 or known < hops or digests < 1 or not 1 <= each <= 32 or trials < 1 or limit < 1:
        raise FabricError(
            f"digests have 1 to 32 bits and ways 1 switch to all {known}, not {each} bits and {hops} switches"
        )
    if not (0 < baseline <= 1 and 0 <= xor <= 1):
        raise FabricError(f"chances are 0 to 1, that of the baseline above 0, not {baseline:g} and {xor:g}")
    rng = np.random.default_rng(seed)
    found = [
        _one(rng, hops, known, 1 << each, digests, limit, baseline, xor) for _ in range(trials)
    ]  # fmt: skip
    return Tracing(np.array(found, np.int64), each * digests)


def _one(
    rng: np.random.Generator,
    hops: int,
    universe: int,
    values: int,
    digests: int,
    limit: int,
    baseline: float,
    xor: float,
) -> int:
    """Packets of one trial; ids of the way are 0 to hops - 1 of the universe, without loss of generality."""
    possible = np.ones((hops, universe), bool)
    decoded = possible.sum(axis=1) == 1
    waiting: list[tuple[set[int], Ints]] = []

    def learn(hop: int, agrees: npt.NDArray[np.bool_]) -> None:
        possible[hop] &= agrees
        decoded[hop] = possible[hop].sum() == 1

    for packet in range(1, limit + 1):
        for _ in range(digests):
            hashes = rng.integers(values, size=universe)
            if rng.random() < baseline:
                hop = int(rng.integers(hops))
                learn(hop, hashes == hashes[hop])
                continue
            acted = set(np.flatnonzero(rng.random(hops) < xor).tolist())
            if acted:
                # (once the others are known, what is left of the digest is this hop's hash: agreeing ids
                # are those of equal hash, whoever is left)
                waiting.append((acted, hashes))
        again = True
        while again:
            again, still = False, []
            for acted, hashes in waiting:
                acted = {hop for hop in acted if not decoded[hop]}
                if len(acted) == 1:
                    (hop,) = acted
                    learn(hop, hashes == hashes[hop])
                    again = again or bool(decoded[hop])
                elif acted:
                    still.append((acted, hashes))
            waiting = still
        if decoded.all():
            return packet
    return limit + 1


def packets_of_baseline(hops: int) -> float:
    """Packets in the mean where a digest names its switch and only the baseline is used: coupons, n H_n."""
    if hops < 1:
        raise FabricError(f"a way has 1 switch or more, not {hops}")
    return hops * float((1 / np.arange(1, hops + 1)).sum())
