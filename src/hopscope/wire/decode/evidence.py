"""Finds the dialect of the first reports: they are read with all possible dialects, and the results are
compared.

The criteria are how many reports are rejected, how many hops are found, whether the values of hops agree with
each other, and whether timestamps advance as fast as the capture's clock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from .. import layout
from ..address import address
from ..dialect import DEFAULT, Dialect, layouts
from ..reasons import Reason
from ..records import FRAME, Carried, FrameBatch, Have, Link
from .plain import DecodedReport, hop_values, read_plain

REPORTS = 64
"""Number of frames with reports that are examined."""
FRAMES = 256
"""Number of other frames that are kept in case there are no reports."""
MAX_FRAMES = 20_000
"""Number of frames among which reports are searched."""
MAX_PACKETS = 2_000
"""The same if packets are searched for INT, which is done with every candidate."""
_CLEAR = 0.5
"""A source has another dialect if that dialect is better by this worth per frame."""
_REJECTED, _EMPTY, _FLOW, _INT = -2.0, 0.0, 0.5, 2.0
"""Worth of a report that is rejected, contains nothing, contains a flow, contains hops."""
_NEAR = 0.05
"""Difference of worth per frame below which two dialects read a source equally well."""
_LEFT_OUT = 0.25
"""Worth that a report loses if some of its bits are left out."""
_UNLIKE = 0.1
"""… if the characteristic of the dialect does not occur: its marker, or latencies that are not filled in."""
_RESERVED = "instruction bits that are reserved"
_LIKE_INT = {Reason.UNKNOWN_INSTRUCTIONS.label, Reason.BAD_HOP_SIZE.label}
"""Reasons for rejecting packets whose lengths agree with INT's, so that they are not ordinary traffic."""
_LONGEST = 16
"""Hops of a plausible path."""


@dataclass(slots=True)
class Reading:
    """The result of reading the frames with one dialect."""

    dialect: Dialect
    differences: int
    """Number of fields in which the dialect differs from the specifications."""
    worth: list[float] = field(default_factory=list)
    """Worth of each frame."""
    reports: int = 0
    packets: int = 0
    """Packets with INT outside of reports."""
    hops: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    """Values that contradict each other, in words."""
    good: Counter[str] = field(default_factory=Counter)
    """Values that confirm each other, in words."""
    clock: float = 0.0
    values: int = 0
    """Hash of the values, which differs if another dialect reads other values."""

    @property
    def score(self) -> float:
        """Worth of all frames, plus that of the clock."""
        return round(sum(self.worth) + self.clock * len(self.worth), 3)

    def mean(self, frames: Sequence[int]) -> float:
        """Mean worth of these frames, plus that of the clock."""
        return sum(self.worth[at] for at in frames) / len(frames) + self.clock

    def facts(self) -> list[str]:
        """Description of what was read, the most important facts first."""
        facts = []
        if self.reports:
            facts.append(f"reads {_many(self.reports, 'report')} with {_many(self.hops, 'hop')}")
        if self.packets:
            facts.append(f"finds {_many(self.packets, 'packet')} with INT, {_many(self.hops, 'hop')}")
        if self.rejected:
            most = ", ".join(f"{count} {reason}" for reason, count in self.rejected.most_common(2))
            facts.append(f"rejects {self.rejected.total()} ({most})")
        facts += [f"{what} ({count} times)" for what, count in self.odd.most_common(1)]
        facts += [what for what, _ in self.good.most_common(2)]
        return facts or ["reads nothing"]


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


@dataclass(slots=True)
class Proposal:
    """The dialect that the evidence supports."""

    dialect: Dialect
    fits: bool
    """Whether it reads most of the reports; otherwise `dialect` is that of the specifications."""
    lines: list[str]
    """Explanation for the user."""
    found: bool = True
    """Whether there was any report, or packet with INT."""
    hops: int = 0
    """Number of hops that it read."""


