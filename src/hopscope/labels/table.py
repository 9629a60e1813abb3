"""The INT database: the newest label of every (device, port), in a region that others read (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..wire.records import Records
from .coverage import Coverage, Ints, Mask
from .state import KIND, MODES, NEVER, VERSION, LabelReader, LabelRule, arrays_of

__all__ = ["NEVER", "LabelReader", "LabelRule", "LabelTable"]

PORTS = 65_536
"""Ports that the table has room for: those of a fat tree with k = 32 and more."""
INTERVALS = 4_096
"""Telemetry intervals whose coverage is kept."""
CLOCK_BACK_NS = 10_000_000_000
"""A port of which nothing newer came for so long has set its clock back: its next label is taken whatever
its time.
"""
AHEAD_NS = 1_000_000_000
"""A newest label so far ahead of our clock has a wrong time, if the next one agrees with our clock."""
RATE_NS = 1_000_000_000
_FAR = 2**63 - 1
Keys = npt.NDArray[np.uint64]


class LabelTable:
    """One writer; readers attach with `LabelReader`. Times are ns on one clock that does not go back."""

    def __init__(self, path: Path | None, about: LabelRule, *, ports: int = PORTS) -> None:
        """What is under `path` is continued; None: private memory. Raises RegionError."""
        arrays = arrays_of(ports, INTERVALS)
        found = None if path is None else Region.continued(path, KIND, VERSION, arrays)
        self.region = found or Region.create(path, KIND, VERSION, arrays)
        self.rows: Records = self.region["rows"]
        """LABEL_PORT [ports]; the first `used` are in use."""
        self._versions: npt.NDArray[np.uint32] = self.region["versions"]
        self._versions += self._versions & 1  # left odd by a writer that was killed
        self._used = self.region["used"]
        self.region["about"][:] = (
            about.telemetry_ns, about.interval_ns, about.patience_ns, MODES.index(about.mode)
        )  # fmt: skip
        self.coverage = Coverage(about.telemetry_ns, self.region["coverage"], self.region["closed"], ports)
        self.taken = self.late = self.refused = self.clocks_back = 0
        """Labels taken; of these, older than what was here; labels refused since the table is full; ports
        whose clock went back.
        """
        self.unknown = self.reused = self.ahead = 0
        """Labels refused since their port is not one of those we are confined to; rows that were given to
        another port; ports whose newest label had a time ahead of ours, which was taken back.
        """
        self.on_reuse: Callable[[Ints], object] = lambda _: None
        """Is told rows before they are given to other ports."""
        self._only: Mask | None = None
        rows = self.rows[: self.used]
        keys = _keys(rows["node_id"], rows["port"])
        self._order: Ints = np.argsort(keys, kind="stable")
        self._keys: Keys = keys[self._order]
        self._counted = self.rows["labels"].copy()
        self._counted_ns = 0
        self._counts_packets = True

    @property
    def used(self) -> int:
        """Ports known so far."""
        return int(self._used[0])

    @property
    def recorded(self) -> Ints:
        """When the newest label of every port arrived, ns, int64 [used]; NEVER without one.

        The controller goes by this time: a switch's clock need not be ours.
        """
        recorded: Ints = self.rows["received_ns"][: self.used]
        return recorded if self._only is None else np.where(self._only[: self.used], recorded, NEVER)

    def confine(self, rows: Ints | None) -> None:
        """Take labels of these rows only, and have a recorded time of no others; None: of whatever comes."""
        self._only = None
        if rows is not None:
            self._only = np.zeros(len(self.rows), np.bool_)
            self._only[rows] = True

    def wanted(self, labels: Records) -> Mask | None:
        """Which LABEL records are of ports that we are confined to, bool [labels]; None: we are to none."""
        if self._only is None:
            return None
        rows = self.rows_of(labels["node_id"], labels["egress_port"])
        return (rows >= 0) & self._only[rows]

    def rows_of(
        self, nodes: npt.ArrayLike, ports: npt.ArrayLike, *, add: bool = False, idle_since_ns: int = _FAR
    ) -> Ints:
        """Row of each (device, port), int64 [n]; -1 where it is not known, or (`add`) no room is left.

        In a full table rows of which nothing came since `idle_since_ns` are given away, the oldest first.
        """
        wanted = _keys(np.asarray(nodes), np.asarray(ports))
        at = self._find(wanted)
        if add and (at < 0).any():
            self._add(np.unique(wanted[at < 0]), at[at >= 0], idle_since_ns)
            at = self._find(wanted)
        return at

    def update(self, labels: Records, now_ns: int) -> None:
        """Take LABEL records that arrived at `now_ns`: the newest of every port stays, older ones count."""
        rows = self.rows_of(
            labels["node_id"], labels["egress_port"], add=self._only is None,
            idle_since_ns=now_ns - CLOCK_BACK_NS,
        )  # fmt: skip
        if self._only is not None:
            ours = (rows >= 0) & self._only[rows]
            self.unknown += int(np.count_nonzero(~ours))
            labels, rows = labels[ours], rows[ours]
        elif (rows < 0).any():
            self.refused += int(np.count_nonzero(rows < 0))
            labels, rows = labels[rows >= 0], rows[rows >= 0]
        if not len(rows):
            return
        ports, group = np.unique(rows, return_inverse=True)
        stored = self.rows["time_ns"][ports]
        silent = (self.rows["received_ns"][ports] < now_ns - CLOCK_BACK_NS) & (stored != NEVER)
        agrees = (
            abs(labels["time_ns"] // 2 - now_ns // 2) < AHEAD_NS // 2
        )  # halves: differences fit into 64 bits
        ahead = (stored > now_ns + AHEAD_NS) & (np.bincount(group[agrees], minlength=len(ports)) > 0)
        floor = np.where(silent | ahead, NEVER, stored)
        newest, newer, back = _newest(group, labels["time_ns"], floor, stored)
        count = np.bincount(group, minlength=len(ports))
        older = count - np.bincount(group[newer], minlength=len(ports))
        at, new = ports[newest >= 0], labels[newest[newest >= 0]]
        self._versions[ports] += 1
        barrier()
        self.rows["labels"][ports] += count.astype(np.uint64)
        self.rows["late"][ports] += older.astype(np.uint64)
        self.rows["received_ns"][at] = now_ns
        for name in ("time_ns", "latency_ns", "occupancy", "ingress_port"):
            self.rows[name][at] = new[name]
        barrier()
        self._versions[ports] += 1
        self.taken += len(rows)
        self.late += int(older.sum())
        self.clocks_back += int(np.count_nonzero(back & ~ahead))
        self.ahead += int(np.count_nonzero(back & ahead))
        self.coverage.take(rows, labels, now_ns)

    def set_ahead(self, ahead_ns: int) -> None:
        """How far the clock by which we are told times is ahead of the machine's, for readers."""
        self.region["ahead"][0] = ahead_ns

    def set_shift(self, rows: Ints, values: npt.NDArray[np.uint8]) -> None:
        """What Reg2 of these rows is now."""
        self.rows["shift"][rows] = values

    def tick(self, now_ns: int, sample: Callable[[], Mask] | None = None) -> None:
        """Close telemetry intervals that have ended, and take rates; a few times in every interval.

        `sample`: ports with traffic since it was asked last, bool [ports]; None: nobody counts packets.
        """

        def sampled() -> Mask:
            assert sample is not None
            active = sample()
            self.rows["traffic"] = 1 + active.astype(np.uint8)
            return active

        sampling = None if sample is None else sampled
        if sample is None and self._counts_packets:
            self.rows["traffic"] = 0
        self._counts_packets = sample is not None
        self.coverage.tick(now_ns, sampling, int(np.count_nonzero(self.rows["shift"][: self.used])))
        span = now_ns - self._counted_ns
        if span >= RATE_NS:
            labels = self.rows["labels"].copy()
            if self._counted_ns:
                self.rows["rate"] = (labels - self._counted) * (1e9 / span)
            self._counted, self._counted_ns = labels, now_ns

    def close(self) -> None:
        """Unmap the region."""
        self.region.close()

    def _find(self, wanted: Keys) -> Ints:
        if not len(self._keys):
            return np.full(len(wanted), -1, np.int64)
        at = np.searchsorted(self._keys, wanted).clip(max=len(self._keys) - 1)
        return np.where(self._keys[at] == wanted, self._order[at], -1)

    def _add(self, keys: Keys, kept: Ints, idle_since_ns: int) -> None:
        """Give rows to these keys, sorted, while there is room; a row is whole before it is counted."""
        new = min(len(keys), len(self.rows) - self.used)
        rows = np.arange(self.used, self.used + new)
        if len(keys) > new:
            rows = np.concatenate([rows, self._given_away(len(keys) - new, kept, idle_since_ns)])
        keys = keys[: len(rows)]
        self._versions[rows] += 1
        barrier()
        self.rows[rows] = 0
        self.rows["time_ns"][rows] = self.rows["received_ns"][rows] = NEVER
        self.rows["node_id"][rows] = keys >> np.uint64(16)
        self.rows["port"][rows] = keys & np.uint64(0xFFFF)
        barrier()
        self._versions[rows] += 1
        self._used[0] += np.uint64(new)
        at = np.searchsorted(self._keys, keys)
        self._keys, self._order = np.insert(self._keys, at, keys), np.insert(self._order, at, rows)

    def _given_away(self, count: int, kept: Ints, idle_since_ns: int) -> Ints:
        """So many rows at most that are free for other ports, those silent longest first."""
        received = self.rows["received_ns"][: self.used]
        idle = received < idle_since_ns
        idle[kept] = False
        rows = np.flatnonzero(idle)
        rows = rows[np.argsort(received[rows], kind="stable")[:count]]
        self.reused += len(rows)
        self.on_reuse(rows)
        self.coverage.forget(rows)
        self._counted[rows] = 0
        stay = ~np.isin(self._order, rows)
        self._keys, self._order = self._keys[stay], self._order[stay]
        return rows


