"""Places of the map: a record for each egress port of each switch, with the node that it leads to and its
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from ...detect.places import Words
from ...wire.records import Records

FabricMetric = Literal["hop_latency", "queue_occupancy", "link_utilization", "drops", "label_age"]
METRICS: tuple[FabricMetric, ...] = (
    "hop_latency",
    "queue_occupancy",
    "link_utilization",
    "drops",
    "label_age",
)
"""Metrics by which the map can be coloured."""
UNITS: dict[FabricMetric, str | None] = {"hop_latency": "ns", "drops": "packets", "label_age": "ns"}
"""Units of the metrics; others have the unit that the switches use."""
NONE = -1
Ints = npt.NDArray[np.int64]
Numbers = TypeVar("Numbers", Ints, Words)

PLACE = np.dtype(
    [
        ("place", "<u8"),  # node and egress port, by `detect.places`; all arrays of places are sorted by it
        ("next", "<i8"),  # node that the port leads to; NONE: hosts, another network, or unknown
        ("next_port", "<i8"),  # ingress port of that node; NONE: unknown
        ("last_ns", "<i8"),  # when a flow was last seen there
        ("flows", "<i4"),  # number of live flows through it
        ("sources", "u1"),  # bit 0: paths, 1: LLDP, 2: a file
        ("disputed", "u1"),  # 1: sources disagree about the next node
        ("latest", "<f8", (len(METRICS),)),  # by METRICS; NaN: unknown. Drops: since the start
        ("highest", "<f8", (len(METRICS),)),  # within the window; drops: their number in it
        ("alarm", "?", (len(METRICS),)),  # above its limit
    ]
)
FROM_PATHS, FROM_LLDP, FROM_FILE = 1, 2, 4
SOURCES = {FROM_FILE: "file", FROM_LLDP: "lldp", FROM_PATHS: "paths"}
"""The sources that say where a port leads."""


def new_places(places: Words) -> Records:
    """PLACE [places] without values; `places` are sorted and unique."""
    rows = np.zeros(len(places), PLACE)
    rows["place"] = places
    rows["next"] = rows["next_port"] = NONE
    rows["latest"] = rows["highest"] = np.nan
    return rows


def found_at(sorted_places: Numbers, places: Numbers) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Row of each of `places` in `sorted_places`, and whether it is contained."""
    at = np.searchsorted(sorted_places, places)
    if not len(sorted_places):
        return at, np.zeros(len(places), bool)
    return at, sorted_places[np.minimum(at, len(sorted_places) - 1)] == places


def united(parts: Sequence[Numbers]) -> Numbers:
    """All places, or nodes, sorted and unique."""
    every = np.sort(np.concatenate(parts))  # np.unique takes five times as long
    return np.asarray(every[np.append(True, every[1:] != every[:-1])[: len(every)]])


def raise_to(rows: Records, column: str, metric: int, places: Words, values: npt.ArrayLike) -> None:
    """Raise the value of each of these places to the highest one given for it; places may occur several
    times.
    """
    at, there = found_at(rows["place"], places)
    found = np.full(len(rows), np.nan)  # a contiguous array, for which `ufunc.at` is fast
    np.fmax.at(found, at[there], np.asarray(values, np.float64)[there])
    rows[column][:, metric] = np.fmax(rows[column][:, metric], found)
