"""The INT database: the newest label of every (device, port), in a region that other processes read
(Algorithm 4).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ..memory.region import Region, barrier
from ..wire.records import Records
from .coverage import Coverage, Ints, Mask
from .periods import Periods
from .silence import Silence
from .state import KIND, MODES, NEVER, VERSION, LabelReader, LabelRule, arrays_of

__all__ = ["NEVER", "LabelReader", "LabelRule", "LabelTable"]

MAX_PORTS = 65_536
"""Room of the table: more than the ports of a fat tree with k = 32."""
INTERVALS = 4_096
"""Telemetry intervals whose coverage is kept."""
IDLE_NS = 10_000_000_000
"""In a full table, a port without a newer label for this time may be evicted."""
JUMP_NS = 1_000_000_000
"""Labels are delayed by less than this: a label that is older than the newest by more has another clock."""
STEADY = 8
"""Labels from which a port is steady: it is evicted only for a port whose owner has an eighth of its owner's
rows.
"""
UNFAIR = 64
"""Limit of ports evicted per batch in favour of other owners: each eviction costs a scan of the table."""
RATE_NS = 1_000_000_000
_INF = 2**63 - 1
Keys = npt.NDArray[np.uint64]
Devices: TypeAlias = npt.NDArray[np.uint32]
Ports: TypeAlias = npt.NDArray[np.uint16]


class LabelTable:
    """The only writer's table; readers use `LabelReader`. Times are ns on a clock that does not go back."""

    def __init__(self, path: Path | None, about: LabelRule, *, ports: int = MAX_PORTS) -> None:
        """A table at `path` is continued; None: private memory. Raises RegionError."""
        arrays = arrays_of(ports, INTERVALS)
        self.region = Region.open(path, KIND, VERSION, arrays)
        self._rows: Records = self.region["rows"]
        self._versions: npt.NDArray[np.uint32] = self.region["versions"]
        self._versions += self._versions & 1  # a killed writer may have left them odd
        self._used = self.region["used"]
        self.region["about"][:] = (
            about.telemetry_ns, about.interval_ns, about.timeout_ns, MODES.index(about.mode)
        )  # fmt: skip
        self.coverage = Coverage(about.telemetry_ns, self.region["coverage"], self.region["closed"], ports)
        self.periods = Periods(ports)
        self.silence = Silence(self._rows)
        self.taken = self.late = self.rejected = self.clock_resets = 0
        """Labels accepted; accepted labels that were older than the newest; labels rejected because the table
        is full; ports whose clock went back.
        """
        self.unknown = self.evicted = self.future_times = 0
        """Labels rejected because the registers do not list their port; evicted ports; ports whose newest
        label was ahead of the local clock, and was replaced.
        """
        self.on_evict: Callable[[Ints], object] = lambda _: None
        """Called with rows before they are given to other ports."""
        self.on_silent_evict: Callable[[Devices, Ports], object] = lambda *_: None
        """Called with (devices, ports) of silent ports that are evicted."""
        self._allowed: Mask | None = None
        rows = self._rows[: self.used]
        keys = _keys(rows["node_id"], rows["port"])
        self._order: Ints = np.argsort(keys, kind="stable")
        self._keys: Keys = keys[self._order]
        self._owner = np.zeros(ports, np.uint8)
        """Sender of the first label of a row; after a restart, one owner has all rows."""
        self._behind_ns: Ints = np.full(ports, NEVER, np.int64)
        """Local clock minus a port's, if its last labels were older than the newest by more than JUMP_NS."""
        self._counted = self._rows["labels"].copy()
        self._counted_ns = 0
        self._counts_packets = True

    @property
    def used(self) -> int:
        """Number of known ports."""
        return int(self._used[0])

    @property
    def recorded(self) -> Ints:
        """Arrival time of the newest label of every port, ns, int64 [used]; NEVER: no label yet.

        The controller uses this time, since a switch's clock may differ from the local one.
        """
        recorded: Ints = self._rows["received_ns"][: self.used]
        return recorded if self._allowed is None else np.where(self._allowed[: self.used], recorded, NEVER)

    def confine(self, rows: Ints | None) -> None:
        """Accept labels and record times only for these rows; None: for all ports."""
        self._allowed = None
        if rows is not None:
            self._allowed = np.zeros(len(self._rows), np.bool_)
            self._allowed[rows] = True

    def allowed(self, labels: Records) -> Mask | None:
        """Which LABEL records belong to accepted ports, bool [labels]; None: all of them."""
        if self._allowed is None:
            return None
        rows = self.rows_of(labels["node_id"], labels["egress_port"])
        return (rows >= 0) & self._allowed[rows]

    def rows_of(
        self, nodes: npt.ArrayLike, ports: npt.ArrayLike, *, add: bool = False, idle_since_ns: int = _INF,
        owners: npt.NDArray[np.uint8] | None = None,
    ) -> Ints:  # fmt: skip
        """Row of each (device, port), int64 [n]; -1: unknown, or (`add`) there is no room.

        In a full table, rows without a label since `idle_since_ns` are evicted, the oldest first; then rows
        of the owners with the most rows (`_unfair`). `owners`: uint8 [n], the owners of the new rows.
        """
        keys = _keys(np.asarray(nodes), np.asarray(ports))
        at = self._find(keys)
        if add and (at < 0).any():
            new = at < 0
            names, first = np.unique(keys[new], return_index=True)
            of = np.zeros(len(names), np.uint8) if owners is None else owners[new][first]
            self._add(names, of, at[~new], idle_since_ns)
            at = self._find(keys)
        return at

    def update(self, labels: Records, now_ns: int) -> None:
        """Process LABEL records that arrived at `now_ns`: keep the newest of every port, count all."""
        rows = self.rows_of(
            labels["node_id"], labels["egress_port"], add=self._allowed is None,
            idle_since_ns=now_ns - IDLE_NS, owners=labels["owner"],
        )  # fmt: skip
        if self._allowed is not None:
            ours = (rows >= 0) & self._allowed[rows]
            self.unknown += int(np.count_nonzero(~ours))
            labels, rows = labels[ours], rows[ours]
        elif (rows < 0).any():
            self.rejected += int(np.count_nonzero(rows < 0))
            labels, rows = labels[rows >= 0], rows[rows >= 0]
        if not len(rows):
            return
        ports, group = np.unique(rows, return_inverse=True)
        stored = self._rows["time_ns"][ports]
        agrees = abs(labels["time_ns"] // 2 - now_ns // 2) < JUMP_NS // 2  # halves: no overflow
        ahead = (stored > now_ns + JUMP_NS) & (np.bincount(group[agrees], minlength=len(ports)) > 0)
        floor = np.where(ahead | self._set_back(ports, group, labels["time_ns"], now_ns), NEVER, stored)
        newest, is_late, back = _newest(group, labels["time_ns"], floor, stored)
        count = np.bincount(group, minlength=len(ports))
        older = np.bincount(group[is_late], minlength=len(ports))
        at, new = ports[newest >= 0], labels[newest[newest >= 0]]
        self._versions[ports] += 1
        barrier()
        self._rows["labels"][ports] += count.astype(np.uint64)
        self._rows["late"][ports] += older.astype(np.uint64)
        self._rows["received_ns"][at] = now_ns
        for name in ("time_ns", "latency_ns", "occupancy", "ingress_port"):
            self._rows[name][at] = new[name]
        barrier()
        self._versions[ports] += 1
        self.taken += len(rows)
        self.late += int(older.sum())
        self.clock_resets += int(np.count_nonzero(back & ~ahead))
        self.future_times += int(np.count_nonzero(back & ahead))
        self.coverage.take(rows, labels, now_ns)
        self.periods.take(rows, labels)

    def set_ahead(self, ahead_ns: int) -> None:
        """Store how far the clock of all times here is ahead of the system clock, for readers."""
        self.region["ahead"][0] = ahead_ns

    def set_shift(self, rows: Ints, values: npt.NDArray[np.uint8]) -> None:
        """Set Reg2 of these rows."""
        self._rows["shift"][rows] = values

    def resume(self, now_ns: int) -> None:
        """Continue the table of a previous process: correct times in the future, and forget Reg2."""
        rows = self.known
        rows["received_ns"] = np.minimum(rows["received_ns"], now_ns)
        self.clear_shift()
        self.silence.resume(now_ns)

    def clear_shift(self) -> None:
        """Set Reg2 of all rows to 0."""
        self._rows["shift"] = 0

    @property
    def known(self) -> Records:
        """The known ports, LABEL_ROW [used]."""
        return self._rows[: self.used]

    @property
    def capacity(self) -> int:
        """Number of rows, used or not."""
        return len(self._rows)

    def ports_of(self, rows: Ints) -> tuple[Devices, Ports]:
        """(Devices, ports) of rows."""
        return self._rows["node_id"][rows], self._rows["port"][rows]

    def tick(self, now_ns: int, sample: Callable[[], Mask] | None = None) -> None:
        """Close telemetry intervals that have ended, and compute rates; call it several times per interval.

        `sample` returns the ports with traffic since its last call, bool [ports]; None: traffic is unknown.
        """

        def sampled() -> Mask:
            assert sample is not None
            active = sample()
            self._rows["traffic"] = 1 + active.astype(np.uint8)
            return active

        sampling = None if sample is None else sampled
        if sample is None and self._counts_packets:
            self._rows["traffic"] = 0
        self._counts_packets = sample is not None
        self.coverage.tick(now_ns, sampling, int(np.count_nonzero(self._rows["shift"][: self.used])))
        span = now_ns - self._counted_ns
        if span >= RATE_NS:
            labels = self._rows["labels"].copy()
            if self._counted_ns:
                self._rows["rate"] = (labels - self._counted) * (1e9 / span)
            self._counted, self._counted_ns = labels, now_ns

    def close(self) -> None:
        """Unmap the region."""
        self.region.close()

    def _set_back(self, ports: Ints, group: Ints, times: Ints, now_ns: int) -> Mask:
        """Ports whose clock was set back: in two consecutive batches, all labels are older than the newest by
        more than JUMP_NS, and both batches have the same clock.
        """
        stored, highest = self._rows["time_ns"][ports], np.full(len(ports), NEVER)
        np.maximum.at(highest, group, times)
        behind = (highest < stored) & ((stored - highest).view(np.uint64) > JUMP_NS)
        offset = now_ns - highest  # may overflow, like the difference below: both wrap
        again: Mask = behind & (abs(offset - self._behind_ns[ports]) < JUMP_NS)
        self._behind_ns[ports] = np.where(behind & ~again, offset, NEVER)
        return again

    def _find(self, keys: Keys) -> Ints:
        if not len(self._keys):
            return np.full(len(keys), -1, np.int64)
        at = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._order[at], -1)

    def _add(self, keys: Keys, owners: npt.NDArray[np.uint8], kept: Ints, idle_since_ns: int) -> None:
        """Add these sorted keys while there is room; a row is complete before it becomes visible."""
        new = min(len(keys), len(self._rows) - self.used)
        rows = np.arange(self.used, self.used + new)
        if len(keys) > new:
            idle = self._idle(len(keys) - new, kept, idle_since_ns)
            at = new + len(idle)
            places, unfair = self._unfair(owners[at:], np.concatenate([kept, idle]))
            gone = np.concatenate([idle, unfair])
            self._evict(gone)
            rows = np.concatenate([rows, gone])
            chosen = np.concatenate([np.arange(at), at + places])
            keys, owners = keys[chosen], owners[chosen]
            order = np.argsort(keys)
            keys, owners, rows = keys[order], owners[order], rows[order]
        self._owner[rows] = owners
        self._versions[rows] += 1
        barrier()
        self._rows[rows] = 0
        self._rows["time_ns"][rows] = self._rows["received_ns"][rows] = NEVER
        self._rows["node_id"][rows] = keys >> np.uint64(16)
        self._rows["port"][rows] = keys & np.uint64(0xFFFF)
        barrier()
        self._versions[rows] += 1
        self._used[0] += np.uint64(new)
        before = np.searchsorted(self._keys, keys)
        self._keys, self._order = np.insert(self._keys, before, keys), np.insert(self._order, before, rows)

    def _idle(self, count: int, kept: Ints, idle_since_ns: int) -> Ints:
        """Rows of up to `count` ports without a label since `idle_since_ns`, the longest silent first."""
        received = self._rows["received_ns"][: self.used]
        idle = received < idle_since_ns
        idle[kept] = False
        rows = np.flatnonzero(idle)
        return rows[np.argsort(received[rows], kind="stable")[:count]]

    def _unfair(self, owners: npt.NDArray[np.uint8], kept: Ints) -> tuple[Ints, Ints]:
        """New ports that replace a row of an owner with more rows, and the rows that they replace.

        `owners` are those of the new ports. As in `detect.flows.fair_kernel`, a row with few labels counts
        as several rows. At most `UNFAIR` at a time.
        """
        places: list[int] = []
        rows: list[int] = []
        share = np.bincount(self._owner[: self.used], minlength=256)
        if not len(owners) or share.max() <= 1:
            return np.array(places, np.int64), np.array(rows, np.int64)
        rank = share[self._owner[: self.used]] * np.where(
            self._rows["labels"][: self.used] < STEADY, STEADY, 1
        )
        rank[kept] = 0
        fewest = np.argsort(share[owners], kind="stable")[:UNFAIR]
        for place in fewest.tolist():
            owner = owners[place]
            worst = int(rank.argmax())
            if rank[worst] <= (share[owner] + 1) * STEADY:
                break
            share[self._owner[worst]] -= 1
            share[owner] += 1
            rank[worst] = 0
            places.append(place)
            rows.append(worst)
        return np.array(places, np.int64), np.array(rows, np.int64)

    def _evict(self, rows: Ints) -> None:
        """Forget the ports of these rows."""
        self.evicted += len(rows)
        self.on_evict(rows)
        self.coverage.forget(rows)
        self.periods.forget(rows)
        self.on_silent_evict(*self.ports_of(self.silence.forget(rows)))
        self._counted[rows] = 0
        self._behind_ns[rows] = NEVER
        stay = ~np.isin(self._order, rows)
        self._keys, self._order = self._keys[stay], self._order[stay]