class Evidence:
    """The first frames, kept until there are enough of them to `propose` a dialect."""

    def __init__(self, candidates: Sequence[Dialect]) -> None:
        self.candidates = tuple(candidates)
        packets = all(one.packets for one in candidates)
        ports = {port for one in candidates for port in one.ports}
        self._any = replace(DEFAULT, name="any", ports=tuple(sorted(ports)), first_bytes=_EVERY_FIRST_BYTE)
        self._packets = packets
        self._kept: list[tuple[bytes, np.void, bool]] = []
        self._found = self._seen = 0

    def add(self, batch: FrameBatch) -> None:
        """Keep copies of frames that may be reports, or packets with INT."""
        for frame in batch.frames:
            if self.enough:
                return
            self._seen += 1
            start = int(frame["offset"])
            raw = batch.arena[start : start + int(frame["length"])].tobytes()
            found = int(frame["link"]) == Link.UDP_PAYLOAD or _finds(self._any, raw, frame)
            if not found and self._packets:
                found = any(_finds(one, raw, frame) for one in self.candidates)
            if found or len(self._kept) < FRAMES:
                self._kept.append((raw, frame.copy(), found))
                self._found += found

    @property
    def enough(self) -> bool:
        """Whether further frames would not be examined."""
        return self._found >= REPORTS or self._seen >= (MAX_PACKETS if self._packets else MAX_FRAMES)

    def propose(self) -> Proposal:
        """The dialect that reads these frames best; among equals, the one that differs least from the
        specifications.
        """
        kept = [(raw, frame) for raw, frame, found in self._kept if found]
        candidates = self.candidates
        if not kept:
            kept = [(raw, frame) for raw, frame, _ in self._kept]
            candidates = tuple(replace(one, packets=True) for one in candidates)
        sources: list[str] = [""] * len(kept)
        ranked = _ranked([_read(one, kept, sources) for one in candidates], sources)
        proposal = _proposal(ranked, sources, self._seen)
        doubtful = not ranked[0].hops or _RESERVED in ranked[0].odd
        if doubtful and any(one.rejected for one in ranked):
            unlike = _ranked(ranked + [_read(one, kept, sources) for one in _layouts(ranked)], sources)
            other = _proposal(unlike, sources, self._seen)
            proposal = other if other.fits else proposal
        if not proposal.fits:
            proposal.dialect = next(one for one in self.candidates if one.name == proposal.dialect.name)
        return proposal


def _ranked(readings: list[Reading], sources: list[str]) -> list[Reading]:
    """Readings, best first; among equals, the one that differs least from the specifications."""
    best = _best_read(readings, sources)
    order = sorted(
        range(len(readings)),
        key=lambda i: (*(-number for number in best[i]), readings[i].differences, -readings[i].score, i),
    )
    return [readings[i] for i in order]


def _layouts(ranked: list[Reading]) -> Iterator[Dialect]:
    """Variants in layouts that no dialect has, of the specifications and of the closest dialect."""
    spec = next((one.dialect for one in ranked if one.dialect.name == DEFAULT.name), ranked[0].dialect)
    yield from layouts(spec)
    if ranked[0].dialect is not spec:
        yield from layouts(ranked[0].dialect)


def _batch(kept: Sequence[tuple[bytes, np.void]]) -> FrameBatch:
    """Kept frames as one batch."""
    frames = np.array([frame for _, frame in kept], FRAME)
    sizes = [len(raw) for raw, _ in kept]
    frames["offset"] = np.cumsum(sizes, dtype=np.uint64) - np.array(sizes, np.uint64)
    return FrameBatch(np.frombuffer(b"".join(raw for raw, _ in kept), np.uint8), frames)


def _finds(dialect: Dialect, raw: bytes, frame: np.void) -> bool:
    """Whether the dialect finds a report or INT in a frame, even if it rejects it."""
    return next(read_plain(_batch([(raw, frame)]), dialect), None) is not None


def decide(
    batches: Iterator[FrameBatch], possible: Sequence[Dialect]
) -> tuple[Proposal, Iterator[FrameBatch]]:
    """The proposal from the first batches, and all batches, including these; batches must stay valid."""
    evidence = Evidence(possible)
    held = []
    for frames in batches:
        held.append(frames)
        evidence.add(frames)
        if evidence.enough:
            break
    return evidence.propose(), chain(held, batches)


def _proposal(ranked: list[Reading], sources: list[str], seen: int) -> Proposal:
    best = ranked[0]
    if not best.reports + best.packets + best.rejected.total():  # but they may be INT to another
        best = next((one for one in ranked if one.rejected.keys() & _LIKE_INT), best)
    accepted = best.reports + best.packets
    rejected = best.rejected.total()
    spec = next((one for one in ranked if one.dialect.name == DEFAULT.name), best)
    if not accepted and not rejected:
        lines = [f"dialect auto: {spec.dialect.name}: no report and no INT in the first {seen:,} packets"]
        return Proposal(spec.dialect, False, lines, False)
    if best.score <= 0 or accepted <= rejected:
        facts = "; ".join(best.facts()[:2])
        lines = [
            f"dialect auto: nothing fits; best was {best.dialect.name}, which {facts}",
            f"dialect auto: reading with {spec.dialect.name}",
        ]
        return Proposal(spec.dialect, False, lines)
    lines = [f"dialect auto: {best.dialect.name}, which {'; '.join(best.facts()[:3])}"]
    other = next((one for one in ranked if one.values != best.values), None)
    if other is not None:
        lines.append(_runner_up(best, other))
    lines.extend(_other_sources(best, ranked, sources))
    return Proposal(best.dialect, True, lines, hops=best.hops)


