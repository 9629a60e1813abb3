"""Samples of all queues, buffers, links and labelling ports in the last minutes.

An event is stored only when a value changes by more than T. Smaller changes are visible only in the live
state, which is therefore sampled once a second while a viewer asks for samples.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...base.log import logger
from ...detect.flows.reading.state import queues_by_port
from ...detect.places import UNKNOWN, Words, keys_of, ports_of
from ...detect.records import PortKind
from ...wire.records import Records
from ..collector_state import CollectorState
from .places import Buckets

KEPT = 300
"""Number of samples that are kept: five minutes."""
MAX_PLACES = 8192
"""Largest number of places in a sample of a metric: those with the highest values. Each takes 4 bytes, and 8
for its key if the keys have changed."""
IDLE_SECONDS = 60.0
"""Sampling ends when nobody has asked for samples for this long."""
FRESH_NS = 3 * 10**9
"""A place has no value if there was no report for this long."""
_PERIOD_SECONDS = 1.0
_GAUGES = (
    ("queue_occupancy", PortKind.QUEUE, 0),
    ("queue_congestion", PortKind.QUEUE, 1),
    ("buffer_occupancy", PortKind.BUFFER, 0),
    ("link_utilization", PortKind.EGRESS, 0),
)
log = logger("serve")


@dataclass(frozen=True, slots=True)
class Sample:
    """Values of one metric at one moment."""

    time_ns: int
    keys: Words
    """uint64 [places], ascending; see `detect.places.keys_of`."""
    values: npt.NDArray[np.uint32]

    def of(self, keys: Words) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint32]]:
        """Indices of those `keys` (ascending) that have a value in this sample, and their values."""
        at = np.searchsorted(self.keys, keys)
        known = np.flatnonzero(at < len(self.keys))
        known = known[self.keys[at[known]] == keys[known]]
        return known, self.values[at[known]]

    def of_node(self, node: int) -> Sample:
        """The part of the sample that is about one switch."""
        ends = np.array([node << 32, (node + 1 << 32) - 1], np.uint64)
        part = slice(np.searchsorted(self.keys, ends[0]), np.searchsorted(self.keys, ends[1], "right"))
        return Sample(self.time_ns, self.keys[part], self.values[part])


class Samples:
    """Samples of a collector, by metric. Threads may share it."""

    def __init__(self, state: CollectorState) -> None:
        self._state = state
        self._kept: dict[str, deque[Sample]] = {}
        self._highest: dict[str, tuple[Words, npt.NDArray[np.uint32]]] = {}
        self._lock = threading.Lock()
        self._asked = 0.0
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def over(self, metric: str, buckets: Buckets) -> list[tuple[int, Sample]]:
        """The samples in these buckets, each with the index of its bucket. Sampling
        begins if it has not yet.
        """
        if time.time_ns() - buckets.end_ns > KEPT * 10**9:
            return []
        self.ask()
        with self._lock:
            samples = list(self._kept.get(metric, ()))
        found = [(buckets.at(sample.time_ns), sample) for sample in samples]
        return [(at, sample) for at, sample in found if at is not None]

    def ask(self) -> None:
        """Start sampling, with a first sample now, unless it is running; it runs
        until nobody asks any more.
        """
        with self._lock:
            self._asked = time.monotonic()
            if self._thread is None and not self._stop.is_set():
                self._take()
                self._thread = threading.Thread(target=self._run, name="serve-samples", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End sampling."""
        self._stop.set()
        thread = self._thread
        if thread is not None:
            thread.join(5)

    def take(self) -> None:
        """Take one sample of every metric."""
        with self._lock:
            self._take()

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            with self._lock:
                if time.monotonic() - self._asked > IDLE_SECONDS:
                    self._kept.clear()
                    self._highest.clear()
                    self._thread = None
                    return
                try:
                    self._take()
                except Exception as error:  # an old sample is better than none
                    log.error("values could not be sampled", exc_info=error)

    def _take(self) -> None:
        now_ns = time.time_ns()
        for metric, keys, values in [*self._gauges(now_ns), *self._labels()]:
            if len(keys) > MAX_PLACES:
                top = np.argpartition(values, len(values) - MAX_PLACES)[-MAX_PLACES:]
                keys, values = keys[top], values[top]
            order = np.argsort(keys)
            keys, values = keys[order], values[order]
            kept = self._kept.setdefault(metric, deque(maxlen=KEPT))
            if kept and np.array_equal(kept[-1].keys, keys):
                keys = kept[-1].keys
            kept.append(Sample(now_ns, keys, values.astype(np.uint32)))

    def _gauges(self, now_ns: int) -> Iterator[tuple[str, Words, npt.NDArray[np.uint32]]]:
        """The newest values of the port table, or a higher value if there was one since the last sample."""
        rows = self._state.ports()
        by_port = queues_by_port(rows)
        rows = rows[now_ns - rows["last_ns"] < FRESH_NS]
        for metric, kind, slot in _GAUGES:
            mine = rows[(rows["kind"] == kind) & (rows["state"] >> slot & 1 > 0)]
            keys = _port_keys(mine, kind, by_port)
            values, highest = mine["latest"][:, slot].copy(), mine["highest"][:, slot]
            before = self._highest.get(metric)
            if before is not None:
                _, here, there = np.intersect1d(keys, before[0], return_indices=True)
                risen = here[highest[here] > before[1][there]]
                values[risen] = np.maximum(values[risen], highest[risen])
            self._highest[metric] = keys, highest.copy()
            yield metric, keys, values

    def _labels(self) -> Iterator[tuple[str, Words, npt.NDArray[np.uint32]]]:
        now_ns, rows = self._state.labels.copy()
        if not len(rows):
            return
        keys = keys_of(rows["node_id"], ports_of(rows["port"]))
        fresh = now_ns - rows["received_ns"] < FRESH_NS
        yield "label_latency", keys[fresh], rows["latency_ns"][fresh]
        yield "label_occupancy", keys[fresh], rows["occupancy"][fresh]
        age = np.clip(now_ns - rows["received_ns"], 0, 0xFFFFFFFE)
        busy = (rows["traffic"] != 1) & (rows["labels"] > 0)
        yield "label_age", keys[busy], age[busy].astype(np.uint32)


def _port_keys(rows: Records, kind: PortKind, by_port: bool) -> Words:
    if kind == PortKind.EGRESS:
        return keys_of(rows["node_id"], rows["ident"])
    if kind == PortKind.BUFFER:
        return keys_of(rows["node_id"], np.full(len(rows), UNKNOWN), rows["ident"])
    port = rows["key"] >> np.uint64(40) & np.uint64(0xFFFF) if by_port else rows["port"]
    return keys_of(rows["node_id"], ports_of(port), rows["ident"])
