"""The newest events, with similar ones joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.hash_rows import hash_rows
from ...base.names import Names
from ...detect.records import OF_SOURCE
from ...present.events import continues, event_object, long_paths
from ...wire.records import Records

SHOWN = 40
"""Maximum number of joined events that a feed shows."""


Shown = tuple[tuple[dict[str, Any], int], ...]
"""Events as API objects, each with the number of similar ones in its second; newest first."""


class SimilarEvents:
    """The newest events; similar events of different flows within a second are joined and counted."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[dict[str, Any], int]] = {}

    def add(self, events: Records, names: Names) -> None:
        """Add EVENT records, oldest first. Only those that will be shown become objects."""
        paths = long_paths(events)
        events = events[~continues(events)]
        keys, last, counts = np.unique(_likeness(events)[::-1], return_index=True, return_counts=True)
        order = np.argsort(last)[:SHOWN][::-1]
        for key, at, count in zip(
            keys[order].tolist(), last[order].tolist(), counts[order].tolist(), strict=True
        ):
            _, before = self._rows.pop(key, ({}, 0))
            self._rows[key] = event_object(events[len(events) - 1 - at], names, paths), before + count
        for key in list(self._rows)[:-SHOWN]:
            del self._rows[key]

    def shown(self) -> Shown:
        """The joined events, newest first."""
        return tuple(reversed(self._rows.values()))


def _likeness(events: Records) -> npt.NDArray[np.uint64]:
    """A number per event, equal for events that one row can represent."""
    source = np.isin(events["kind"], OF_SOURCE)
    return hash_rows(
        events["time_ns"] // 10**9,
        events["kind"],
        events["metric"],
        events["node_id"],
        events["port"],
        events["ident"],
        np.where(source, events["src_lo"] ^ events["src_hi"], 0),
    )