def _runner_up(best: Reading, other: Reading) -> str:
    """A line about the best dialect that reads other values; those that read the same are as good."""
    if other.score == best.score:
        return (
            f"dialect auto: {other.dialect.name} fits as well, with other values or another unit of time: "
            "name the dialect if you know it"
        )
    return f"dialect auto: next best {other.dialect.name}, which {'; '.join(other.facts()[:2])}"


def _by_source(sources: list[str]) -> dict[str, list[int]]:
    """Frames of each source; frames without a source form one group."""
    frames: dict[str, list[int]] = defaultdict(list)
    for at, source in enumerate(sources):
        frames[source].append(at)
    return frames


def _best_read(readings: list[Reading], sources: list[str]) -> list[tuple[int, float]]:
    """For each dialect, the number of frames of the sources that no other dialect reads better, and their
    worth.

    The larger number decides: a dialect that ignores what it cannot read must not win over one that reads
    most frames and rejects the rest.
    """
    frames = [0] * len(readings)
    value = [0.0] * len(readings)
    for mine in _by_source(sources).values():
        worth = [one.mean(mine) for one in readings]
        for at, each in enumerate(worth):
            if each >= max(worth) - _NEAR:
                frames[at] += len(mine)
                value[at] += each * len(mine)
    return [(count, round(each, 3)) for count, each in zip(frames, value, strict=True)]


def _other_sources(best: Reading, ranked: list[Reading], sources: list[str]) -> Iterable[str]:
    """Sources whose frames another dialect clearly reads better."""
    for source, mine in _by_source(sources).items():
        better = max(ranked, key=lambda one: (one.mean(mine), -one.differences))
        if source and better.mean(mine) - best.mean(mine) >= _CLEAR:
            yield (
                f"dialect auto: {source} speaks {better.dialect.name}, and is read with {best.dialect.name} "
                "all the same: read its packets apart, or give it a listener of its own"
            )


def _read(dialect: Dialect, kept: list[tuple[bytes, np.void]], sources: list[str]) -> Reading:
    reading = Reading(dialect, _differences(dialect))
    times: dict[int, list[tuple[int, int]]] = defaultdict(list)
    values = 0
    of_frame: dict[int, list[DecodedReport]] = defaultdict(list)
    for found in read_plain(_batch(kept), dialect):
        of_frame[found.row.packet].append(found)
    for at, (raw, frame) in enumerate(kept):
        worth: list[float] = []
        for found in of_frame[at]:
            row = found.row
            if row.source_lo or row.source_hi:
                sources[at] = address(row.source_hi, row.source_lo)
            worth.append(_report(found, frame, reading, times))
            if _leaves_out(raw, found, dialect):
                reading.odd["leaves out bits that are not 0"] += 1
                worth[-1] -= _LEFT_OUT
            values = hash((values, _COMPARED(row), *map(hop_values, found.hops)))
        reading.worth.append(sum(worth) / len(worth) if worth else 0.0)
    reading.values = hash((values, dialect.clock.unit_ns, dialect.clock.latency))
    reading.clock = _clock(reading, times)
    return reading


def _report(
    found: DecodedReport, frame: np.void, reading: Reading, times: dict[int, list[tuple[int, int]]]
) -> float:
    """Worth of one report, or of one packet with INT."""
    row = found.row
    if row.reason:
        if row.reason == Reason.TRUNCATED and frame["wire_length"] > frame["length"]:
            return _EMPTY  # cut by the capture, so no dialect can read it
        reading.rejected[Reason(row.reason).label] += 1
        return _REJECTED
    if not row.int_version:
        if not row.version:
            return _EMPTY
        reading.reports += 1
        flow = row.carried & Carried.FLOW
        unseen = _UNLIKE if reading.dialect.marker else 0.0
        return (_FLOW if flow else _EMPTY) + (0.25 if found.metadata else 0.0) - unseen
    if row.version:
        reading.reports += 1
    else:
        reading.packets += 1
    reading.hops += len(found.hops)
    if not found.hops and found.metadata is None:
        return _FLOW + 0.25
    hops = [*found.hops, found.metadata] if found.metadata is not None else found.hops
    seen = Counter[str]()
    for hop in hops:
        _hop(hop, reading, seen)
        if hop.present & Have.INGRESS_TIME & ~hop.null and hop.node_id:
            times[hop.node_id].append((int(frame["time_ns"]), hop.ingress_time))
    nodes = [hop.node_id for hop in found.hops]
    if len(set(nodes)) < len(nodes):
        seen["a node twice in one path"] += 1
    if len(nodes) > _LONGEST:
        seen[f"a path of more than {_LONGEST} hops"] += 1
    if row.ttl + len(nodes) > 256:
        seen["more hops than the TTL has left"] += 1
    one_bit_each = row.int_version in _KINDS
    if one_bit_each and any(hop.present.bit_count() < row.instructions.bit_count() for hop in found.hops):
        seen[_RESERVED] += 1
    reading.odd.update(seen)
    usual = reading.dialect.clock.latency == "reported"
    unlike = any(hop.present & ~hop.null & Have.HOP_LATENCY for hop in hops) and not usual
    return _INT - min(1.5, sum(seen.values()) / len(hops)) - _UNLIKE * unlike


