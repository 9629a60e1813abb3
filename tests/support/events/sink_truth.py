"""What is true of the packets of `int_packets`, from their own columns: distributions, flows, events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hopscope.detect.records import NO_NODE, NO_PORT, PATH_PART
from hopscope.detect.sink.records import SINK_EVENT

from ..packets.int_packets import HIGHEST, MEASURES, IntPackets, Workload, keys, nodes

Numbers = npt.NDArray[np.int64]
NEVER = 1 << 62
PLACES = len(MEASURES) + 1
"""Measures of a hop, and the end-to-end latency."""


@dataclass(frozen=True)
class Limits:
    """Limits by measure, the last of the end-to-end latency; ns and the switches' units."""

    change: tuple[int, ...] = (NEVER,) * PLACES
    above: tuple[int, ...] = (NEVER,) * PLACES


class Histograms:
    """How often each value occurred."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        switches = workload.hops * workload.switches
        self.values = [np.zeros((switches, highest + 1), np.int64) for highest in HIGHEST]
        """By measure: int64 [switches, values]; row n - 1 is of node n."""
        self.sums = np.zeros(workload.hops * HIGHEST[0] + 1, np.int64)
        """Of end-to-end latencies."""

    def add(self, packets: IntPackets, count: int) -> None:
        """Count the first packets of a block."""
        values = packets.values[:count]
        switch = nodes(self.workload, packets.flow[:count]).astype(np.int64) - 1
        for measure, found in enumerate(self.values):
            at = (switch * found.shape[1] + values[:, :, measure]).reshape(-1)
            found += np.bincount(at, minlength=found.size).reshape(found.shape)
        self.sums += np.bincount(values[:, :, 0].sum(axis=1, dtype=np.int64), minlength=len(self.sums))

    def of(self, measure: int) -> Numbers:
        """Counts by value, int64 [switches, values]; of the end-to-end latency one row."""
        return self.values[measure] if measure < len(self.values) else self.sums[None]


def binned(counts: Numbers, edges: npt.NDArray[np.uint64]) -> Numbers:
    """Counts by bin, int64 [rows, bins], from counts by value; `edges`: the highest value of each bin."""
    bins = np.searchsorted(edges, np.arange(counts.shape[1], dtype=np.uint64))
    starts = np.searchsorted(bins, np.arange(len(edges) + 1))
    total = np.concatenate([np.zeros((len(counts), 1), np.int64), counts.cumsum(axis=1)], axis=1)
    return np.asarray(total[:, starts[1:]] - total[:, starts[:-1]])


class Flows:
    """What is true of each flow so far, and of a block's packets against the flow's packet before."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.packets = np.zeros(workload.flows, np.int64)
        self.latest = np.zeros((workload.flows, workload.hops, len(MEASURES)), np.int64)
        self.sums = np.zeros_like(self.latest)

    def add(self, packets: IntPackets, count: int) -> Differences:
        """Take the first packets of a block, which follow those of the last call."""
        flow, values = packets.flow[:count], packets.values[:count].astype(np.int64)
        order = np.argsort(flow, kind="stable")
        ranked = flow[order]
        starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
        sizes = np.diff(np.append(starts, count))
        before = np.empty_like(values)
        before[order[1:]] = values[order[:-1]]
        firsts = order[starts]
        before[firsts] = self.latest[ranked[starts]]
        known = np.ones(count, bool)
        known[firsts] = self.packets[ranked[starts]] > 0
        self.packets[ranked[starts]] += sizes
        self.latest[ranked[starts]] = values[order[starts + sizes - 1]]
        self.sums[ranked[starts]] += np.add.reduceat(values[order], starts)
        return Differences(self.workload, packets, flow, known, values, before)