def _keys(nodes: npt.NDArray[np.generic], ports: npt.NDArray[np.generic]) -> Keys:
    return nodes.astype(np.uint64) << np.uint64(16) | ports.astype(np.uint64)


def _newest(group: Ints, times: Ints, floor: Ints, stored: Ints) -> tuple[Ints, Mask, Mask]:
    """Labels that Algorithm 4 accepts, in the order of their arrival, if `floor` [groups] are the recorded
    times.

    Returns the label that remains in each group (-1: none), which labels were older than another one when
    they arrived, and the groups whose first label is not newer than `stored`, but is above the floor.
    """
    groups = len(floor)
    rank = np.unique(np.concatenate([floor, times]), return_inverse=True)[1]
    value = np.concatenate([np.arange(groups), group]) * (len(rank) + 1) + rank
    order = np.argsort(np.concatenate([np.arange(groups), group]), kind="stable")  # the floor comes first
    value = value[order]
    highest = np.maximum.accumulate(value)
    is_newer = np.zeros(len(value), np.bool_)
    is_newer[1:] = value[1:] > highest[:-1]
    newer_at = order[is_newer & (order >= groups)] - groups  # by group, then in the order of arrival
    newest = np.full(groups, -1, np.int64)
    newest[group[newer_at]] = newer_at  # the last one remains
    late = np.zeros(len(times), np.bool_)
    is_late = np.append(False, value[1:] < highest[:-1]) & (order >= groups)
    late[order[is_late] - groups] = True
    first = np.full(groups, -1, np.int64)
    first[group[newer_at[::-1]]] = newer_at[::-1]
    return newest, late, (first >= 0) & (times[first] <= stored)
