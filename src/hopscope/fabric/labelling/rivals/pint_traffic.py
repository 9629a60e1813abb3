"""PINT on the packets that a network delivers, with digests written by the switches that each packet passed.

Switches and receiver share hashes of the packet's number (see `pint`). The receiver sees the digests and the
number of switches (by TTL), and knows all switches of the network. Lost packets contribute nothing. If a path
changes, new digests contradict the decoded part, and the receiver restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....wire.records import Records
from ...ports import FabricError, Ints, seed_bits
from ..simulation.network import NetworkModel
from ..simulation.records import SourceFlag
from ..simulation.sources import Sources
from .pint import BASELINE, XOR

Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]


def with_digests(sources: Sources) -> Sources:
    """The same sources, marked so that every port on a packet's path is recorded."""
    records = sources.records.copy()
    records["flags"] |= int(SourceFlag.LABEL_ALWAYS)
    return replace(sources, records=records)


def digest_network(network: NetworkModel, bits: int = 16) -> NetworkModel:
    """The same network with `bits` in every packet from its first switch on, and labels of length 0."""
    return replace(network, item_bytes=0, option_bytes=-(-bits // 8))


@dataclass(frozen=True, slots=True)
class DeliveredFlow:
    """Delivered packets of one flow, in order."""

    source: int
    numbers: Words
    """Numbers of its packets."""
    ports: Ints
    """Rows of the switch ports on their path, in order."""


def delivered(labels: Records) -> Iterator[DeliveredFlow]:
    """The flows in RECEIVED_LABEL of packets that were labelled by all switches. The flows of a source on the
    same path count as one.
    """
    ends = np.flatnonzero(labels["position"] + 1 == labels["count"])
    if len(ends) and (ends < labels["count"][ends] - 1).any():
        raise FabricError("expected the labels of a packet together, first to last")
    for switches in np.unique(labels["count"][ends]).tolist():
        of = ends[labels["count"][ends] == switches]
        ports = labels["port"][of[:, None] - np.arange(switches - 1, -1, -1)].astype(np.int64)
        keys = np.concatenate([labels["source"][of].astype(np.int64)[:, None], ports], axis=1)
        which = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        order = np.argsort(which, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(which[order])) + 1):
            yield DeliveredFlow(int(keys[part[0], 0]), labels["packet"][of[part]], ports[part[0]])


@dataclass(frozen=True, slots=True)
class Digests:
    """Digest parameters and hashes shared by switches and receivers."""

    count: int = 2
    """Digests per packet."""
    bits: int = 16
    """Bits of all digests of a packet."""
    baseline: float = BASELINE
    xor: float = XOR
    seed: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or not 1 <= self.bits // max(self.count, 1) <= 32:
            raise FabricError(f"digests have 1 to 32 bits each: found {self.bits} bits for {self.count}")
        if not (0 < self.baseline <= 1 and 0 <= self.xor <= 1):
            raise FabricError(
                f"probabilities are 0 to 1, the baseline's above 0: {self.baseline:g}, {self.xor:g}"
            )

    def _words(self, numbers: Words, purpose: int) -> Words:
        """Hash words by packet and digest, [packets, count]."""
        places: Words = np.arange(self.count, dtype=np.uint64) * np.uint64(8) + np.uint64(purpose)
        salts = mix64(places ^ seed_bits(self.seed))
        return mix64(mix64(numbers)[:, None] ^ salts)

    def _chances(self, numbers: Words, purpose: int, hops: int) -> npt.NDArray[np.float64]:
        """Uniform numbers from 0 to 1 by packet, digest and hop, [packets, count, hops]."""
        places: Words = np.arange(1, hops + 1, dtype=np.uint64)
        words = mix64(self._words(numbers, purpose)[:, :, None] ^ places)
        return (words >> np.uint64(11)).astype(np.float64) / 2.0**53

    def acting(self, numbers: Words, hops: int) -> tuple[Bools, Bools]:
        """Whether each digest belongs to the baseline [packets, count], and which switches write it [..,
        hops].
        """
        base = self._chances(numbers, 0, 1)[:, :, 0] < self.baseline
        wins = self._chances(numbers, 1, hops) < 1 / np.arange(1, hops + 1)
        last = hops - 1 - wins[:, :, ::-1].argmax(axis=2)  # the first switch always writes
        kept = last[:, :, None] == np.arange(hops)
        return base, np.where(base[:, :, None], kept, self._chances(numbers, 2, hops) < self.xor)

    def hashes(self, numbers: Words, switches: npt.ArrayLike) -> Words:
        """h(switch, packet) [packets, count, switches]; `switches` is [switches] or [packets, switches]."""
        ids = np.asarray(switches, np.uint64)
        width = self.bits // self.count
        ids = np.broadcast_to(ids, (len(numbers), ids.shape[-1]))[:, None, :]
        return mix64(self._words(numbers, 3)[:, :, None] + ids) & np.uint64((1 << width) - 1)

    def written(self, numbers: Words, switches: npt.ArrayLike) -> Words:
        """Digests of delivered packets [packets, count], by the switches on each path, in order."""
        ids = np.asarray(switches, np.uint64)
        _, acted = self.acting(numbers, ids.shape[-1])
        written_by = np.where(acted, self.hashes(numbers, ids), np.uint64(0))
        return np.asarray(np.bitwise_xor.reduce(written_by, axis=2))


@dataclass(frozen=True, slots=True)
class DecodedPath:
    """A path as decoded by a receiver."""

    packets: int
    """Packets needed; 0: not decoded."""
    switches: tuple[int, ...]
    """Switches of the path, in order; empty if not decoded."""
    restarts: int
    """Restarts after contradicting packets."""


def reconstruct(
    numbers: Words, digests: Words, hops: int, switches: npt.ArrayLike, scheme: Digests
) -> DecodedPath:
    """Decode a path of `hops` switches from [packets, count] digests, in order; `switches`: all of the
    network.
    """
    ids = np.asarray(switches, np.int64)
    if hops < 1 or not len(ids) or digests.shape != (len(numbers), scheme.count):
        raise FabricError(f"a path has 1 or more of the known switches, not {hops} of {len(ids)}")
    if scheme.count * len(numbers) < hops and len(ids) > 1:
        return DecodedPath(0, (), 0)  # a digest identifies at most one switch
    _, acting = scheme.acting(numbers, hops)
    of_all = scheme.hashes(numbers, ids)
    possible, unresolved = np.ones((hops, len(ids)), bool), list[tuple[int, int]]()
    restarts = 0
    for packet in range(len(numbers)):
        unresolved += [(packet, digest) for digest in range(scheme.count)]
        unresolved = _eliminate(possible, unresolved, acting, digests, of_all)
        if not possible.any(axis=1).all():
            restarts += 1
            possible[:] = True
            unresolved = _eliminate(
                possible, [(packet, d) for d in range(scheme.count)], acting, digests, of_all
            )
        if (possible.sum(axis=1) == 1).all():
            return DecodedPath(packet + 1, tuple(ids[possible.argmax(axis=1)].tolist()), restarts)
    return DecodedPath(0, (), restarts)


def _eliminate(
    possible: Bools, unresolved: list[tuple[int, int]], acting: Bools, digests: Words, of_all: Words
) -> list[tuple[int, int]]:
    """Eliminate candidates by digests (packet, digest); returns those that are still unresolved."""
    progress = True
    while progress:
        progress, remaining = False, []
        for packet, digest in unresolved:
            acted = np.flatnonzero(acting[packet, digest])
            open_ = acted[possible[acted].sum(axis=1) != 1]
            if len(open_) > 1:
                remaining.append((packet, digest))
                continue
            left, hashes = digests[packet, digest], of_all[packet, digest]
            if not len(open_) and len(acted):  # all are known: the rest must be the last one's
                open_ = acted[-1:]
            for hop in acted[~np.isin(acted, open_)]:
                left = left ^ hashes[possible[hop].argmax()]
            for hop in open_:
                known = possible[hop].sum() == 1
                possible[hop] &= hashes == left
                progress = progress or (not known and bool(possible[hop].sum() == 1))
        unresolved = remaining
    return unresolved