def _keys(nodes: npt.NDArray[np.generic], ports: npt.NDArray[np.generic]) -> Keys:
    keys: Keys = nodes.astype(np.uint64) << np.uint64(16) | ports.astype(np.uint64)
    return keys


def _newest(group: Ints, times: Ints, floor: Ints, stored: Ints) -> tuple[Ints, Mask, Mask]:
    """What Algorithm 4 takes of labels in the order of their arrival, if `floor` [groups] is recorded.

    Returns the label that stays in each group (-1: none), which labels were newer when they arrived, and the
    groups whose first label is no newer than `stored`, but is above the floor.
    """
    groups = len(floor)
    rank = np.unique(np.concatenate([floor, times]), return_inverse=True)[1]
    value = np.concatenate([np.arange(groups), group]) * (len(rank) + 1) + rank
    order = np.argsort(np.concatenate([np.arange(groups), group]), kind="stable")  # the floor stands first
    value = value[order]
    highest = np.maximum.accumulate(value)
    is_newer = np.zeros(len(value), np.bool_)
    is_newer[1:] = value[1:] > highest[:-1]
    newer_at = order[is_newer & (order >= groups)] - groups  # by group, then in the order of arrival
    newest = np.full(groups, -1, np.int64)
    newest[group[newer_at]] = newer_at  # the last one stays
    newer = np.zeros(len(times), np.bool_)
    newer[newer_at] = True
    first = np.full(groups, -1, np.int64)
    first[group[newer_at[::-1]]] = newer_at[::-1]
    return newest, newer, (first >= 0) & (times[first] <= stored)