def _hop(hop: Any, reading: Reading, seen: Counter[str]) -> None:
    """Check whether the values of one hop agree with each other."""
    have = hop.present & ~hop.null
    if have & Have.NODE_ID and not hop.node_id:
        seen["node 0"] += 1
    if have & Have.QUEUE_OCCUPANCY:
        if hop.queue_id == 0xFF:
            seen["queue ids of 255 or more"] += 1
        if hop.queue_occupancy >= 1 << 16 and not hop.queue_id:
            seen["queue 0 with an occupancy above 65,535"] += 1
        if have & Have.QUEUE_CONGESTION:
            if hop.queue_id == hop.congestion_queue_id:
                reading.good["queue ids of both fields agree"] += 1
            else:
                seen["two queue ids in one hop"] += 1
    if have & Have.INGRESS_TIME and have & Have.EGRESS_TIME:
        spent = hop.egress_time - hop.ingress_time
        if not spent & 0xFFFFFFFF or -(1 << 32) < spent < -(1 << 31):
            pass  # unknown, or the clock's 32 bits wrapped
        elif spent < 0 or spent >= 1 << 40:
            seen["egress before ingress"] += 1
        if have & Have.HOP_LATENCY and hop.hop_latency and hop.hop_latency == spent & 0xFFFFFFFF:
            reading.good["hop latency is egress minus ingress time"] += 1
        if hop.present & Have.HOP_LATENCY and hop.null & Have.HOP_LATENCY:
            if reading.dialect.clock.latency == "timestamps":
                reading.good["hop latency is never filled in"] += 1
            else:
                seen["no hop latency, though there are timestamps"] += 1


def _leaves_out(raw: bytes, found: DecodedReport, dialect: Dialect) -> bool:
    """Whether items of the first hop on the wire have nonzero bits that only this dialect leaves out."""
    row = found.row
    kind = _KINDS.get(row.int_version)
    if kind is None or not found.hops:
        return False
    bitmap, at = row.instructions, row.int_at + (12 if kind == layout.INT_2_0 else 8)
    for items in dialect.alternatives(kind):
        if layout.metadata_size(items, bitmap) != 4 * row.hop_words:
            continue
        for bit, item in enumerate(items):
            if not bitmap >> (15 - bit) & 1:
                continue
            number = int.from_bytes(raw[at : at + item.size], "big")
            at += item.size
            read = sum(mask << shift for _, shift, mask in item.fields.shifts)
            if item is not layout.KIND_ITEMS[kind][bit] and number & ~read:
                return True
        break
    return False


def _clock(reading: Reading, times: dict[int, list[tuple[int, int]]]) -> float:
    """Whether timestamps of a node advance as fast as the capture's clock: 0.25 if so, -0.25 if not, 0:
    unknown.
    """
    units = []
    for pairs in times.values():
        for (before, first), (after, second) in pairwise(pairs):
            captured, passed = after - before, second - first
            if 1_000_000 <= captured < 2_000_000_000 and passed > 0:
                units.append(captured / passed)
    if len(units) < 3:
        return 0.0
    unit = float(np.median(units))
    ratio = unit / reading.dialect.clock.unit_ns
    if 0.8 < ratio < 1.25:
        reading.good[f"timestamps pass in units of {reading.dialect.clock.unit_ns:,} ns"] += len(units)
        return 0.25
    if 0.25 < ratio < 4:
        return 0.0
    reading.odd[f"timestamps do not pass in units of {reading.dialect.clock.unit_ns:,} ns"] += len(units)
    return -0.25


def _differences(dialect: Dialect) -> int:
    left_out = {"name", "about", "ports", "sflow_ports", "ipfix_ports", "packets"}
    return sum(
        getattr(dialect, one.name) != getattr(DEFAULT, one.name)
        for one in fields(dialect)
        if one.name not in left_out
    )


_KINDS = {4: layout.INT_0_4, 5: layout.INT_0_5, 10: layout.INT_1_0, 20: layout.INT_2_0}
_COMPARED = attrgetter(
    "reason", "version", "int_mode", "instructions", "sequence", "node_id", "src_lo", "proto"
)
"""Fields by which the results of two dialects are compared, in addition to all hops."""
_EVERY_FIRST_BYTE = tuple((byte, 5) for byte in range(256))
