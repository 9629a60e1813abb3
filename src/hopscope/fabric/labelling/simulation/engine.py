"""Memory of the calendar kernel: pools that grow between its calls, and its counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ....wire.records import Records
from ...ports import FabricError, Ints
from .network import aligned_zeros
from .records import (
    HISTOGRAM,
    LABEL_NODE,
    NO_ROW,
    PACKET,
    RECEIVED_LABEL,
    Count,
    EngineSlot,
    Net,
    SourceFlag,
    StopReason,
)
from .sources import Sources

POOL = 4096
"""Initial rows of the pools."""
RING = 4096
"""Buckets of the ring; 8 ms with 2 µs each."""


class Engine:
    """Events, packets and labels of one network, in the form of `calendar_kernel`."""

    def __init__(
        self,
        setup: Records,
        ports: Records,
        sources: Sources,
        lookahead: int,
        custom: Callable[..., Any] | None,
        table: npt.NDArray[np.float64],
    ) -> None:
        from .calendar_kernel import DIGITS, ROW_BITS, advance

        self._advance: Callable[..., int] = advance
        self._custom, self._table = custom, table
        self._max_packets = 1 << ROW_BITS  # packets in flight: a sort key has ROW_BITS for the row
        self.setup, self.ports = setup, ports
        shift = min(lookahead.bit_length() - 1, 39)
        setup["bucket_shift"] = shift
        self.sources, self.starts, self.routes = sources.records.copy(), sources.starts, sources.routes
        self.counts = np.zeros(2 * int(Count.PROBES), np.int64)
        self.histogram = np.zeros((HISTOGRAM, HISTOGRAM), np.int64)
        self.active = np.zeros((0, len(ports)), np.uint8)
        self._state = np.zeros(int(EngineSlot.SLOTS), np.int64)
        self._state[[EngineSlot.OVERFLOW, EngineSlot.FREE_PACKET, EngineSlot.FREE_LABEL]] = NO_ROW
        self._heads = np.full(RING, NO_ROW, np.int32)
        self._link = np.full(len(self.sources), NO_ROW, np.int32)
        self._packets, self._labels = np.zeros(0, PACKET), np.zeros(0, LABEL_NODE)
        self._log = np.zeros(POOL, RECEIVED_LABEL)
        self._keys, self._scratch = np.zeros(POOL, np.uint64), np.zeros(POOL, np.uint64)
        self._digits = np.zeros(DIGITS, np.int64)
        self._grow_packets(POOL)
        self._grow_labels(POOL)
        self._max_queue_ps = int((ports["buffer"].astype(np.int64) * ports["ps_per_byte"]).max())
        self._begin()

    def _begin(self) -> None:
        """Put the first packet of every source into the overflow list; the first bucket moves them into the
        ring.
        """
        rows = np.nonzero(self.sources["remaining"] > 0)[0]
        if len(rows):
            self._link[rows[:-1]] = rows[1:]
            self._link[rows[-1]] = NO_ROW
            self._state[EngineSlot.OVERFLOW] = rows[0]

    def advance(self, until: int) -> list[Records]:
        """Serve all arrivals before `until`, ps; returns the labels exported by last hops, in parts."""
        setup = self.setup[0]
        waits = self._max_queue_ps + int(setup["pipeline"]) + int(setup["jitter"])
        intervals = (until + waits) // int(setup["telemetry"]) + 2
        if intervals > len(self.active):
            more = max(intervals, len(self.active) * 5 // 4) - len(self.active)
            self.active = np.concatenate([self.active, np.zeros((more, self.active.shape[1]), np.uint8)])
        parts = []
        while True:
            stop = self._advance(until, self._keys, self._scratch, self._digits, self._net(), self._custom)
            logged = int(self._state[EngineSlot.LOGGED])
            if logged:
                parts.append(self._log[:logged].copy())
                self._state[EngineSlot.LOGGED] = 0
            if stop == StopReason.DONE:
                return parts
            if stop == StopReason.PACKETS:
                self._grow_packets(len(self._packets))
            elif stop == StopReason.LABELS:
                self._grow_labels(len(self._labels))
            elif stop == StopReason.KEYS:
                self._keys, self._scratch = (np.zeros(2 * len(self._keys), np.uint64) for _ in range(2))
            elif 4 * logged < len(self._log):  # the log has no room for the labels of one packet
                self._log = np.zeros(2 * len(self._log), RECEIVED_LABEL)

    def send(self, sources: Ints, times: Ints, labels: Records) -> None:
        """Send a packet of each of these sources (rows) with one label, at future times, ps.

        `labels` are LABEL_NODE. It does the same as `calendar_kernel.emit`, for few packets.
        """
        state, packets, link = self._state, self._packets, self._link
        while int(state[EngineSlot.FREE_PACKETS]) < len(times) or int(state[EngineSlot.FREE_LABELS]) < len(
            times
        ):
            self._grow_packets(len(packets))
            self._grow_labels(len(self._labels))
            packets, link = self._packets, self._link
        first, ring = len(self.sources), len(self._heads)
        shift = int(self.setup["bucket_shift"][0])
        kept = int(SourceFlag.PROBE | SourceFlag.LABEL_ALWAYS | SourceFlag.LABEL_NEVER)
        for at, (index, time) in enumerate(zip(sources.tolist(), times.tolist(), strict=True)):
            row, label = int(state[EngineSlot.FREE_PACKET]), int(state[EngineSlot.FREE_LABEL])
            state[EngineSlot.FREE_PACKET], state[EngineSlot.FREE_LABEL] = (
                link[first + row],
                self._labels["next"][label],
            )
            state[EngineSlot.FREE_PACKETS] -= 1
            state[EngineSlot.FREE_LABELS] -= 1
            self._labels[label] = labels[at]
            self._labels["next"][label] = NO_ROW
            source = self.sources[index]
            number = int(source["serial"]) << 32 | int(source["sent"])
            node, flags = self.starts[source["routes_first"]], int(source["flags"]) & kept
            packets[row] = (time, number, node, label, source["size"], flags, 0, 1)
            source["sent"] += 1
            bucket = time >> shift
            near = bucket - int(state[EngineSlot.BUCKET]) < ring
            slot = bucket & (ring - 1)
            link[first + row] = self._heads[slot] if near else state[EngineSlot.OVERFLOW]
            if near:
                self._heads[slot] = first + row
            else:
                state[EngineSlot.OVERFLOW] = first + row
            self.counts[(Count.PROBES if flags & SourceFlag.PROBE else 0) + Count.EMITTED] += 1

    def _net(self) -> Net:
        return Net(
            self.setup, self._table, self._state, self.counts, self.histogram, self.active, self.sources,
            self.starts, self.routes, self._packets, self._link, self._heads, self.ports, self._labels,
            self._log,
        )  # fmt: skip

    @property
    def packets(self) -> int:
        """Packets in flight."""
        return len(self._packets) - int(self._state[EngineSlot.FREE_PACKETS])

    @property
    def labels(self) -> int:
        """Labels in flight."""
        return len(self._labels) - int(self._state[EngineSlot.FREE_LABELS])

    @property
    def nbytes(self) -> dict[str, int]:
        """Memory by purpose, bytes."""
        by_use = {
            "packets": (self._packets, self._link[len(self.sources) :], self._keys, self._scratch),
            "labels": (self._labels, self._log),
            "ports": (self.ports, self.active),
            "sources": (self.sources, self._link[: len(self.sources)], self.starts, self.routes),
            "calendar": (self._heads, self._state, self.counts, self.histogram, self._digits),
        }
        return {use: sum(array.nbytes for array in arrays) for use, arrays in by_use.items()}

    def _grow_packets(self, more: int) -> None:
        had = len(self._packets)
        if had + more > self._max_packets:
            raise FabricError(f"{had} packets are in flight; at most {self._max_packets} are supported")
        packets = aligned_zeros(had + more, PACKET)
        packets[:had] = self._packets
        self._packets = packets
        link = np.arange(had + 1, had + more + 1, dtype=np.int32)
        link[-1] = self._state[EngineSlot.FREE_PACKET]
        self._link = np.concatenate([self._link, link])
        self._state[EngineSlot.FREE_PACKET] = had
        self._state[EngineSlot.FREE_PACKETS] += more

    def _grow_labels(self, more: int) -> None:
        had = len(self._labels)
        added = np.zeros(more, LABEL_NODE)
        added["next"] = np.arange(had + 1, had + more + 1)
        added["next"][-1] = self._state[EngineSlot.FREE_LABEL]
        self._labels = np.concatenate([self._labels, added])
        self._state[EngineSlot.FREE_LABEL] = had
        self._state[EngineSlot.FREE_LABELS] += more


def compile_chance(chance: Callable[..., Any] | None) -> Callable[..., Any] | None:
    """Compile a probability f(count, max_hop, elapsed, interval), times in ps, as a kernel."""
    if chance is None or hasattr(chance, "signatures"):
        return chance
    from ....base.kernels.jit import uncached

    return uncached(chance)


def switch_active(
    active: npt.NDArray[np.uint8], intervals: int, is_switch: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which switch ports sent in which telemetry interval, bool [intervals, ports]."""
    shown = np.zeros((intervals, active.shape[1]), bool)
    have = min(intervals, len(active))
    shown[:have] = (active[:have] != 0) & is_switch
    return shown
