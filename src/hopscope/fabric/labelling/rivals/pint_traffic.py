"""PINT on packets that a network delivers: digests by the switches that each really passed, loss included.

Switches and receiver share hashes of the packet's number (`pint`); the receiver sees digests and how many
switches there were (by TTL), and knows which switches the network has.  Packets that are lost bring nothing;
where a way changes, what was learnt contradicts what comes, and the receiver begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....wire.records import Records
from ...ports import FabricError, Ints, mix64, seed_bits
from ..simulation.network import NetworkModel
from ..simulation.records import SourceFlag
from ..simulation.sources import Sources
from .pint import BASELINE, XOR

Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


def with_digests(sources: Sources) -> Sources:
    """The same sources, of all whose packets the simulation tells which ports they passed."""
    records = sources.records.copy()
    records["flags"] |= int(SourceFlag.ALWAYS)
    return replace(sources, records=records)


def digest_network(network: NetworkModel, bits: int = 16) -> NetworkModel:
    """The same network, where packets carry `bits` from their first switch on and labels have no length."""
    return replace(network, item_bytes=0, option_bytes=-(-bits // 8))


@dataclass(frozen=True, slots=True)
class Delivered:
    """What arrived of one flow, in order."""

    source: int
    numbers: Words
    """Of its packets."""
    ports: Ints
    """Rows of the switch ports that they passed, in order."""


def delivered(labels: Records) -> Iterator[Delivered]:
    """Flows in LABELLED of packets that all switches labelled; a source's flows of one way count as one."""
    ends = np.flatnonzero(labels["position"] + 1 == labels["count"])
    if len(ends) and (ends < labels["count"][ends] - 1).any():
        raise FabricError("labels of a packet stand together, from the first to the last")
    for switches in np.unique(labels["count"][ends]).tolist():
        of = ends[labels["count"][ends] == switches]
        ports = labels["port"][of[:, None] - np.arange(switches - 1, -1, -1)].astype(np.int64)
        keys = np.concatenate([labels["source"][of].astype(np.int64)[:, None], ports], axis=1)
        which = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(which, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
            yield Delivered(int(keys[part[0], 0]), labels["packet"][of[part]], ports[part[0]])


@dataclass(frozen=True, slots=True)
class Digests:
    """Hashes that switches and receivers share."""

    count: int = 2
    """Digests in a packet."""
    bits: int = 16
    """Of all of them."""
    baseline: float = BASELINE
    xor: float = XOR
    seed: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 1 <= self.bits // max(self.count, 1) <= 32:
            raise FabricError(f"digests have 1 to 32 bits each: found {self.bits} bits for {self.count}")
        if not (0 < self.baseline <= 1 and 0 <= self.xor <= 1):
            raise FabricError(f"chances are 0 to 1, the baseline's above 0: {self.baseline:g}, {self.xor:g}")

    def _words(self, numbers: Words, purpose: int) -> Words:
        """By packet and digest, [packets, count]."""
        places: Words = np.arange(self.count, dtype=np.uint64) * np.uint64(8) + np.uint64(purpose)
        salts = mix64(places ^ seed_bits(self.seed))
        return mix64(mix64(numbers)[:, None] ^ salts)

    def _chances(self, numbers: Words, purpose: int, hops: int) -> npt.NDArray[np.float64]:
        """Uniform from 0 to 1, by packet, digest and place on the way, [packets, count, hops]."""
        places: Words = np.arange(1, hops + 1, dtype=np.uint64)
        words = mix64(self._words(numbers, purpose)[:, :, None] ^ places)
        return (words >> np.uint64(11)).astype(np.float64) / 2.0**53

    def acting(self, numbers: Words, hops: int) -> tuple[Bools, Bools]:
        """Who writes: whether it is of the baseline [packets, count], and which switches [.., hops]."""
        base = self._chances(numbers, 0, 1)[:, :, 0] < self.baseline
        wins = self._chances(numbers, 1, hops) < 1 / np.arange(1, hops + 1)
        last = hops - 1 - wins[:, :, ::-1].argmax(axis=2)  # (the first switch always writes)
        kept = last[:, :, None] == np.arange(hops)
        return base, np.where(base[:, :, None], kept, self._chances(numbers, 2, hops) < self.xor)

    def hashes(self, numbers: Words, switches: npt.ArrayLike) -> Words:
        """h(switch, packet) [packets, count, switches]; `switches` is [switches] or [packets, switches]."""
        ids = np.asarray(switches, np.uint64)
        each = self.bits // self.count
        ids = np.broadcast_to(ids, (len(numbers), ids.shape[-1]))[:, None, :]
        return mix64(self._words(numbers, 3)[:, :, None] + ids) & np.uint64((1 << each) - 1)

    def written(self, numbers: Words, switches: npt.ArrayLike) -> Words:
        """Digests that packets arrive with [packets, count], by the switches that each passed, in order."""
        ids = np.asarray(switches, np.uint64)
        _, acted = self.acting(numbers, ids.shape[-1])
        own = np.where(acted, self.hashes(numbers, ids), np.uint64(0))
        return np.asarray(np.bitwise_xor.reduce(own, axis=2))


@dataclass(frozen=True, slots=True)
class Known:
    """What a receiver has put together of one way."""

    packets: int
    """That it took; 0: those that arrived were too few."""
    switches: tuple[int, ...]
    """In order; empty where they were too few."""
    restarts: int
    """Times that packets contradicted each other."""


def reconstruct(numbers: Words, digests: Words, hops: int, switches: npt.ArrayLike, how: Digests) -> Known:
    """A way of `hops` switches out of [packets, count] digests, in order; `switches`: all that there are."""
    ids = np.asarray(switches, np.int64)
    if hops < 1 or not len(ids) or digests.shape != (len(numbers), how.count):
        raise FabricError(f"a way has 1 switch or more of those known, not {hops} of {len(ids)}")
    if how.count * len(numbers) < hops and len(ids) > 1:
        return Known(0, (), 0)  # a digest tells of one switch at most
    _, acting = how.acting(numbers, hops)
    of_all = how.hashes(numbers, ids)
    possible, waiting = np.ones((hops, len(ids)), bool), list[tuple[int, int]]()
    restarts = 0
    for packet in range(len(numbers)):
        waiting += [(packet, digest) for digest in range(how.count)]
        waiting = _learn(possible, waiting, acting, digests, of_all)
        if not possible.any(axis=1).all():
            restarts += 1
            possible[:] = True
            waiting = _learn(possible, [(packet, d) for d in range(how.count)], acting, digests, of_all)
        if (possible.sum(axis=1) == 1).all():
            return Known(packet + 1, tuple(ids[possible.argmax(axis=1)].tolist()), restarts)
    return Known(0, (), restarts)


def _learn(
    possible: Bools, waiting: list[tuple[int, int]], acting: Bools, digests: Words, of_all: Words
) -> list[tuple[int, int]]:
    """Rule out what digests (packet, digest) rule out; those that still wait for others to be known."""
    again = True
    while again:
        again, still = False, []
        for packet, digest in waiting:
            acted = np.flatnonzero(acting[packet, digest])
            open_ = acted[possible[acted].sum(axis=1) != 1]
            if len(open_) > 1:
                still.append((packet, digest))
                continue
            left, hashes = digests[packet, digest], of_all[packet, digest]
            if not len(open_) and len(acted):  # all are known: what is left over must be the last one's
                open_ = acted[-1:]
            for hop in acted[~np.isin(acted, open_)]:
                left = left ^ hashes[possible[hop].argmax()]
            for hop in open_:
                known = possible[hop].sum() == 1
                possible[hop] &= hashes == left
                again = again or (not known and bool(possible[hop].sum() == 1))
        waiting = still
    return waiting
