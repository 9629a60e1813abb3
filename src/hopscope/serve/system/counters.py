"""Every counter of every process, with its rate over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...base.counter import Counter
from ...bpf.wire_layout import WireCount
from ...cluster.counters import CLUSTER_COUNTERS
from ...control.counters import CONTROL_COUNTERS
from ...detect.counters import COUNTERS, INDEX
from ...detect.records import Kind, Metric
from ...detect.sink.records import Type
from ...direct.counters import TRANSLATOR_COUNTERS
from ...history.counters import HISTORY_COUNTERS
from ...labels.counters import LABEL_COUNTERS
from ...lake.counters import LAKE_COUNTERS
from ...memory.counter_region import CounterFile
from ...naming.counters import NAMES_COUNTERS
from ...present.collector_state import RATE_SECONDS, CollectorState
from ...rdma.counters import NIC_COUNTERS
from ...settings.configuration.descriptions import member_descriptions
from ...wire.reasons import DropReason, DtaReason, Reason

_OF_STATE = {
    "archive": HISTORY_COUNTERS,
    "labels": LABEL_COUNTERS,
    "names": NAMES_COUNTERS,
    "control": CONTROL_COUNTERS,
    "cluster": CLUSTER_COUNTERS,
    "lake": LAKE_COUNTERS,
}
"""Counters in the folder of regions, by process."""
_OF_STORES = {"translator": TRANSLATOR_COUNTERS, "nic": NIC_COUNTERS}
"""Counters in the folder of the stores, by process."""
_KEPT = 8
"""How many readings are kept."""
_MEMBERS = {
    "rejected_reports_total": Reason,
    "label_rejected_total": Reason,
    "forward_drops_total": DropReason,
    "events_total": Kind,
    "alarms": Metric,
    "sink_events_total": Type,
    "sink_throttled_events_total": Type,
    "dta_rejected_total": DtaReason,
    "xdp_passed_frames_total": WireCount,
}
"""Families whose label is a member of an enumeration, with that enumeration, which states its meaning."""


@dataclass(frozen=True, slots=True)
class Count:
    """A counter of a process, in the unit of `Counter.metric`."""

    process: str
    counter: Counter
    value: float
    per_second: float


def meaning(counter: Counter) -> str:
    """Meaning of the value of its label; empty: see the counter's help."""
    if counter.label is None or counter.name not in _MEMBERS:
        return ""
    members = _MEMBERS[counter.name]
    label = counter.label[1].upper()
    return member_descriptions(members).get(label, "") if label in members.__members__ else ""


class CounterReadings:
    """Reads the counters of all processes, and remembers readings for rates. One thread uses it at a time."""

    def __init__(self, state: CollectorState, stores: Path) -> None:
        self._state, self._stores = state, stores
        self._readings: dict[str, deque[tuple[float, dict[str, int]]]] = {}

    def counts(self) -> Iterator[Count]:
        """The sum of workers and detector, then the other processes that have counted anything."""
        totals, rates = self._state.counters(), self._state.rates()
        if totals.processes:
            for counter in COUNTERS:
                slot = INDEX[counter.key]
                value, rate = int(totals.total[slot]), float(rates.total[slot])
                yield Count("workers", counter, counter.exposed(value), counter.exposed(rate))
        for files, folder in ((_OF_STATE, self._state.regions), (_OF_STORES, self._stores)):
            for process, file in files.items():
                if (folder / file.name).exists():
                    yield from self._of_file(process, file, folder)

    def _of_file(self, process: str, file: CounterFile, folder: Path) -> Iterator[Count]:
        now, values = time.monotonic(), file.read(folder)
        seconds, before = self._earlier(process, now, values)
        for counter in file.counters:
            value, old = values[counter.key], before.get(counter.key, 0)
            fell = 0 if counter.gauge else value  # the process was restarted
            grown = value - old if value >= old else fell
            rate = grown / seconds if seconds else 0.0
            yield Count(process, counter, counter.exposed(value), counter.exposed(rate))

    def _earlier(self, process: str, now: float, values: dict[str, int]) -> tuple[float, Mapping[str, int]]:
        """(seconds since the reading, reading) of the latest reading that is at least RATE_SECONDS old."""
        readings = self._readings.setdefault(process, deque(maxlen=_KEPT))
        found = next((each for each in reversed(readings) if now - each[0] >= RATE_SECONDS), None)
        if found is None:
            found = readings[0] if readings else (now, values)
        if not readings or now - readings[-1][0] >= RATE_SECONDS / 2:
            readings.append((now, values))
        return now - found[0], found[1]
