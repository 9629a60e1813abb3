"""Tracked flows (INT-label, 3.3): the newest path of each, switch by switch, and the previous one.

All switches label a tracked packet, so its labels show its path. Few packets are tracked; they are processed
in plain Python, and `tick` writes changes for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..wire.records import Records
from .table import IDLE_NS, JUMP_NS
from .tracked_state import HOPS, KIND, TRACKED_FLOW, VERSION, arrays_of

MAX_FLOWS = 1024
"""Room of the table: the maximum of the settings."""
RATE_NS = 5_000_000_000
Key = tuple[int, int, int, int, int, int, int]
"""A flow: source and destination (high and low half each), protocol, ports."""
Port = tuple[int, int, int]
"""A switch on a path: node, ingress port, egress port."""


@dataclass(slots=True)
class _Hop:
    time_ns: int
    node_id: int
    latency_ns: int
    highest_latency_ns: int
    occupancy: int
    highest_occupancy: int
    ingress_port: int
    egress_port: int

    def update(self, new: _Hop) -> None:
        """Take the values of a newer packet at the same switch and ports."""
        self.time_ns, self.latency_ns, self.occupancy = new.time_ns, new.latency_ns, new.occupancy
        self.highest_latency_ns = max(self.highest_latency_ns, new.latency_ns)
        self.highest_occupancy = max(self.highest_occupancy, new.occupancy)

    def row(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)  # type: ignore[attr-defined]


@dataclass(slots=True)
class _Flow:
    row: int
    begin_ns: int
    received_ns: int
    changed_ns: int = 0
    packets: int = 0
    late: int = 0
    partial: int = 0
    changes: int = 0
    rate: float = 0.0
    counted: int = 0
    hops: int = 0
    previous_hops: int = 0
    behind_ns: int | None = None
    """Local clock minus the first switch's, if its last packet was older than the newest by over JUMP_NS."""
    ports: list[Port] = field(default_factory=list)
    path: list[_Hop] = field(default_factory=list)
    previous: list[_Hop] = field(default_factory=list)