class Differences:
    """Values of a block's packets, those of the flow's packet before, and what events they make.

    Both are int64 [packets, hops + 1, 4]: the last hop stands for the whole path, with its latency alone, as
    the fourth measure.
    """

    def __init__(
        self, workload: Workload, packets: IntPackets, flow: npt.NDArray[np.uint32], known: Any,
        values: Numbers, before: Numbers,
    ) -> None:  # fmt: skip
        self.workload, self.flow = workload, flow
        self.times = packets.times_ns[: len(flow)]
        self.known = known
        self.values, self.before = _with_whole(values), _with_whole(before)
        self.before[~known] = 0
        self.off = np.abs(self.values - self.before)
        self.off[~known] = -1

    def types(self, limits: Limits) -> npt.NDArray[np.uint16]:
        """Bits of Type, uint16 [packets, hops + 1]."""
        found = np.zeros(self.values.shape[:2], np.uint16)
        for measure in range(PLACES):
            here = np.s_[:, -1:] if measure == PLACES - 1 else np.s_[:, :-1]
            found[here] |= np.left_shift(self.off[here][:, :, measure] > limits.change[measure], 2 * measure,
                                         dtype=np.uint16)  # fmt: skip
            found[here] |= np.left_shift(self.values[here][:, :, measure] > limits.above[measure],
                                         2 * measure + 1, dtype=np.uint16)  # fmt: skip
        return found

    def events(self, limits: Limits, first: int) -> npt.NDArray[np.void]:
        """SINK_EVENT records, in order, without `flow_id`; `first` is the first one's sequence number."""
        types = self.types(limits)
        packet, hop = np.nonzero(types)
        told = np.zeros(len(packet), SINK_EVENT)
        flow, hops = self.flow[packet], self.workload.hops
        path = nodes(self.workload, flow)
        whole = hop == hops
        told["sequence"] = first + np.arange(len(packet))
        told["time_ns"] = self.times[packet]
        told["types"] = types[packet, hop]
        told["ip_version"], told["port"], told["hop_count"] = 4, NO_PORT, hops
        for name, values in keys(self.workload, flow).items():
            told[name] = values
        for name, measure in (("occupancy", 1), ("utilization", 2)):
            told[name] = self.values[packet, hop, measure]
            told[f"{name}_previous"] = self.before[packet, hop, measure]
        at = np.where(whole, PLACES - 1, 0)
        told["latency"], told["latency_previous"] = self.values[packet, hop, at], self.before[packet, hop, at]
        told["node_id"] = np.where(whole, NO_NODE, path[np.arange(len(packet)), np.minimum(hop, hops - 1)])
        told["hop"] = np.where(whole, 0, hop)
        told["path"][:, : min(hops, PATH_PART)] = path[:, :PATH_PART] * whole[:, None]
        return told


def _with_whole(values: Numbers) -> Numbers:
    """Values by hop, and behind them the sum of the latencies."""
    made = np.zeros((len(values), values.shape[1] + 1, PLACES), np.int64)
    made[:, :-1, :-1] = values
    made[:, -1, -1] = values[:, :, 0].sum(axis=1)
    return made


def limits_for(found: Differences, events: float) -> Limits:
    """Limits at which a packet makes `events` events on average: the same share of values is beyond each."""

    def at(share: float) -> Limits:
        change, above = [], []
        for measure in range(PLACES):
            here = np.s_[:, -1:] if measure == PLACES - 1 else np.s_[:, :-1]
            off = found.off[here][:, :, measure]
            change.append(int(np.quantile(off[off >= 0], 1 - share)))
            above.append(int(np.quantile(found.values[here][:, :, measure], 1 - share)))
        return Limits(tuple(change), tuple(above))

    low, high = 0.0, 1.0
    for _ in range(18):
        share = (low + high) / 2
        if np.count_nonzero(found.types(at(share))) > events * len(found.flow):
            high = share
        else:
            low = share
    return at(low)


def differences(expected: npt.NDArray[np.void], found: npt.NDArray[np.void]) -> tuple[int, int]:
    """(events that were missed, events that were invented); one with a wrong field is both."""
    one, other = expected.copy(), found.copy()
    one["flow_id"] = other["flow_id"] = 0
    if one.tobytes() == other.tobytes():
        return 0, 0
    one["sequence"] = other["sequence"] = 0
    told, true = (Counter(record.tobytes() for record in records) for records in (other, one))
    missed, invented = (true - told).total(), (told - true).total()
    return missed, max(invented, 1 - missed)  # all are there, in another order
