"""Heat maps equal those that are made of one event and one sample after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from hopscope.detect.places import keys_of_places
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, Kind, Metric
from hopscope.history.files.segments import write_segment
from hopscope.history.query import History
from hopscope.present.series.heat_map import HeatRow, Sort, find_highest
from hopscope.present.series.places import Buckets, Place
from hopscope.present.series.samples import Sample, Samples
from support.events.event_make import START_NS, Events
from support.events.in_parts import InParts

BUCKETS = Buckets.of(START_NS, START_NS + 90 * 10**9, 30)


def made(metric: Metric, count: int = 4000) -> Events:
    """Values of a metric, some of unknown places and equal to others, and drop reports."""
    rng = np.random.default_rng(3)
    events = np.zeros(count, EVENT)
    events["sequence"], events["metric"] = np.arange(count), metric
    events["time_ns"] = START_NS + np.sort(rng.integers(-(10**10), 10**11, count))
    events["kind"] = rng.choice([Kind.NEW_KEY, Kind.CHANGE, Kind.FLOW_RECORD], count)
    lost = rng.random(count) < 0.2
    events["kind"][lost], events["metric"][lost] = Kind.DROP, Metric.NONE
    events["node_id"] = rng.choice([*range(1, 30), NO_NODE], count)
    events["port"] = rng.choice([0, 1, 400, NO_PORT], count)
    wide = metric in (Metric.LINK_UTILIZATION, Metric.BUFFER_OCCUPANCY)
    events["ident"] = rng.choice([0, 1, 65_536, 65_537] if wide else [0, 1, 255], count)
    events["value"] = rng.integers(0, 40, count)
    return events


def place_in(row: np.void, metric: str) -> Place:
    """Where the value of an event is from."""
    port = None if row["port"] == NO_PORT else int(row["port"])
    port = {"link_utilization": int(row["ident"]), "buffer_occupancy": None}.get(metric, port)
    return Place(int(row["node_id"]), port, int(row["ident"]) if metric.endswith("occupancy") else None)


class Sampled:
    """Samples of two moments, one of them also of places without events."""

    def __init__(self, places: list[Place]) -> None:
        rng = np.random.default_rng(4)
        more = [Place(2, None, None), Place(99, 7, 1), Place(100, None, 2)]
        self.samples = []
        for at, chosen in ((2, places[::3]), (12, places[::2] + more)):
            keys = np.unique(keys_of_places(chosen))
            self.samples.append((at, Sample(at, keys, rng.integers(0, 60, len(keys)).astype(np.uint32))))
        every = places + more
        self.places = dict(zip(keys_of_places(every).tolist(), every, strict=True))

    def over(self, metric: str, buckets: Buckets) -> list[tuple[int, Sample]]:
        """As `Samples.over`."""
        return self.samples


class ByHand:
    """The same of one event after the other: values by bucket, highest values and events of each place."""

    def __init__(self, events: Events, metric: str, samples: Sampled | None, nodes: tuple[int, ...]) -> None:
        self.cells: defaultdict[Place, Counter[int]] = defaultdict(Counter)
        self.seen: Counter[Place] = Counter()
        for row in events:
            at = BUCKETS.at(int(row["time_ns"]))
            mine = row["kind"] == Kind.DROP if metric == "drop" else row["metric"] == Metric[metric.upper()]
            if at is None or row["node_id"] == NO_NODE or not mine or row["kind"] == Kind.FLOW_RECORD:
                continue
            place = place_in(row, metric)
            if nodes and place.node not in nodes:
                continue
            self.seen[place] += 1
            before = self.cells[place].get(at, 0)
            self.cells[place][at] = before + 1 if metric == "drop" else max(before, int(row["value"]))
        self.peaks = {
            place: self.seen[place] if metric == "drop" else max(values.values())
            for place, values in self.cells.items()
        }
        for at, sample in samples.samples if samples else ():
            for key, value in zip(sample.keys.tolist(), sample.values.tolist(), strict=True):
                place = cast(Sampled, samples).places[key]
                if not nodes or place.node in nodes:
                    self.peaks[place] = max(self.peaks.get(place, 0), value)
                    self.cells[place][at] = max(self.cells[place].get(at, 0), value)

    def highest(self, rows: int, sort: Sort) -> tuple[int, list[HeatRow]]:
        """As `find_highest`."""

        def order(place: Place) -> list[int]:
            return [-1 if part is None else part for part in place]

        def rank(place: Place) -> Any:
            return (-self.seen[place] if sort == "events" else 0, -self.peaks[place], order(place))

        chosen = sorted((place for place in self.peaks if self.peaks[place]), key=rank)[:rows]
        if sort == "place":
            chosen.sort(key=order)
        return len(self.peaks), [
            HeatRow(
                place,
                self.peaks[place],
                self.seen[place],
                [self.cells[place].get(at) for at in range(BUCKETS.count)],
            )
            for place in chosen
        ]


@pytest.mark.parametrize("kind", [History, InParts], ids=["at once", "in parts"])
@pytest.mark.parametrize(
    "metric", ["queue_occupancy", "buffer_occupancy", "link_utilization", "hop_latency", "drop"]
)
def test_heat_maps_equal_brute_force(tmp_path: Path, metric: str, kind: type[History]) -> None:
    """Places, their number, order, peaks, events and values, with and without samples; also if there are more
    places than a query has memory for, and of ports and buffers whose ids differ by 65,536.
    """
    events = made(Metric.HOP_LATENCY if metric == "drop" else Metric[metric.upper()])
    (tmp_path / "segments").mkdir()
    write_segment(tmp_path, events)
    places = list(dict.fromkeys(place_in(row, metric) for row in events if row["node_id"] != NO_NODE))
    sorts: tuple[Sort, ...] = ("peak", "events", "place")
    with kind(tmp_path) as history:
        for samples in (None,) if metric == "drop" else (None, Sampled(places)):
            given = cast(Samples | None, samples)
            for counts, nodes in (((10, 1000), ()), ((200,), (2, 7, 99))):
                expected = ByHand(events, metric, samples, nodes)
                for sort, rows in product(sorts, counts):
                    total, found, _ = find_highest(history, metric, BUCKETS, rows, sort, given, nodes)
                    assert (total, found) == expected.highest(rows, sort)
                    assert found
        late = Buckets.of(START_NS + 10**12, START_NS + 10**12 + 1, 10)
        assert find_highest(history, metric, late, 10, "peak", None) == (0, [], None)