class TrackedTable:
    """The table of the only writer; readers use `TrackedReader`. Times are ns on a clock that does not go
    back.
    """

    def __init__(self, path: Path | None, now_ns: int, *, flows: int = MAX_FLOWS) -> None:
        """A table at `path` is continued; None: private memory. Raises RegionError."""
        arrays = arrays_of(flows)
        self.region = Region.open(path, KIND, VERSION, arrays)
        self.rows: Records = self.region["rows"]
        self._versions: npt.NDArray[np.uint32] = self.region["versions"]
        torn = (self._versions & 1).astype(np.bool_)  # a killed writer may have left them odd
        self.rows[torn] = 0
        self._versions += self._versions & 1
        self.taken = self.late = self.partial = self.changes = 0
        """Tracked packets accepted; among these, packets overtaken by a newer one of their flow, packets
        without the labels of some switches, packets with another path than before.
        """
        self.without_flow = self.unknown = self.rejected = self.evicted = 0
        """Packets rejected because their last hop does not report the flow, because the registers do not list
        a port, or because there was no room; flows evicted because others needed their room.
        """
        self.on_path_change: Callable[[Key, Sequence[Port], Sequence[Port]], object] = lambda *_: None
        """Called with a flow, its path and the previous one when the path has changed."""
        self._flows: dict[Key, _Flow] = {}
        self._free: list[int] = []
        self._dirty: set[Key] = set()
        self._full_until_ns = self._counted_ns = 0
        for number in range(flows - 1, -1, -1):
            self._continue(number, now_ns)

    @property
    def used(self) -> int:
        """Number of known flows."""
        return len(self._flows)

    def update(
        self, labels: Records, flows: Records, now_ns: int, known: npt.NDArray[np.bool_] | None = None
    ) -> None:
        """Process the tracked packets among LABEL and LABEL_FLOW records that arrived at `now_ns`.

        `known`: whether a label's port is accepted, bool [labels]; None: all are.
        """
        tracked = int(np.count_nonzero((labels["tracked"] == 1) & (labels["position"] == 0)))
        if not tracked:
            return
        starts = np.searchsorted(labels["packet"], flows["packet"])
        ends = np.searchsorted(labels["packet"], flows["packet"], side="right")
        for flow, start, end in zip(flows.tolist(), starts.tolist(), ends.tolist(), strict=True):
            packet = labels[start:end]
            if not packet["tracked"][0]:
                continue
            tracked -= 1
            if known is not None and not known[start:end].all():
                self.unknown += 1
                continue
            source_high, source_low, high, low, _, sport, dport, protocol, *_ = flow
            key = source_high, source_low, high, low, protocol, sport, dport
            entry = self._flows.get(key) or self._new(key, now_ns)
            if entry is None:
                self.rejected += 1
                continue
            self.taken += 1
            self._take(key, entry, packet, now_ns)
            self._dirty.add(key)
        self.without_flow += tracked

    def set_ahead(self, ahead_ns: int) -> None:
        """Store how far the clock of all times here is ahead of the system clock, for readers."""
        self.region["ahead"][0] = ahead_ns

    def tick(self, now_ns: int) -> None:
        """Write changes, and compute rates; call it a few times per second."""
        span = now_ns - self._counted_ns
        if span >= RATE_NS:
            for key, flow in self._flows.items():
                rate = (flow.packets - flow.counted) * 1e9 / span if self._counted_ns else 0.0
                if rate != flow.rate:
                    self._dirty.add(key)
                flow.rate, flow.counted = rate, flow.packets
            self._counted_ns = now_ns
        if self._dirty:
            self._write([(key, self._flows[key]) for key in self._dirty if key in self._flows])
            self._dirty.clear()

    def close(self) -> None:
        """Unmap the region."""
        self.region.close()

    def _take(self, key: Key, flow: _Flow, labels: Records, now_ns: int) -> None:
        flow.packets += 1
        hops = [
            _Hop(time, node, latency, latency, queue, queue, ingress, egress)
            for time, node, latency, queue, _, ingress, egress, *_ in labels[:HOPS].tolist()
        ]
        if flow.path and self._is_late(flow, hops[0], now_ns):
            flow.late += 1
            self.late += 1
            return
        flow.received_ns = now_ns
        ports = [(hop.node_id, hop.ingress_port, hop.egress_port) for hop in hops]
        places = _positions(ports, flow.ports)
        if places is not None:
            for place, hop in zip(places, hops, strict=True):
                flow.path[place].update(hop)
            if len(places) < len(flow.ports):
                flow.partial += 1
                self.partial += 1
            return
        if flow.path and _positions(flow.ports, ports) is None:  # else the old path lacked some switches
            flow.previous, flow.previous_hops = flow.path, flow.hops
            flow.changed_ns = now_ns
            flow.changes += 1
            self.changes += 1
            self.on_path_change(key, ports, flow.ports)
        flow.path, flow.ports, flow.hops = hops, ports, len(labels)

    def _is_late(self, flow: _Flow, first: _Hop, now_ns: int) -> bool:
        """Whether a newer packet has overtaken this one, by the first switch's clock, unless that was set
        back (see `LabelTable`).
        """
        newest, before, offset = flow.path[0], flow.behind_ns, now_ns - first.time_ns
        flow.behind_ns = None
        if first.node_id != newest.node_id or first.time_ns >= newest.time_ns:
            return False
        if newest.time_ns > now_ns + JUMP_NS and abs(offset) < JUMP_NS:
            return False
        if newest.time_ns - first.time_ns <= JUMP_NS:
            return True
        if before is not None and abs(offset - before) < JUMP_NS:
            return False
        flow.behind_ns = offset
        return True

    def _new(self, key: Key, now_ns: int) -> _Flow | None:
        """Assign a row to a new flow; None: there is no room."""
        if not self._free:
            if now_ns < self._full_until_ns:
                return None
            oldest = min(self._flows, key=lambda known: self._flows[known].received_ns)
            idle_ns = self._flows[oldest].received_ns + IDLE_NS
            if now_ns < idle_ns:
                self._full_until_ns = idle_ns
                return None
            self.evicted += 1
            self._free.append(self._flows.pop(oldest).row)
        flow = self._flows[key] = _Flow(self._free.pop(), now_ns, now_ns)
        return flow

    def _write(self, changed: list[tuple[Key, _Flow]]) -> None:
        made = np.zeros(len(changed), TRACKED_FLOW)
        for row, (key, flow) in zip(made, changed, strict=True):
            for name, value in zip(_KEY, key, strict=True):
                row[name] = value
            for name in _FIGURES:
                row[name] = getattr(flow, name)
            for name, path in (("path", flow.path), ("previous", flow.previous)):
                row[name][: len(path)] = [hop.row() for hop in path]
        at = np.array([flow.row for _, flow in changed])
        self._versions[at] += 1
        barrier()
        self.rows[at] = made
        barrier()
        self._versions[at] += 1

    def _continue(self, number: int, now_ns: int) -> None:
        """Continue the flow of a row, or free the row."""
        row = self.rows[number]
        key: Key = tuple(int(row[name]) for name in _KEY)  # type: ignore[assignment]
        if not row["packets"] or not row["hops"] or key in self._flows:
            self.rows[number] = 0
            self._free.append(number)
            return
        flow = self._flows[key] = _Flow(number, 0, 0)
        for name in _FIGURES:
            setattr(flow, name, row[name].item())
        flow.received_ns = min(flow.received_ns, now_ns)
        flow.counted = flow.packets
        flow.path = [_Hop(*hop) for hop in row["path"][: min(flow.hops, HOPS)].tolist()]
        flow.previous = [_Hop(*hop) for hop in row["previous"][: min(flow.previous_hops, HOPS)].tolist()]
        flow.ports = [(hop.node_id, hop.ingress_port, hop.egress_port) for hop in flow.path]


_KEY = ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "sport", "dport")
_FIGURES = (
    "begin_ns", "received_ns", "changed_ns", "packets", "late", "partial", "changes", "rate", "hops",
    "previous_hops",
)  # fmt: skip


def _positions(part: list[Port], whole: list[Port]) -> list[int] | None:
    """Indices in `whole` of the items of `part`, in the same order; None: an item is missing."""
    places, at = [], 0
    for port in part:
        try:
            at = whole.index(port, at)
        except ValueError:
            return None
        places.append(at)
        at += 1
    return places
